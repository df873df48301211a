import GRDB

/// What waits to be delivered through one enrollment, and could be.
public struct WaitingSamples: Sendable, Hashable {
    /// How many, committed and with a known time; none of a patient whose samples are held.
    public var count = 0
    /// When the oldest arrived, UTC µs; nil if none waits.
    public var oldestMicroseconds: Int64?
}

extension SampleQueue {
    /// What waits for its turn in the delivery of `enrollment`; nothing while all of it is held.
    public func waiting(enrollment: Int64) throws(QueueError) -> WaitingSamples {
        let held = patientHolds[enrollment].map { Set($0.keys) } ?? []
        return try read("read what waits") { db in
            let row = try Row.fetchOne(
                db.cachedStatement(sql: "SELECT state, hold_reason FROM enrollment WHERE id = ?"),
                arguments: [enrollment])
            guard let row, row[0] == Enrollment.State.active.rawValue, row[1] as String? == nil
            else { return WaitingSamples() }
            var waiting = WaitingSamples()
            let rows = try Row.fetchCursor(
                db.cachedStatement(sql: Self.waitingSQL), arguments: [enrollment])
            while let row = try rows.next() {
                if let patient = row[0] as String?, held.contains(patient) { continue }
                waiting.count += row[1] ?? 0
                guard let oldest = row[2] as Int64? else { continue }
                waiting.oldestMicroseconds = min(waiting.oldestMicroseconds ?? oldest, oldest)
            }
            return waiting
        }
    }

    private static let waitingSQL = """
        SELECT a.patient, sum(s.stored - s.delivered - s.dead - s.dropped), min(\(oldestOfSegmentSQL))
        \(segmentJoins)
        WHERE a.enrollment = ? AND b.wall_offset_us IS NOT NULL
            AND s.stored - s.delivered - s.dead - s.dropped > 0
        GROUP BY a.patient
        """

    /// The time of the first sample behind a segment's cursor; NULL if there is none.
    static let oldestOfSegmentSQL = """
        (SELECT coalesce(p.wall_us, p.uptime_us + b.wall_offset_us) FROM sample p
        WHERE p.id > s.settled_through AND p.id <= s.last_sample AND p.segment = s.id
        ORDER BY p.id LIMIT 1)
        """
}
