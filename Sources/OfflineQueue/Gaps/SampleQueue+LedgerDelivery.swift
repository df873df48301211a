import Basics
import GRDB

extension SampleQueue {
    /// The most days of one assignment that are made at a time: a gateway that was off for a year says so
    /// bit by bit.
    static let ledgerDaysMax = 31

    /// The reports that a destination has not had yet of gaps that are over and of days that are over: either
    /// gaps or days, of each assignment in order, `limit` at most. Empty while ``presentTime`` is not known, and while
    /// a broken store is being saved.
    ///
    /// A gap in a boot whose clock may still become trusted waits, and one of a silence that goes on, which frames that
    /// come late may shorten; with it waits what follows.
    ///
    /// - Parameters:
    ///   - enrollment: the destination.
    ///   - limit: entries at most.
    ///   - assignments: which are left out.
    public func nextLedgerEntries(
        enrollment: Int64, limit: Int, except assignments: Set<Int64> = []
    ) throws(QueueError) -> [LedgerEntry] {
        let now = clock.read().uptime
        // A day is sent once, so not before all its frames can have arrived.
        guard let time = presentTime else { return [] }
        let today = (time - settings.framesUnderWayMax).day
        return try read("read gap ledger") { [boot = run.boot] db in
            let isSaving = "SELECT EXISTS (SELECT 1 FROM salvage WHERE is_done = 0)"
            guard try Bool.fetchOne(db, sql: isSaving) != true else { return [] }
            let boots = try Boots(db)
            let lines = try LedgerLine.fetchAll(db, enrollment: enrollment)
                .filter { !assignments.contains($0.id) }
            var gaps: [LedgerEntry] = []
            for line in lines where gaps.count < limit {
                let silence = ledgers.mayChange(line.id, at: now)
                    .map { Instant(boot: boot, uptime: $0) }
                gaps += try line.gaps(
                    db, boots, running: boot, before: silence, limit: limit - gaps.count)
            }
            guard gaps.isEmpty else { return gaps }
            var unstored: [Int64: [GapRow]]?
            var days: [LedgerEntry] = []
            for line in lines where days.count < limit && line.mayHaveDays(before: today, boots) {
                let open =
                    try unstored
                    ?? Dictionary(grouping: unstoredGaps(db, at: now), by: \.assignment)
                unstored = open
                let spans = try timeLine(
                    db, of: line.row, now: now, unstored: open
                ).spans(boots)
                let most = min(limit - days.count, Self.ledgerDaysMax)
                days += line.days(spans, before: today, boots).prefix(most)
            }
            return days
        }
    }

    /// Notes that a destination has these entries.
    public func settleLedger(
        enrollment: Int64, _ entries: [LedgerEntry]
    ) throws(QueueError) {
        guard !entries.isEmpty else { return }
        try write("settle gap ledger") { db in
            for entry in entries {
                try db.setLedgerCursor(
                    of: entry.assignmentID, destination: enrollment, entry.cursor)
            }
        }
    }
}

extension Database {
    /// A destination whose samples begin now gets the gaps and days that come from now on.
    func beginLedger(of assignment: Int64, destination: Int64, today: Int64) throws {
        let latest = try Row.fetchOne(
            self,
            sql: """
                SELECT from_boot, from_uptime_us FROM gap
                WHERE assignment = ? AND until_boot IS NOT NULL
                ORDER BY from_boot DESC, from_uptime_us DESC LIMIT 1
                """, arguments: [assignment])
        let gap = latest.flatMap { Instant($0, at: 0) } ?? .unknown
        try setLedgerCursor(
            of: assignment, destination: destination, LedgerCursor(gap: gap, day: today - 1))
    }

    fileprivate func setLedgerCursor(
        of assignment: Int64, destination: Int64, _ cursor: LedgerCursor
    ) throws {
        // The assignment may have been erased meanwhile.
        try cachedStatement(
            sql: """
                INSERT INTO ledger_delivery (assignment, destination, gap_boot, gap_uptime_us, day)
                SELECT id, ?2, ?3, ?4, ?5 FROM assignment WHERE id = ?1
                ON CONFLICT DO UPDATE SET gap_boot = excluded.gap_boot,
                    gap_uptime_us = excluded.gap_uptime_us, day = excluded.day
                """
        ).execute(arguments: [
            assignment, destination, cursor.gap.boot, cursor.gap.uptime, cursor.day,
        ])
    }
}

