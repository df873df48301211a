import GRDB

/// Sums over all segments, for the rules that check whether samples move.
public struct StoreTotals: Sendable, Hashable {
    /// Frames of each sensor that were written, readable or not, by the sensor's number.
    public var received: [Int64: Int] = [:]
    /// What each enrollment has settled (delivered, dead or dropped), by its number.
    public var settled: [Int64: Int] = [:]
    /// What waits for each enrollment and is not held, by its number.
    public var pending: [Int64: Int] = [:]
    /// Samples that are dead letters.
    public var dead = 0
    /// Samples held because no enrollment delivers them.
    public var notEnrolled = 0
    /// Of these, those under assignments that no strap records under any more: no pairing binds them.
    public var notEnrolledEnded = 0
    /// Samples of other boots than the running one that are held because their time is not known
    /// (`clock-unknown`): no clock that is trusted later gives it to them.
    public var clockUnknown = 0
    /// Samples that were refused or dropped, not by a person's decision, and not acknowledged yet, by reason.
    public var lost: [String: Int] = [:]
}

extension SampleQueue {
    /// Counts everything in one walk through the segments' counters; no sample row is read.
    public func totals() throws(QueueError) -> StoreTotals {
        try read("read totals") { [holds = deliveries.patientHolds, running = run.boot] db in
            var totals = StoreTotals()
            for view in BooksView.allCases { try totals.add(db, view, holds) }
            totals.clockUnknown = try Self.clockUnknown(db, besides: running)
            totals.lost = try Self.unacknowledgedLosses(db)
            return totals
        }
    }

    /// What waits for the time of a boot that is over. A sample counts once, as long as any destination
    /// waits for it.
    private static func clockUnknown(_ db: Database, besides running: Int64) throws -> Int {
        let boots = "SELECT id FROM boot WHERE wall_offset_us IS NULL AND id <> ?"
        // Mostly there is no such boot: then no segment is looked at.
        guard try Int64.fetchOne(db, sql: boots, arguments: [running]) != nil else { return 0 }
        // Without an enrollment they are held for that reason, and count there.
        return try Int.fetchOne(
            db,
            sql: """
                SELECT sum(max(
                    CASE WHEN a.enrollment IS NULL THEN 0 ELSE \(BooksView.own.unsent) END,
                    coalesce((SELECT max(\(BooksView.further.unsent)) FROM further_delivery f
                        WHERE f.segment = s.id), 0)))
                FROM segment s JOIN assignment a ON a.id = s.assignment
                WHERE s.run IN (SELECT id FROM run WHERE boot IN (\(boots)))
                """, arguments: [running]) ?? 0
    }
}

extension StoreTotals {
    fileprivate mutating func add(
        _ db: Database, _ view: SampleQueue.BooksView, _ patientHolds: [Int64: [String: String]]
    ) throws {
        let books = view.books
        let sums = try Row.fetchCursor(
            db,
            sql: """
                SELECT \(view.hold) AS hold, a.sensor, \(view.destination) AS destination,
                    \(view.patient) AS named, sum(s.received), sum(\(books).dead),
                    sum(\(books).delivered + \(books).dead + \(books).dropped),
                    sum(\(view.unsent)), \(SampleQueue.isRecordingSQL) AS is_recording
                \(view.sql) GROUP BY hold, a.sensor, destination, named, is_recording
                """)
        while let row = try sums.next() {
            guard let sensor = row[1] as Int64? else { continue }
            // Each frame once, however many destinations it has.
            if view == .own { received[sensor, default: 0] += row[4] ?? 0 }
            dead += row[5] ?? 0
            let unsent: Int = row[7] ?? 0
            guard let destination = row[2] as Int64? else {
                notEnrolled += unsent
                if row[8] == false { notEnrolledEnded += unsent }
                continue
            }
            settled[destination, default: 0] += row[6] ?? 0
            let patientHold = (row[3] as String?).flatMap { patientHolds[destination]?[$0] }
            if row[0] as String? == nil, patientHold == nil {
                pending[destination, default: 0] += unsent
            }
        }
    }
}
