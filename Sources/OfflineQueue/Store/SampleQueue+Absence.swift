import Basics
import GRDB

/// Why a store is not open for writing.
struct Absence: Sendable {
    /// Pause between two attempts to open it.
    static let pause = Duration.seconds(5)

    var error: QueueError
    var nextAttempt: Uptime
    /// Whether its salvage is under way.
    var isSalvaging = false

    init(_ error: QueueError, uptime: Uptime) {
        self.error = error
        nextAttempt = uptime + Self.pause
    }
}

extension QueueError {
    /// Whether it may go away by itself, or when a person frees the disk: a queue may wait for that.
    var isAbsence: Bool {
        switch code {
        case .diskFull, .readOnly, .inputOutput: true
        default: isDamage
        }
    }
}

/// Who wears what, as a store says that cannot be written to.
struct StandInRegistry: Sendable {
    private(set) var assignmentIDs: Set<Int64> = []
    /// Of the open assignments. The run begins with them.
    private(set) var ledgers: [Int64: KeptLedger] = [:]

    init(_ database: DatabaseQueue, uptime: Uptime) {
        let rows = try? database.read { db in
            try Row.fetchAll(db, sql: "SELECT id, ended_boot IS NULL FROM assignment")
        }
        for row in rows ?? [] {
            guard let id = row[0] as Int64? else { continue }
            assignmentIDs.insert(id)
            if row[1] as Bool? == true {
                ledgers[id] = KeptLedger(ledger: GapLedger(beginning: uptime))
            }
        }
    }
}

extension SampleQueue {
    /// Opens the store again if it is absent and an attempt is due.
    func returnToStoreIfDue(uptime: Uptime) {
        guard store.mayReturn(uptime: uptime) else { return }
        do throws(QueueError) {
            try store.prepareReturn()
            if run.hasBegun { try reopen() } else { try beginRun() }
            commits.worked()
            buffer.restartGroup()
        } catch {
            repair.noteAbsence(error)
            store.stayAbsent(Absence(error, uptime: uptime))
            commits.failed(error, uptime: uptime)
        }
    }

    private func beginRun() throws(QueueError) {
        let opening = StoreOpening(
            path: store.path, settings: settings, started: run.started, bootID: run.bootID,
            nonce: run.nonce)
        let begun = try opening.begin(salvaging: false, whileSalvaging: whileSalvaging)
        do {
            // The stand-in may have been of an older state, or of another store.
            ended = try begun.database.unsafeRead { [open = ledgers.kept.keys] db in
                try EndedAssignments(db, among: open, boot: begun.start.boot)
            }
        } catch {
            try? begun.database.close()
            throw QueueError("begin run", error)
        }
        store.open(begun.database)
        begin(begun)
        keepWhatIsKnown()
        ledgers.begin(begun.start.ledgers, isCurrent: buffer.isEmpty)
    }

    /// What came for an assignment that has ended is the sensor's next one's.
    private func keepWhatIsKnown() {
        buffer.reassign(ended)
        buffer.keep(only: assignmentIDs)
        ledgers.reassign(ended)
        ledgers.keep(only: assignmentIDs)
    }

    /// What a run finds in its store.
    private func begin(_ begun: StoreOpening.Begun) {
        run.begin(begun.start)
        repair.begin(begun.start, begun.findings)
        segments = OpenSegments(nextSample: begun.start.nextSample)
        assignmentIDs = begun.start.assignmentIDs
        remembered = begun.start.remembered
    }

    private func reopen() throws(QueueError) {
        let reading = clock.read()
        var resumed: ResumedRun?
        try store.reopen { [segments, buffer, ledgers] store throws(QueueError) in
            resumed = try ResumedRun(
                store, run, reading, open: ledgers.kept.keys,
                beyond: UnsureCommit.Known(
                    nextSample: segments.nextSample, oldestWaiting: buffer.oldestUptime,
                    refusalsWritten: buffer.refusalsWritten))
        }
        if let resumed { resume(resumed) }
    }

    private func resume(_ resumed: ResumedRun) {
        ledgers.doubt(buffer.arrivals, stored: resumed.commit)
        buffer.takeOut(resumed.commit)
        segments.restart(after: resumed.lastSample)
        assignmentIDs = resumed.assignmentIDs
        ended = resumed.ended
        keepWhatIsKnown()
        for (id, end) in ended.ends { follow(end, of: id) }
        rememberAssignments()
        repair.report(resumed.salvage)
    }

    /// Ends the ledger of an assignment behind its last frame, and begins that of the sensor's next one.
    private func follow(_ end: EndedAssignments.End, of id: Int64) {
        guard !ledgers.isEnding(id) else { return }
        if let next = end.next, ledgers.kept[next] == nil {
            ledgers.begin(
                next, at: max(end.uptime, run.started.uptime), noted: ledgers.noted(id))
            // The change may have written an open gap.
            ledgers.doubt(next)
        }
        ledgers.tell(
            LedgerEvent(
                frames: buffer.arrivals.count, assignment: id, uptime: end.uptime, kind: .end),
            isCurrent: buffer.isEmpty)
    }

    /// Looks whether the store's files are where they were, and carries all of it into new ones if not.
    func carryOverIfMissing(uptime: Uptime) {
        guard let detail = store.missing, repair.isCarryDue(uptime: uptime) else { return }
        let reading = clock.read()
        let wall = reading.wall
        do throws(QueueError) {
            try store.carryOver(reading, onPages: whileSalvaging)
            try write("report missing store") { db in
                try StoreFindings.insertMissing(db, at: wall, detail, isCarried: true)
            }
            repair.found(
                missing: MissingStore(at: wall, detail: detail, isCarried: true))
        } catch {
            // Tried again in a minute; the open files take what comes meanwhile.
            repair.found(
                missing: MissingStore(
                    at: wall, detail: "\(detail); \(error.cause)", isCarried: false))
        }
    }
}