/// One assignment, with how far a destination has been told of its ledger.
private struct LedgerLine {
    let row: Row
    let id: Int64
    let sensor: Int64
    let patient: String?
    let cursor: LedgerCursor

    /// The assignments whose samples go to a destination.
    static func fetchAll(_ db: Database, enrollment: Int64) throws -> [LedgerLine] {
        try Row.fetchAll(
            db,
            sql: """
                SELECT a.*, l.gap_boot, l.gap_uptime_us, l.day AS ledger_day,
                    CASE WHEN a.enrollment = ?1 THEN \(PendingSegment.patientSQL(isFurther: false))
                        ELSE \(PendingSegment.patientSQL(isFurther: true)) END AS named
                FROM assignment a
                LEFT JOIN ledger_delivery l ON l.assignment = a.id AND l.destination = ?1
                WHERE NOT a.is_imported AND (a.enrollment = ?1 OR EXISTS (
                    SELECT 1 FROM further_destination f
                    WHERE f.assignment = a.id AND f.destination = ?1 AND f.state = 'active'))
                ORDER BY a.id
                """, arguments: [enrollment]
        ).map { row in
            LedgerLine(
                row: row, id: row["id"] ?? 0, sensor: row["sensor"] ?? 0, patient: row["named"],
                cursor: LedgerCursor(
                    gap: Instant(row, "gap") ?? .unknown, day: row["ledger_day"] ?? 0))
        }
    }

    /// The gaps that are over and come after the cursor, up to the one that may still change.
    func gaps(
        _ db: Database, _ boots: Boots, running: Int64, before silence: Instant?, limit: Int
    ) throws -> [LedgerEntry] {
        var entries: [LedgerEntry] = []
        let told = UTC(day: cursor.day + 1)
        for gap in try GapRow.next(db, of: id, after: cursor.gap, told: told, limit: limit) {
            let isPlaced = boots.utc(gap.from) != nil && boots.utc(gap.until) != nil
            if !isPlaced, gap.until.boot == running { break }
            if let silence, gap.from >= silence { break }
            var next = cursor
            next.gap = gap.from
            let content = gap.gap(boots)
            entries.append(
                LedgerEntry(
                    id: "\(boots.id(gap.from.boot))-\(gap.from.uptime.microseconds)-\(id)",
                    assignmentID: id, sensorID: sensor, patient: patient,
                    content: .gap(
                        content.cause, from: content.from, until: content.until,
                        length: content.duration),
                    cursor: next))
        }
        return entries
    }

    private var begin: Instant { Instant(row, "began") ?? .unknown }

    /// Whether a day before `today` is still to be told; cheap.
    func mayHaveDays(before today: Int64, _ boots: Boots) -> Bool {
        let last = Instant(row, "ended").flatMap { boots.utc($0) }?.day
        return cursor.day < min(today - 1, last ?? .max)
    }

    /// The coverage of the days after the cursor and before `today`, at most
    /// ``SampleQueue/ledgerDaysMax``.
    func days(_ spans: [TimeSpan], before today: Int64, _ boots: Boots) -> [LedgerEntry] {
        guard let first = spans.first, let last = spans.last else { return [] }
        let begins = max(cursor.day + 1, first.from.day)
        let ends = min(today, last.until.day + 1)
        guard begins < ends else { return [] }
        return (begins..<min(ends, begins + Int64(SampleQueue.ledgerDaysMax))).map { day in
            var coverage = Coverage(dayStart: UTC(day: day))
            coverage.add(spans)
            var next = cursor
            next.day = day
            return LedgerEntry(
                id: "\(boots.id(begin.boot))-\(begin.uptime.microseconds)-\(id)-\(day)",
                assignmentID: id, sensorID: sensor, patient: patient,
                content: .coverage(day: day, coverage), cursor: next)
        }
    }
}
