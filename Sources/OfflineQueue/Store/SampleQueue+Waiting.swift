import Basics
import GRDB

/// The samples that wait to be delivered through one enrollment, and could be.
public struct WaitingSamples: Sendable, Hashable {
    /// How many, committed and with a known time; none of a patient whose samples are held.
    public var count = 0
    /// When the oldest arrived; nil if none waits.
    public internal(set) var oldest: UTC?
}

extension SampleQueue {
    /// The samples that wait for their turn in the delivery of `enrollment`; nothing while all of it is held.
    public func waiting(enrollment: Int64) throws(QueueError) -> WaitingSamples {
        let held = deliveries.patientHolds[enrollment].map { Set($0.keys) } ?? []
        return try read("read what waits") { db in
            let row = try Row.fetchOne(
                db.cachedStatement(sql: "SELECT state, hold_reason FROM enrollment WHERE id = ?"),
                arguments: [enrollment])
            guard let row, row[0] == Enrollment.State.active.rawValue, row[1] as String? == nil
            else { return WaitingSamples() }
            var waiting = WaitingSamples()
            for sql in Self.waitingSQL {
                let rows = try Row.fetchCursor(
                    db.cachedStatement(sql: sql), arguments: [enrollment])
                while let row = try rows.next() {
                    if let patient = row[0] as String?, held.contains(patient) { continue }
                    waiting.count += row[1] ?? 0
                    guard let oldest = row[2] as UTC? else { continue }
                    waiting.oldest = min(waiting.oldest ?? oldest, oldest)
                }
            }
            return waiting
        }
    }

    private static let waitingSQL = BooksView.allCases.map { view in
        """
        SELECT \(view.patient) AS named, sum(\(view.unsent)), min(\(view.oldest))
        \(view.sql)
        WHERE \(view.destination) = ? AND s.wall_offset_us IS NOT NULL AND \(view.unsent) > 0
        GROUP BY named
        """
    }
}
