import Basics
import GRDB

/// Why a store is not open for writing.
struct Absence: Sendable {
    /// Pause between two attempts to open it.
    static let pause = Duration.seconds(5)

    var error: QueueError
    var nextAttempt: Uptime

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

/// Who wears what, as the sidecar of a store says that cannot be opened.
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
    /// Sets the store aside if a call has met damage; a fresh one takes its place at once, in which the run goes on.
    func replaceIfDamaged() {
        lookForStrangers()
        let uptime = clock.read().uptime
        guard store.absence == nil, !store.isClosed,
            let cause = repair.replacementDue(uptime: uptime)
        else { return }
        store.leave(because: cause, at: uptime, sidecar)
        deliveries.forgetStore()
        saving = nil
        returnToStoreIfDue(uptime: uptime)
    }

    /// The lock file keeps this program's other processes out. What else writes to the files does not know what of them
    /// is in memory here.
    func lookForStrangers() {
        guard repair.damage == nil, let name = store.overwritten else { return }
        note(QueueError(.corrupt, "read store", "another program has written to \(name)"))
    }

    /// Opens the store if it is absent and an attempt is due.
    func returnToStoreIfDue(uptime: Uptime) {
        guard store.mayReturn(uptime: uptime) else { return }
        do throws(QueueError) {
            try store.prepareReturn()
            try begin(uptime: uptime)
            commits.worked()
            buffer.restartGroup()
        } catch {
            repair.note(error, at: uptime)
            store.stayAbsent(Absence(error, uptime: uptime))
            commits.failed(error, uptime: uptime)
        }
    }

    private func begin(uptime: Uptime) throws(QueueError) {
        let opening = StoreOpening(
            path: store.path, settings: settings,
            started: run.hasBegun ? clock.read() : run.started,
            bootID: run.bootID, nonce: run.nonce)
        if run.hasBegun { ledgers.doubtAll() }
        let begun = try opening.begin(
            replacing: repair.damage,
            mayReplace: repair.mayReplace(uptime: uptime),
            known: run.hasBegun
                ? sidecar?.counting(through: segments.nextSample - 1, at: clock.read().wall) : nil,
            written: run.hasBegun ? { [ledgers] in ledgers.written($0) } : nil)
        if begun.isFresh { repair.replaced(uptime: uptime) }
        do {
            // The sidecar may have been of an older state, or of another store.
            ended = try begun.database.unsafeRead { [open = ledgers.kept.keys] db in
                try EndedAssignments(db, among: open, boot: begun.start.boot)
            }
        } catch {
            try? begun.database.close()
            throw QueueError("begin run", error)
        }
        store.open(begun.database)
        let isNew = !run.hasBegun
        run.begin(begun.start)
        repair.begin(begun.start, begun.findings)
        assignmentIDs = begun.start.assignmentIDs
        keepWhatIsKnown()
        if isNew {
            segments = OpenSegments(nextSample: begun.start.nextSample)
            ledgers.begin(begun.start.ledgers, isCurrent: buffer.isEmpty)
        } else {
            // A commit of which nobody knows whether the broken store has it gives the same numbers here.
            segments.restart(after: begun.start.nextSample - 1)
        }
        keepSidecar()
        nextSaving = .zero
        saveIfDue(uptime: uptime)
    }

    /// What came for an assignment that has ended is the sensor's next one's.
    private func keepWhatIsKnown() {
        buffer.reassign(ended)
        buffer.keep(only: assignmentIDs)
        ledgers.reassign(ended)
        ledgers.keep(only: assignmentIDs)
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
