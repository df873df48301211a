import Basics
import GRDB

/// The gap ledgers of the assignments of this run, as of the last commit, and what came since.
struct GapLedgers: Sendable {
    /// How often a run in which nothing is committed writes down that it lives: time that
    /// has no known cause after a power cut. A minute costs about 1,500 small commits a day.
    static let alivePause = Duration.seconds(60)
    /// How long after the end of an assignment its frames may still arrive: bluetoothd hangs for minutes at most.
    static let lateMax = Duration.seconds(3_600)

    /// By assignment; the ended as well, while frames of them may come.
    private(set) var kept: [Int64: KeptLedger]
    /// The events since the last commit.
    private(set) var events: [LedgerEvent] = []
    /// Uptime of the last transaction that told how long this run lived.
    private var aliveUptime: Uptime
    /// When the gateway was last known to be awake, and for how long the machine had been suspended by then.
    private var awake: (uptime: Uptime, suspended: Duration)?

    init(_ kept: [Int64: KeptLedger] = [:], aliveUptime: Uptime) {
        self.kept = kept
        self.aliveUptime = aliveUptime
    }

    // MARK: - Assignments

    /// The run has begun in the store, with these ledgers.
    mutating func begin(_ kept: [Int64: KeptLedger]) { self.kept = kept }

    /// A ledger for an assignment that begins at `uptime`, where another one of the same strap ended, if it did.
    mutating func begin(_ assignment: Int64, at uptime: Uptime, after ended: Int64?) {
        let before = ended.flatMap { kept[$0]?.ledger }
        kept[assignment] = KeptLedger(
            ledger: before?.next(beginning: uptime) ?? GapLedger(beginning: uptime))
    }

    mutating func end(_ assignment: Int64, at uptime: Uptime) {
        kept[assignment]?.end(at: uptime)
    }

    mutating func endAll(at uptime: Uptime) {
        for id in kept.keys { kept[id]?.end(at: uptime) }
    }

    /// Gaps of an assignment after this time may still change at `uptime`, since frames may come late; nil if all are final.
    func mayChange(_ assignment: Int64, at uptime: Uptime) -> Uptime? {
        guard let kept = kept[assignment], !kept.isOver(at: uptime) else { return nil }
        return kept.ledger.silenceFrom
    }

    /// The store is another one, which has nothing of them.
    mutating func doubtAll() {
        kept = kept.filter { !$0.value.isEnded }
        for id in kept.keys { kept[id]?.ledger.doubt() }
    }

    /// Forgets those that the store does not have.
    mutating func keepKnown(_ db: Database) throws {
        let known = try Int64.fetchSet(db, sql: "SELECT id FROM assignment")
        kept = kept.filter { known.contains($0.key) }
    }

    /// Up to when the store before had all of an assignment; nil without a ledger.
    func written(_ assignment: Int64) -> Uptime? { kept[assignment]?.ledger.unwrittenSince }

    // MARK: - Telling

    /// Notes that the gateway is awake, and for how long the machine has been suspended since it started.
    mutating func note(suspended: Duration, at uptime: Uptime) {
        defer { awake = (uptime, suspended) }
        guard let awake else { return }
        let length = suspended - awake.suspended
        guard length > GapLedger.silenceMax else { return }
        let earliest = awake.uptime + length
        let sleep = GapLedger.Sleep(from: awake.uptime, wakes: earliest...max(uptime, earliest))
        for id in kept.keys { kept[id]?.ledger.note(sleep) }
    }

    /// Tells the ledger of whoever wears the sensor then, with the next commit.
    mutating func tell(_ event: LedgerEvent) {
        if events.count < LedgerEvent.waitingMax { events.append(event) }
    }

