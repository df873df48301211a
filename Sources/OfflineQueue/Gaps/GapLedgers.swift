import Basics
import GRDB

/// The gap ledgers of the open assignments, as of the last commit, and what came since.
struct GapLedgers: Sendable {
    /// How often a run in which nothing is committed writes down that it lives: time that
    /// has no known cause after a power cut. A minute costs about 1,500 small commits a day.
    static let alivePause = Duration.seconds(60)

    /// By assignment.
    private(set) var kept: [Int64: KeptLedger]
    /// The events that wait for frames that are not durable yet.
    private(set) var events: [LedgerEvent] = []
    /// Uptime of the last transaction that told how long this run lived.
    private var aliveUptime: Uptime

    init(_ kept: [Int64: KeptLedger] = [:], aliveUptime: Uptime) {
        self.kept = kept
        self.aliveUptime = aliveUptime
    }

    // MARK: - Assignments

    /// The run has begun in the store, with these ledgers; `isCurrent` says that no frame waits before the
    /// events.
    mutating func begin(_ kept: [Int64: KeptLedger], isCurrent: Bool) {
        self.kept = kept
        guard isCurrent else { return }
        self.kept.tell([], events)
        events = []
    }

    /// A ledger for an assignment that begins at `uptime`, and for which `cause` was noted.
    mutating func begin(_ assignment: Int64, at uptime: Uptime, noted cause: GapCause?) {
        kept[assignment] = KeptLedger(ledger: GapLedger(beginning: uptime, noted: cause))
    }

    mutating func end(_ assignment: Int64, at uptime: Uptime) {
        kept[assignment]?.end(at: uptime)
    }

    mutating func endAll(at uptime: Uptime) {
        for id in kept.keys { kept[id]?.end(at: uptime) }
    }

    /// Forgets those of other assignments than these.
    mutating func keep(only assignments: Set<Int64>) {
        kept = kept.filter { assignments.contains($0.key) }
        events.removeAll { !assignments.contains($0.assignment) }
    }

    /// The cause that was noted last of an open assignment.
    func noted(_ assignment: Int64) -> GapCause? {
        for event in events.reversed() where event.assignment == assignment {
            if case .note(let cause) = event.kind { return cause }
        }
        return kept[assignment]?.ledger.noted
    }

    /// The store is another one, which has nothing of them.
    mutating func doubtAll() {
        for id in kept.keys { kept[id]?.ledger.doubt() }
    }

    /// Up to when the store before had all of an assignment; nil without a ledger.
    func written(_ assignment: Int64) -> Uptime? { kept[assignment]?.ledger.unwrittenSince }

    // MARK: - Telling

    /// Tells the assignment's ledger, with `isCurrent` at once: then no frame waits before the event.
    mutating func tell(_ event: LedgerEvent, isCurrent: Bool) {
        guard kept[event.assignment] != nil else { return }
        if isCurrent, events.isEmpty {
            kept.tell([], [event])
        } else if events.count < LedgerEvent.waitingMax || event.kind == .end {
            events.append(event)
        }
    }

    /// A frame was refused at the door, behind `frames` that wait.
    mutating func tellRefusal(
        of assignment: Int64, from uptime: Uptime, through latest: Uptime, behind frames: Int,
        isCurrent: Bool
    ) {
        let last = events.lastIndex { $0.assignment == assignment }
        if let last, case .refused(let through) = events[last].kind,
            !GapLedger.isGap(from: through, until: uptime)
        {
            events[last].kind = .refused(through: max(through, latest))
            return
        }
        tell(
            LedgerEvent(
                frames: frames, assignment: assignment, uptime: uptime,
                kind: .refused(through: latest)), isCurrent: isCurrent)
    }

    // MARK: - Writing

    /// Writes what these frames, the last `unstored` of which found no room, and the events between them
    /// change; `isLast` says that no frame waits behind them. Accounts for the time up to `until`.
    mutating func commit(
        _ arrivals: ArraySlice<Arrival>, unstored: Int, isLast: Bool, until: Uptime,
        _ db: Database, _ run: CurrentRun
    ) throws {
        let told = events.prefix { isLast || $0.frames < arrivals.count }
        kept.tell(arrivals, unstored: unstored, told)
        events.removeFirst(told.count)
        for index in events.indices { events[index].frames -= arrivals.count }
        try kept.write(db, run: run.id, boot: run.boot, uptime: until)
        aliveUptime = until
    }

    /// Writes all ledgers as they are at `uptime`, and that this run lives.
    mutating func write(_ db: Database, _ run: CurrentRun, uptime: Uptime) throws {
        try kept.write(db, run: run.id, boot: run.boot, uptime: uptime)
        try db.setAlive(run: run.id, uptime: uptime)
    }

    /// Whether it is time to say that this run lives: while no samples come there are no commits to tell.
    /// The next time is a minute later, whatever becomes of this one: what could not be written is still known.
    mutating func isAliveDue(uptime: Uptime) -> Bool {
        guard !kept.isEmpty, uptime - aliveUptime >= Self.alivePause else { return false }
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
        told.tell(waiting[...], events)
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
    /// Writes what changed in the ledgers, and forgets those that have ended.
    mutating func write(_ db: Database, run: Int64, boot: Int64, uptime: Uptime) throws {
        var isWritten = false
        for id in keys.sorted() {
            let isChanged =
                try self[id]?.write(db, assignment: id, boot: boot, uptime: uptime) ?? false
            isWritten = isWritten || isChanged
            if self[id]?.isEnded == true { self[id] = nil }
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
