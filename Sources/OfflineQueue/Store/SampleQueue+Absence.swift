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
        store.open(begun.database)
        begin(begun)
        // Frames of assignments that the store does not know: the stand-in was of another one.
        buffer.keep(only: assignmentIDs)
        ledgers.begin(begun.start.ledgers, isCurrent: buffer.isEmpty)
    }

    /// What a run finds in its store.
    private func begin(_ begun: StoreOpening.Begun) {
        run.begin(begun.start)
        repair.begin(begun.start, begun.findings)
        segments = OpenSegments(nextSample: begun.start.nextSample)
        assignmentIDs = begun.start.assignmentIDs
    }

    private func reopen() throws(QueueError) {
        let reading = clock.read()
        var resumed: ResumedRun?
        try store.reopen { [segments, buffer] store throws(QueueError) in
            resumed = try ResumedRun(
                store, run, reading,
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
        repair.report(resumed.salvage)
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
