import Basics
import Foundation
import GRDB

/// A commit that the disk refused at its last bytes, or at the sync after them: it is whole in the log, and counts when
/// the store is opened again, while its frames wait in memory still. SQLite cannot say which it will be.
///
/// Whoever opens the store again takes out of memory what is there already.
struct UnsureCommit {
    /// What tells the frames of a run apart.
    private struct Key: Hashable {
        let assignment: Int64
        let uptime: Uptime
        let frame: [UInt8]
    }

    private var stored: Set<Key> = []
    /// Refused frames that the store has counted and memory counts still, by assignment.
    private var refusals: [Int64: Int] = [:]

    /// What memory knows for certain that the store has of its run.
    struct Known: Sendable, Codable {
        /// The number that the next sample gets.
        var nextSample: Int64
        /// Uptime of the oldest frame that waits; nil if none does.
        var oldestWaiting: Uptime?
        /// Refused frames that the store has counted, by assignment.
        var refusalsWritten: [Int64: Int] = [:]
    }

    /// What the store of `db` has of a run beyond what is known.
    init(_ db: Database, run: Int64, beyond known: Known) throws {
        if let since = known.oldestWaiting {
            try findFrames(db, run: run, from: known.nextSample, since: since)
        }
        let counts = try Row.fetchAll(
            db,
            sql: """
                SELECT s.assignment, sum(l.count) AS count FROM loss l
                JOIN segment s ON s.id = l.segment
                WHERE s.run = ? AND l.kind = ? AND l.reason = ? GROUP BY s.assignment
                """,
            arguments: [run, LossKind.refused.rawValue, LossReason.storeUnwritable.rawValue])
        for row in counts {
            let assignment: Int64 = row["assignment"] ?? 0
            let count = (row["count"] ?? 0) - (known.refusalsWritten[assignment] ?? 0)
            if count > 0 { refusals[assignment] = count }
        }
    }

    private mutating func findFrames(
        _ db: Database, run: Int64, from next: Int64, since uptime: Uptime
    ) throws {
        let samples = try Row.fetchCursor(
            db,
            sql: """
                SELECT s.assignment, p.uptime_us, p.frame FROM sample p
                JOIN segment s ON s.id = p.segment
                WHERE s.run = ? AND p.id >= ? AND p.uptime_us >= ?
                """, arguments: [run, next, uptime])
        while let row = try samples.next() { insert(row) }
        let undecodable = try Row.fetchCursor(
            db,
            sql: """
                SELECT s.assignment, u.uptime_us, u.frame FROM undecodable u
                JOIN segment s ON s.id = u.segment WHERE s.run = ? AND u.uptime_us >= ?
                """, arguments: [run, uptime])
        while let row = try undecodable.next() { insert(row) }
    }

    /// Whether the store has this frame.
    func has(_ arrival: Arrival) -> Bool {
        let frame =
            arrival.faultStored == nil
            ? arrival.frame : Array(arrival.frame.prefix(Arrival.frameBytesMax))
        return stored.contains(
            Key(assignment: arrival.assignmentID, uptime: arrival.uptime, frame: frame))
    }

    /// Of so many frames, by assignment, those that the store does not have.
    func missing(_ counts: [Int64: Int]) -> [Int64: Int] {
        let found = Dictionary(grouping: stored) { $0.assignment }
        return counts.reduce(into: [:]) { left, count in
            let missing = count.value - (found[count.key]?.count ?? 0)
            if missing > 0 { left[count.key] = missing }
        }
    }

    /// What of these counts the store does not have.
    func uncounted(_ counts: [Int64: Int]) -> [Int64: Int] {
        counts.reduce(into: [:]) { left, count in
            let uncounted = count.value - (refusals[count.key] ?? 0)
            if uncounted > 0 { left[count.key] = uncounted }
        }
    }

    private mutating func insert(_ row: Row) {
        stored.insert(
            Key(
                assignment: row["assignment"] ?? 0, uptime: row["uptime_us"] ?? .zero,
                frame: (row["frame"] as Data?).map { [UInt8]($0) } ?? []))
    }
}
