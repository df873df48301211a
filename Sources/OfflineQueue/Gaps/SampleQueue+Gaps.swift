import GRDB

extension SampleQueue {
    /// How often a run in which nothing is committed writes down that it lives, µs: time that
    /// has no known cause after a power cut. A minute costs about 1,500 small commits a day.
    static let aliveMicroseconds: Int64 = 60_000_000

    /// Says what would explain a silence of this assignment's strap from now on; nil while frames are
    /// expected, because it streams.
    ///
    /// Holds until the next call: samples that come meanwhile interrupt the silence, not the cause.
    /// Nothing is written before the gap is one (``GapLedger/silenceMax``) and the next commit comes.
    /// An assignment that is not open is passed over. `uptimeMicroseconds` is `CLOCK_BOOTTIME`.
    public func note(
        _ cause: GapCause?, of assignment: Int64, at uptimeMicroseconds: Int64
    ) {
        tell(
            LedgerEvent(
                frames: buffer.count, assignment: assignment, uptime: uptimeMicroseconds,
                kind: .note(cause)))
    }

    /// Says how often this assignment's strap sends a frame, µs: a silence is a gap when it is longer than
    /// three of these, and than ``GapLedger/silenceMax``.
    public func note(cadence: Int64, of assignment: Int64, at uptimeMicroseconds: Int64) {
        tell(
            LedgerEvent(
                frames: buffer.count, assignment: assignment, uptime: uptimeMicroseconds,
                kind: .cadence(cadence)))
    }

    /// A frame was refused at the door.
    func noteRefusal(_ arrival: Arrival) {
        let uptime = arrival.uptimeMicroseconds
        let last = ledgerEvents.lastIndex { $0.assignment == arrival.assignmentID }
        if let last, case .refused(let through) = ledgerEvents[last].kind,
            !GapLedger.isGap(from: through, until: uptime)
        {
            ledgerEvents[last].kind = .refused(through: max(through, uptime))
            return
        }
        tell(
            LedgerEvent(
                frames: buffer.count, assignment: arrival.assignmentID, uptime: uptime,
                kind: .refused(through: uptime)))
    }

    /// Tells the ledgers of it, at once if no frame is before it.
    private func tell(_ event: LedgerEvent) {
        guard ledgers[event.assignment] != nil else { return }
        if buffer.isEmpty, ledgerEvents.isEmpty, run != 0 {
            ledgers.tell([], [event])
        } else if ledgerEvents.count < LedgerEvent.waitingMax || event.kind == .end {
            ledgerEvents.append(event)
        }
    }

    /// The cause that was noted last of an open assignment.
    func noted(_ assignment: Int64) -> GapCause? {
        for event in ledgerEvents.reversed() where event.assignment == assignment {
            if case .note(let cause) = event.kind { return cause }
        }
        return ledgers[assignment]?.ledger.noted
    }

    /// One transaction in which an assignment may end (`body` returns it) or begin, with the ledgers.
    ///
    /// What is in memory is stored first, so that a ledger ends after its last sample. If the disk
    /// refuses that, the ledger ends when it takes them.
    func changeAssignment<Value>(
        _ operation: String, at reading: ClockReading,
        _ body: (Database, inout [Int64: KeptLedger]) throws -> (ended: Int64?, Value)
    ) throws(QueueError) -> Value {
        try? flush()
        let isStored = buffer.isEmpty
        let uptime = clock.read().uptimeMicroseconds
        var kept = ledgers
        let (ended, value) = try write(operation) { [run, boot] db in
            let (ended, value) = try body(db, &kept)
            FaultPoint.assignmentChanged.reach()
            if isStored {
                if let ended { kept[ended]?.end(at: reading.uptimeMicroseconds) }
                try Self.keepAll(&kept, db, run: run, boot: boot, uptime: uptime)
                FaultPoint.assignmentGaps.reach()
            }
            return (ended, value)
        }
        ledgers = kept
        if !isStored, let ended {
            tell(
                LedgerEvent(
                    frames: buffer.count, assignment: ended, uptime: reading.uptimeMicroseconds,
                    kind: .end))
        }
        return value
    }

    /// While no samples come there are no commits to tell how long this run lived.
    func keepLedgersIfDue(uptime: Int64) {
        let (age, overflow) = uptime.subtractingReportingOverflow(aliveUptime)
        guard buffer.isEmpty, !ledgers.isEmpty, overflow || age >= Self.aliveMicroseconds
        else { return }
        // A failure is tried again in a minute; what could not be written is still known.
        aliveUptime = uptime
        var kept = ledgers
        do {
            try write("keep gap ledger") { [run, boot] db in
                try Self.keepAll(&kept, db, run: run, boot: boot, uptime: uptime)
                FaultPoint.ledgerKept.reach()
            }
            ledgers = kept
            committedUptime = uptime
            fault = nil
            failingSince = nil
        } catch {
            fault = error
            failingSince = failingSince ?? uptime
        }
    }

