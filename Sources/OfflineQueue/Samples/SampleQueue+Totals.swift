import Basics
import GRDB

/// Sums over all segments, for the rules that check whether samples move.
public struct StoreTotals: Sendable, Hashable {
    /// Frames of each sensor that were written, readable or not, by the sensor's number.
    public var received: [Int64: Int] = [:]
    /// The samples that each enrollment has settled (delivered, dead or dropped), by its number.
    public var settled: [Int64: Int] = [:]
    /// The samples that wait for each enrollment and are not held, by its number.
    public var pending: [Int64: Int] = [:]
    /// Samples that are dead letters.
    public var dead = 0
    /// Samples held because no enrollment delivers them.
    public var notEnrolled = 0
    /// Of these, those under assignments that no strap records under any more: no pairing binds them.
    public var notEnrolledEnded = 0
    /// Samples that are held because their time is not known (`clock-unknown`) and that no later reading of the
    /// running clock gives it to: those of other boots, and what came after the clock jumped to another date.
    public var clockUnknown = 0
    /// Samples that were refused or dropped, not by a person's decision, and not acknowledged yet, by reason.
    public var lost: [String: Int] = [:]
}

/// The outcome of the samples of one sensor.
public struct SensorCounts: Sendable, Hashable {
    /// Samples that were written to the store.
    public var stored = 0
    /// Those that are neither delivered, dead nor dropped.
    public var unsent = 0
}

extension SampleQueue {
    /// The counts of every sensor that has samples, by its number, in one walk through the segments' counters.
    public func sensorCounts() throws(QueueError) -> [Int64: SensorCounts] {
        let view = BooksView.own
        return try read("read counts") { db in
            let rows = try Row.fetchCursor(
                db.cachedStatement(
                    sql: """
                        SELECT a.sensor, sum(s.stored), sum(\(view.unsent)) \(view.sql) GROUP BY a.sensor
                        """))
            return try rows.reduce(into: [:]) { counts, row in
                counts[row[0] ?? 0] = SensorCounts(stored: row[1] ?? 0, unsent: row[2] ?? 0)
            }
        }
    }

    /// When something was last delivered, by enrollment, as far back as ``uploads(enrollment:limit:)`` goes.
    public func lastDeliveries() throws(QueueError) -> [Int64: UTC] {
        try read("list uploads") { db in
            let rows = try Row.fetchCursor(
                db.cachedStatement(
                    sql: """
                        SELECT enrollment, max(at_wall_us) FROM upload
                        WHERE outcome LIKE 'delivered%' GROUP BY enrollment
                        """))
            return try rows.reduce(into: [:]) { $0[$1[0] ?? 0] = $1[1] as UTC? }
        }
    }

    /// How many sensors' samples go to each destination now, by its number.
    public func sensorsOfDestinations() throws(QueueError) -> [Int64: Int] {
        try read("list destinations") { db in
            let rows = try Row.fetchCursor(
                db.cachedStatement(
                    sql: """
                        SELECT destination, count(*) FROM (
                            SELECT enrollment AS destination FROM assignment
                            WHERE ended_boot IS NULL AND enrollment IS NOT NULL
                            UNION ALL SELECT f.destination FROM further_destination f
                            JOIN assignment a ON a.id = f.assignment
                            WHERE a.ended_boot IS NULL AND f.state = 'active'
                                AND a.enrollment IS NOT f.destination)
                        GROUP BY destination
                        """))
            return try rows.reduce(into: [:]) { $0[$1[0] ?? 0] = $1[1] as Int? }
        }
    }

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

    /// The samples that wait for the time of a boot that is over, or whose clock has jumped. A sample counts once, as long as any destination
    /// waits for it.
    private static func clockUnknown(_ db: Database, besides running: Int64) throws -> Int {
        let boots = """
            SELECT id FROM boot
            WHERE (wall_offset_us IS NULL AND id <> ?1) OR jumped_after_us IS NOT NULL
            """
        // Mostly there is no such boot: then no segment is looked at.
        guard try Int64.fetchOne(db.cachedStatement(sql: boots), arguments: [running]) != nil else {
            return 0
        }
        // Without an enrollment they are held for that reason, and count there.
        return try Int.fetchOne(
            db,
            sql: """
                SELECT sum(max(
                    CASE WHEN a.enrollment IS NULL THEN 0 ELSE \(BooksView.own.unsent) END,
                    coalesce((SELECT max(\(BooksView.further.unsent)) FROM further_delivery f
                        WHERE f.segment = s.id), 0)))
                FROM segment s JOIN assignment a ON a.id = s.assignment
                WHERE s.wall_offset_us IS NULL
                    AND s.run IN (SELECT id FROM run WHERE boot IN (\(boots)))
                """, arguments: [running]) ?? 0
    }
}

extension StoreTotals {
    fileprivate mutating func add(
        _ db: Database, _ view: SampleQueue.BooksView, _ patientHolds: [Int64: [String?: String]]
    ) throws {
        let books = view.books
        let sums = try Row.fetchCursor(
            db.cachedStatement(
                sql: """
                    SELECT \(view.hold) AS hold, a.sensor, \(view.destination) AS destination,
                        \(view.patient) AS named, sum(s.received), sum(\(books).dead),
                        sum(\(books).delivered + \(books).dead + \(books).dropped),
                        sum(\(view.unsent)), \(SampleQueue.isRecordingSQL) AS is_recording
                    \(view.sql) GROUP BY hold, a.sensor, destination, named, is_recording
                    """))
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
            let patientHold = patientHolds[destination]?[row[3] as String?]
            if row[0] as String? == nil, patientHold == nil {
                pending[destination, default: 0] += unsent
            }
        }
    }
}
