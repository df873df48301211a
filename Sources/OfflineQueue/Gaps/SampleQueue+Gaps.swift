import Basics
import GRDB

extension SampleQueue {
    /// The longest silence of a strap that is no gap, where it does not say that it sends rarely.
    public static let silenceMax = GapLedger.silenceMax

    /// Says what would explain a silence of this sensor from `uptime` on; nil while frames are expected, because it
    /// streams.
    ///
    /// Holds until the next call: samples that come meanwhile interrupt the silence, not the cause.
    /// Nothing is written before the gap is one (``silenceMax``) and the next commit comes.
    public func note(_ cause: GapCause?, of sensor: Int64, at uptime: Uptime) {
        tell(.note(cause), of: sensor, at: uptime)
    }

    /// Says how often a sensor sends a frame: a silence is a gap when it is longer than three of these, and than
    /// ``silenceMax``.
    public func note(cadence: Duration, of sensor: Int64, at uptime: Uptime) {
        tell(.cadence(cadence), of: sensor, at: uptime)
    }

    private func tell(_ kind: LedgerEvent.Kind, of sensor: Int64, at uptime: Uptime) {
        ledgers.tell(
            LedgerEvent(
                frames: buffer.arrivals.count, sensor: sensor, uptime: uptime, kind: kind))
    }

    /// One transaction in which an assignment may end or begin, with the ledgers. Throws what a commit of the frames in
    /// memory throws, which are stored first.
    func changeAssignment<Value>(
        _ operation: String, _ body: (Database, inout GapLedgers) throws -> Value
    ) throws(QueueError) -> Value {
        try flush()
        let known = known(at: clock.read().uptime)
        var kept = ledgers
        let value = try write(operation) { [run] db in
            try kept.tellEvents(db, run)
            let value = try body(db, &kept)
            FaultPoint.assignmentChanged.reach()
            try kept.write(db, run, uptime: known)
            FaultPoint.assignmentGaps.reach()
            return value
        }
        ledgers = kept
        return value
    }

    /// While no samples come there are no commits to tell how long this run lived.
    func keepLedgersIfDue(uptime: Uptime) {
        guard buffer.isEmpty, ledgers.isAliveDue(uptime: uptime) else { return }
        var kept = ledgers
        do {
            try write("keep gap ledger") { [run, known = known(at: uptime)] db in
                try kept.tellEvents(db, run)
                try kept.write(db, run, uptime: known)
                FaultPoint.ledgerKept.reach()
            }
            ledgers = kept
            commits.fault = nil
        } catch {
            commits.fault = error
        }
    }

    /// Notes in the ledgers how long the machine was suspended. Call it before noting anything that happened since.
    func noteSuspension() {
        let uptime = clock.read().uptime
        ledgers.note(suspended: clock.suspended, at: uptime)
    }

    // MARK: - Reading

    /// Time without samples, oldest first: that of one assignment, of one sensor or of all, as far as it overlaps the
    /// span from `since` to `until`; `limit` at most, the oldest of them or the newest. What is open, up to now, and gaps
    /// of an untrusted time are among them.
    public func gaps(
        assignment: Int64? = nil, sensor: Int64? = nil, since: UTC? = nil, until: UTC? = nil,
        limit: Int = 1_000, isNewest: Bool = false
    ) throws(QueueError) -> [Gap] {
        let now = clock.read().uptime
        let limit = max(0, limit)
        return try read("list gaps") { db in
            let boots = try Boots(db)
            let unstored = try unstoredGaps(db, at: now).filter { gap in
                (assignment == nil || gap.assignment == assignment)
                    && (sensor == nil || gap.sensor == sensor)
                    && gap.overlaps(since: since, until: until, boots)
            }
            let stored = try GapRow.closed(
                db, assignment: assignment, sensor: sensor, since: since, until: until,
                limit: limit, isNewest: isNewest)
            let all = (stored + unstored).sorted(by: GapRow.isEarlier)
            return (isNewest ? all.suffix(limit) : all.prefix(limit)).map { $0.gap(boots) }
        }
    }

    /// How much of a UTC day there is data for of every sensor that was worn then, by its number, in one walk through the
    /// gaps that matter to the day.
    ///
    /// Time is counted by the newest trusted reading of each boot's clock.
    public func coverages(dayStartingAt day: UTC) throws(QueueError) -> [Int64: Coverage] {
        let now = clock.read().uptime
        return try read("read coverage") { db in
            let boots = try Boots(db)
            let stored = try GapRow.within(db, dayStartingAt: day)
            let gaps = Dictionary(
                grouping: stored + (try unstoredGaps(db, at: now)), by: \.assignment)
            var coverages: [Int64: Coverage] = [:]
            let rows = try Row.fetchCursor(
                db, sql: "SELECT a.* FROM assignment a WHERE NOT a.is_imported ORDER BY a.id")
            let end = Instant(boot: run.boot, uptime: now)
            while let row = try rows.next() {
                guard TimeLine(of: row, now: end).mayTouch(dayStartingAt: day, boots) else {
                    continue
                }
                let id: Int64 = row["id"] ?? 0
                let line = TimeLine(
                    of: row, now: end,
                    gaps: try GapRow.betweenBoots(db, of: id) + (gaps[id] ?? []))
                coverages[row["sensor"] ?? 0, default: Coverage(dayStart: day)].add(
                    line.spans(boots))
            }
            return coverages
        }
    }

    func timeLine(
        _ db: Database, of assignment: Row, now: Uptime, unstored: [Int64: [GapRow]]
    ) throws -> TimeLine {
        let id: Int64 = assignment["id"] ?? 0
        let stored = try GapRow.closed(db, assignment: id, since: nil, until: nil, limit: -1)
        return TimeLine(
            of: assignment, now: Instant(boot: run.boot, uptime: now),
            gaps: stored + (unstored[id] ?? []))
    }

    /// The gaps that only memory knows to their end.
    func unstoredGaps(_ db: Database, at uptime: Uptime) throws -> [GapRow] {
        noteSuspension()
        return try ledgers.unstored(
            db, buffer.arrivals, boot: run.boot, known: known(at: uptime), at: uptime)
    }

    /// Up to when it is known that no frame came but those that are here.
    func known(at uptime: Uptime) -> Uptime { uptime - settings.framesUnderWayMax }
}
