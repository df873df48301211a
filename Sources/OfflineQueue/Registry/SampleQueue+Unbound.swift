import Basics
import GRDB

/// What waits under an assignment without an enrollment: nothing delivers it until the assignment is bound.
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
}

extension SampleQueue {
    /// The assignments without an enrollment under which samples wait, oldest first.
    public func unboundSamples() throws(QueueError) -> [UnboundSamples] {
        try read("list samples without an enrollment") { db in
            let assignments = try db.assignments(where: "a.enrollment IS NULL")
            return try assignments.compactMap { try Self.unboundSamples(db, of: $0) }
        }
    }

    private static func unboundSamples(
        _ db: Database, of assignment: Assignment
    ) throws -> UnboundSamples? {
        let view = BooksView.own
        let row = try Row.fetchOne(
            db,
            sql: """
                SELECT sum(\(view.unsent)), min(\(view.oldest)), max(\(view.newest)),
                    \(isRecordingSQL)
                \(view.sql) WHERE a.id = ?
                """, arguments: [assignment.id])
        guard let row, let samples = row[0] as Int?, samples > 0 else { return nil }
        var times: ClosedRange<UTC>?
        if let first = row[1] as UTC?, let last = row[2] as UTC? {
            times = first...max(first, last)
        }
        return UnboundSamples(
            assignment: assignment, samples: samples, times: times, isRecording: row[3] ?? false)
    }

    /// Whether a strap that can be paired again records under an assignment (`a`). A salvage may have left one open
    /// whose sensor it had to make up.
    static let isRecordingSQL = """
        (a.ended_boot IS NULL
            AND EXISTS (SELECT 1 FROM sensor n WHERE n.id = a.sensor AND NOT n.is_forgotten))
        """
}
