import Basics
import GRDB

/// The samples that wait under an assignment without an enrollment: nothing delivers it until the assignment is bound.
public struct UnboundSamples: Sendable, Hashable {
    /// The assignment, open or ended.
    public let assignment: Assignment
    /// Samples that are held as `not-enrolled`.
    public let samples: Int
    /// When the first and the last of them were measured, as far as their times are known; nil if none is.
    public let times: ClosedRange<UTC>?
    /// Whether a strap records under it still: then pairing that strap again binds it. Nobody can pair one
    /// that is forgotten.
    public let isRecording: Bool
    /// Whether nobody knows for certain who wore the strap: it changed hands within the uncertainty of their times, or a
    /// broken store did not say.
    public let isUnsure: Bool
}

extension SampleQueue {
    /// The assignments without an enrollment under which samples wait, oldest first.
    public func unboundSamples() throws(QueueError) -> [UnboundSamples] {
        try read("list samples without an enrollment") { db in
            let assignments = try db.assignments(where: "a.enrollment IS NULL")
            return try assignments.compactMap { try Self.unboundSamples(db, of: $0) }
        }
    }

    /// The reason under which samples are counted that a person has given up instead of finding them an enrollment.
    public static let discarded = "discarded"

    /// Gives up what waits under an assignment without an enrollment, as when somebody tried a strap: it is counted
    /// as dropped, reason `discarded`, and its rows stay like delivered ones; those without a known time go with the
    /// next ``prune()``. Further destinations get theirs as before, and what the strap records from now on is held
    /// again. Returns how many samples.
    ///
    /// Throws `already-set` if the assignment has an enrollment, and `unknown-reference` if there is no such
    /// assignment or nothing waits under it; then nothing has changed.
    public func discard(assignment id: Int64) throws(QueueError) -> Int {
        try flush()
        let count = try write("discard samples") { db in
            guard try db.assignment(id).enrollmentID == nil else {
                throw QueueError(.alreadySet, "discard samples", "they have an enrollment")
            }
            let count = try Self.unsent(db, of: id)
            guard count > 0 else {
                throw QueueError(.unknownReference, "discard samples", "no samples wait")
            }
            let condition = "d.further IS NULL AND s.assignment = ?"
            _ = try db.giveUpLetters(
                where: "d.is_requeued = 1 AND \(condition)", [id], reason: Self.discarded)
            _ = try db.dropWaiting(where: condition, [id], reason: Self.discarded)
            return count
        }
        // A segment of its own for what comes: a listing can then say which were discarded.
        segments.close(id)
        return count
    }

    /// Samples that wait for an assignment's own destination, or for one.
    static func unsent(_ db: Database, of assignment: Int64) throws -> Int {
        let view = BooksView.own
        return try Int.fetchOne(
            db, sql: "SELECT sum(\(view.unsent)) \(view.sql) WHERE a.id = ?",
            arguments: [assignment]) ?? 0
    }

    private static func unboundSamples(
        _ db: Database, of assignment: Assignment
    ) throws -> UnboundSamples? {
        let view = BooksView.own
        let row = try Row.fetchOne(
            db,
            sql: """
                SELECT sum(\(view.unsent)), min(\(view.oldest)), max(\(view.newest)),
                    \(isRecordingSQL),
                    (a.began_boot, a.began_uptime_us) IS (a.ended_boot, a.ended_uptime_us)
                \(view.sql) WHERE a.id = ?
                """, arguments: [assignment.id])
        guard let row, let samples = row[0] as Int?, samples > 0 else { return nil }
        var times: ClosedRange<UTC>?
        if let first = row[1] as UTC?, let last = row[2] as UTC? {
            times = first...max(first, last)
        }
        return UnboundSamples(
            assignment: assignment, samples: samples, times: times, isRecording: row[3] ?? false,
            isUnsure: row[4] ?? false)
    }

    /// Whether a strap that can be paired again records under an assignment (`a`). A salvage may have left one open
    /// whose sensor it had to make up.
    static let isRecordingSQL = """
        (a.ended_boot IS NULL
            AND EXISTS (SELECT 1 FROM sensor n WHERE n.id = a.sensor AND NOT n.is_forgotten))
        """
}