    /// Writes all ledgers as they are at `uptime`, and that this run lives.
    static func keepAll(
        _ ledgers: inout [Int64: KeptLedger], _ db: Database, run: Int64, boot: Int64,
        uptime: Int64
    ) throws {
        try keep(&ledgers, db, run: run, boot: boot, uptime: uptime)
        try setAlive(db, run: run, uptime: uptime)
    }

    /// Writes what changed in the ledgers, and forgets those that have ended.
    static func keep(
        _ ledgers: inout [Int64: KeptLedger], _ db: Database, run: Int64, boot: Int64,
        uptime: Int64
    ) throws {
        var isWritten = false
        for id in ledgers.keys.sorted() {
            let isChanged =
                try ledgers[id]?.write(db, assignment: id, boot: boot, uptime: uptime) ?? false
            isWritten = isWritten || isChanged
            if ledgers[id]?.isEnded == true { ledgers[id] = nil }
        }
        if isWritten { try setAlive(db, run: run, uptime: uptime) }
    }

    private static func setAlive(_ db: Database, run: Int64, uptime: Int64) throws {
        try db.cachedStatement(sql: "UPDATE run SET alive_uptime_us = ? WHERE id = ?")
            .execute(arguments: [uptime, run])
    }

    // MARK: - Reading

    /// Time without samples, oldest first, `limit` at most: that of one assignment, of one sensor or of
    /// all, as far as it overlaps the span from `since` to `until` (UTC µs). What is open, up to now, and gaps whose
    /// an untrusted time are among them.
    public func gaps(
        assignment: Int64? = nil, sensor: Int64? = nil, since: Int64? = nil, until: Int64? = nil,
        limit: Int = 1_000
    ) throws(QueueError) -> [Gap] {
        let now = clock.read().uptimeMicroseconds
        let limit = max(0, limit)
        return try read("list gaps") { db in
            let boots = try Boots(db)
            let unstored = try unstoredGaps(db, at: now).filter { gap in
                (assignment == nil || gap.assignment == assignment)
                    && (sensor == nil || gap.sensor == sensor)
                    && since.map { (boots.utc(gap.until) ?? .max) > $0 } ?? true
                    && until.map { (boots.utc(gap.from) ?? .min) < $0 } ?? true
            }
            let stored = try GapRow.closed(
                db, assignment: assignment, sensor: sensor, since: since, until: until,
                limit: limit)
            return (stored + unstored).sorted(by: GapRow.isEarlier).prefix(limit)
                .map { $0.gap(boots) }
        }
    }

    /// How much of a UTC day there is data for, over all assignments of `scope`: a strap's, say.
    ///
    /// Time is counted by each boot's clock as it was when it was first trusted.
    public func coverage(
        of scope: BalanceScope, dayStartingAt day: Int64
    ) throws(QueueError) -> Coverage {
        let now = clock.read().uptimeMicroseconds
        let (condition, arguments) = Self.assignments(of: scope)
        return try read("read coverage") { db in
            let boots = try Boots(db)
            let unstored = try unstoredGaps(db, at: now)
            var coverage = Coverage(dayStartMicroseconds: day)
            let rows = try Row.fetchAll(
                db, sql: "SELECT a.* FROM assignment a WHERE \(condition) ORDER BY a.id",
                arguments: arguments)
            for row in rows {
                coverage.add(
                    try timeLine(db, of: row, now: now, unstored: unstored).tiles(boots))
            }
            return coverage
        }
    }

    func timeLine(
        _ db: Database, of assignment: Row, now: Int64, unstored: [GapRow]
    ) throws -> TimeLine {
        let id: Int64 = assignment["id"] ?? 0
        let stored = try GapRow.closed(db, assignment: id, since: nil, until: nil, limit: -1)
        return TimeLine(
            begin: Instant(
                boot: assignment["began_boot"] ?? 0, uptime: assignment["began_uptime_us"] ?? 0),
            end: Instant(
                boot: assignment["ended_boot"] ?? boot, uptime: assignment["ended_uptime_us"] ?? now
            ),
            gaps: (stored + unstored.filter { $0.assignment == id })
                .sorted(by: GapRow.isEarlier))
    }

    /// The gaps that only memory knows to their end.
    func unstoredGaps(_ db: Database, at uptime: Int64) throws -> [GapRow] {
        var gaps: [GapRow] = []
        var told = ledgers
        told.tell(buffer[...], ledgerEvents)
        for (id, kept) in told.sorted(by: { $0.key < $1.key }) {
            let sensor = try Int64.fetchOne(
                db, sql: "SELECT sensor FROM assignment WHERE id = ?", arguments: [id])
            for interval in kept.unstored(at: uptime) {
                gaps.append(
                    GapRow(
                        assignment: id, sensor: sensor ?? 0, cause: interval.cause,
                        from: Instant(boot: boot, uptime: interval.from),
                        until: Instant(
                            boot: boot, uptime: interval.until ?? max(uptime, interval.from)),
                        isOpen: interval.until == nil))
            }
        }
        return gaps
    }
}
