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

/// How a queue was closed.
public enum QueueClosing: Sendable, Hashable {
    /// Everything is in the store.
    case complete
    /// The store could not be written; this many frames are in another one, which the next start takes up.
    case setAside(frames: Int, because: QueueError)
    /// Neither could that; this many frames are gone.
    case lost(frames: Int, because: QueueError)
}

extension SampleQueue {
    /// Closes the queue for good. What the store does not take goes into a fresh one in one of
    /// ``QueueSettings/asideDirectories``: the runtime directory is memory as well, and outlives the process.
    public func closeSettingAside() -> QueueClosing {
        let failure: QueueError
        do {
            try close()
            return .complete
        } catch { failure = error }
        guard !buffer.hasNoFrames else {
            try? abandon()
            return .complete
        }
        let (frames, evidence) = (buffer.arrivals.count, Evidence(of: store.path))
        var rest = frames
        deliveries.forgetStore()
        for directory in settings.asideDirectories {
            guard let aside = evidence.aside(in: directory, run.nonce) else { continue }
            do throws(QueueError) {
                try begin(uptime: clock.read().uptime, aside: aside)
                try close()
                return .setAside(frames: frames, because: failure)
            } catch {
                // Frames that it has taken are nowhere else.
                if buffer.arrivals.count == rest { evidence.remove(aside) }
                rest = buffer.arrivals.count
            }
        }
        try? abandon()
        return .lost(frames: rest, because: failure)
    }

    /// Sets the store aside if a call has met damage; a fresh one takes its place at once, in which the run goes on.
    func replaceIfDamaged() {
        lookForStrangers()
        let uptime = clock.read().uptime
        guard store.absence == nil, !store.isClosed,
            let cause = repair.replacementDue(uptime: uptime)
        else { return }
        store.leave(because: cause, at: uptime, sidecar.newest)
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
            commits.fault = nil
            buffer.restartGroup()
        } catch {
            if !isExplained(error) { repair.note(error, at: uptime) }
            store.stayAbsent(Absence(error, uptime: uptime))
            commits.fault = error
        }
    }

    /// Opens the store, or one elsewhere that takes what it does not, and begins the run or goes on with it.
    private func begin(uptime: Uptime, aside: String? = nil) throws(QueueError) {
        var settings = settings
        if aside != nil { settings.asideDirectories = [] }
        let opening = StoreOpening(
            path: aside ?? store.path, settings: settings,
            started: run.hasBegun ? clock.read() : run.started,
            bootID: run.bootID, nonce: run.nonce)
        if run.hasBegun { ledgers.doubtAll() }
        let (database, begun) = try opening.begin(
            replacing: repair.damage, after: repair.replacementCause,
            mayReplace: repair.mayReplace(uptime: uptime),
            known: run.hasBegun || aside != nil
                ? sidecar.newest?.counting(
                    through: segments.nextSample - 1, at: clock.read().wall) : nil,
            written: run.hasBegun ? { [ledgers] in ledgers.written($0) } : nil
        ) { repair.setAside(because: $0, uptime: uptime) }
        var known = ledgers
        do {
            try database.unsafeRead { db in try known.keepKnown(db) }
        } catch {
            try? database.close()
            throw QueueError("begin run", error)
        }
        if begun.isFresh { repair.replaced(uptime: uptime) }
        store.open(database, aside: aside)
        let isNew = !run.hasBegun
        run.begin(begun.start)
        repair.begin(begun.start, begun.findings)
        if isNew {
            segments = OpenSegments(nextSample: begun.start.nextSample)
            ledgers.begin(begun.start.ledgers)
        } else {
            // A commit of which nobody knows whether the store before has it gives the same numbers here.
            segments.restart(after: begun.start.nextSample - 1)
            ledgers = known
        }
        keepSidecar(begun.sidecar)
        nextSaving = .zero
        saveIfDue(uptime: uptime)
    }

    /// Looks whether the store's files are where they were, and carries all of it into new ones if not.
    func carryOverIfMissing(uptime: Uptime) {
        guard let detail = store.missing, repair.isCarryDue(uptime: uptime) else { return }
        let reading = clock.read()
        let wall = reading.wall
        do throws(QueueError) {
            try store.carryOver(reading, onPages: whileCopying)
            try write("report missing store") { db in
                try StoreFindings.insertMissing(db, at: wall, detail, isCarried: true)
            }
            repair.findings.missing = MissingStore(detail: detail, isCarried: true)
        } catch {
            // Tried again in a minute; the open files take what comes meanwhile.
            repair.findings.missing = MissingStore(
                detail: "\(detail); \(error.cause)", isCarried: false)
        }
    }
}