    /// A frame was refused at the door, behind `frames` that wait.
    mutating func tellRefusal(of sensor: Int64, at uptime: Uptime, behind frames: Int) {
        let last = events.lastIndex { $0.sensor == sensor }
        if let last, case .refused(let through) = events[last].kind,
            !GapLedger.isGap(from: through, until: uptime)
        {
            events[last].kind = .refused(through: max(through, uptime))
            return
        }
        tell(
            LedgerEvent(
                frames: frames, sensor: sensor, uptime: uptime, kind: .refused(through: uptime)))
    }

    // MARK: - Writing

    /// Writes what a commit of these frames and the events between them change. Accounts for the time up to `until`.
    mutating func commit(
        _ chunk: SampleBuffer.Chunk, _ commit: Commit, _ wearing: inout Wearing, until: Uptime,
        _ db: Database, _ run: CurrentRun
    ) throws {
        let told = events.prefix { chunk.isLast || $0.frames < chunk.arrivals.count }
        try kept.tell(
            chunk.arrivals, of: commit.owners, unstored: commit.unstored, told, &wearing)
        events.removeFirst(told.count)
        for index in events.indices { events[index].frames -= chunk.arrivals.count }
        try kept.write(db, run: run.id, boot: run.boot, uptime: until)
        aliveUptime = until
    }

    /// Tells the ledgers of the events; no frame waits before them.
    mutating func tellEvents(_ db: Database, _ run: CurrentRun) throws {
        var wearing = Wearing(db, boot: run.boot)
        try kept.tell([], of: [], events, &wearing)
        events = []
    }

    /// Writes all ledgers as they are at `uptime`, and that this run lives.
    mutating func write(_ db: Database, _ run: CurrentRun, uptime: Uptime) throws {
        try kept.write(db, run: run.id, boot: run.boot, uptime: uptime)
        try db.setAlive(run: run.id, uptime: uptime)
    }

    /// Whether it is time to say that this run lives: while no samples come there are no commits to tell.
    /// The next time is a minute later, whatever becomes of this one: what could not be written is still known.
    mutating func isAliveDue(uptime: Uptime) -> Bool {
        guard kept.values.contains(where: { !$0.isEnded }),
            uptime - aliveUptime >= Self.alivePause
        else { return false }
        aliveUptime = uptime
        return true
    }

    // MARK: - Reading

    /// The gaps that only memory knows to their end, `waiting` frames being told as well; those that are open at
    /// `known`, until when all frames are here, go on at `uptime`.
    func unstored(
        _ db: Database, _ waiting: [Arrival], boot: Int64, known: Uptime, at uptime: Uptime
    ) throws -> [GapRow] {
        var gaps: [GapRow] = []
        var told = kept
        var wearing = Wearing(db, boot: boot)
        let owners = try waiting.map { try wearing.assignment(of: $0.sensorID, at: $0.uptime) }
        try told.tell(waiting[...], of: owners, events, &wearing)
        for (id, kept) in told.sorted(by: { $0.key < $1.key }) {
            let sensor = try Int64.fetchOne(
                db.cachedStatement(sql: "SELECT sensor FROM assignment WHERE id = ?"),
                arguments: [id])
            for interval in kept.unstored(at: known) {
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

extension [Int64: KeptLedger] {
    /// Writes what changed in the ledgers, and forgets those that ended long ago.
    mutating func write(_ db: Database, run: Int64, boot: Int64, uptime: Uptime) throws {
        var isWritten = false
        for id in keys.sorted() {
            let isChanged =
                try self[id]?.write(db, assignment: id, boot: boot, uptime: uptime) ?? false
            isWritten = isWritten || isChanged
            if self[id]?.isOver(at: uptime) ?? false { self[id] = nil }
        }
        if isWritten { try db.setAlive(run: run, uptime: uptime) }
    }
}

extension Database {
    /// The run lived at this uptime.
    func setAlive(run: Int64, uptime: Uptime) throws {
        try cachedStatement(
            sql:
                "UPDATE run SET alive_uptime_us = max(coalesce(alive_uptime_us, 0), ?) WHERE id = ?"
        ).execute(arguments: [uptime, run])
    }
}
