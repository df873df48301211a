import Basics
import GRDB

// The offline queue: what must hold, and how it is laid out
// =========================================================
//
// Constraints
//  1. A sample is durable when `append` or `flush` has committed it; a power cut costs at most the
//     last group (500 samples or 5 s). WAL with synchronous=FULL: a commit is on disk before it counts.
//  2. One process owns the store (flock on "<path>.lock"); one serial thread does all its work.
//  3. Sample ids grow by one in order of arrival and are never used twice by one run, nor after the rows
//     are pruned: a segment row remembers the highest. No AUTOINCREMENT, no index on samples.
//  4. A sample's assignment is fixed when it arrives. An assignment is never edited, only ended, and
//     bound to an enrollment at most once. Triggers enforce it. It goes only when a patient is erased.
//  5. Every row of `sample` carries a CRC-32; a row that fails it is never sent (dead letter
//     "damaged").
//  6. A sample is handed out for sending only whose time is trusted.
//  7. A sound store of another version stops the start, and is not touched (SchemaStamp.swift).
//  8. When the disk refuses, samples wait in memory, `bufferedSamplesMax` at most; what comes after
//     is refused, counted as "store-unwritable", and the count is written with the next commit. What
//     waits at the end goes into a small store elsewhere, which the next start imports.
//  9. SQLite opens no file before the gateway has examined it, and none that is damaged (WriteAheadLog). A damaged one
//     is renamed, and a fresh store takes its place at once (Evidence, Sidecar); what can be read of it is imported
//     while recording goes on (SalvageReader).
//
// Format (one SQLite file, pages of 512 bytes; times are Int64 microseconds)
//
//     boot        a start of the kernel: its id, and its newest offset UTC − uptime that was trusted
//     clock_step  two trusted readings of a boot that disagree
//     run         a start of the program: its boot and the random nonce that identities are made of
//     sensor, enrollment, assignment      who wears what, and where it goes (Registry.swift)
//     segment     the samples of one assignment in one run on one day (UTC) under one offset UTC − uptime,
//                 without a wide hole between their ids: first_sample…last_sample, two cursors, and all
//                 counters, which so are counts by day
//     further_destination, further_delivery, further_dead_letter      where an assignment's samples go
//                 beside its enrollment: which, with what cursor and counters, and what was refused there
//     sample      id, segment, uptime, how far its time may be wrong, flags, crc, frame
//     undecodable frames no measurement could be read from, kept with the fault
//     dead_letter what an exchange refused for good; its sample row stays too
//     gap         when an assignment had no samples and why; what no gap holds, samples speak for
//                 (GapLedger.swift); open while until_boot is NULL
//     ledger_delivery  how far a destination has been told of the gaps, and of each day's coverage
//     dropped_range  which samples of a segment a destination does not get, and why
//     loss        counts by segment, destination, kind (refused: never stored; dropped: stored, then
//                 withheld) and reason
//     request     a note that a delivery sends requests: after a crash the exchange may still be working
//                 on one
//     upload      the history of requests
//
// Settling. In a segment ids grow, so "what is done" is a cursor and no row is touched:
//
//     first_sample ──pruned──▶ pruned_through ──done──▶ settled_through ──pending──▶ last_sample
//
// Each further destination has a cursor of its own; pruning stops at the one that is furthest behind
// (`floorSQL`), and triggers hold it there.
//
// Ids of several sensors interleave, hence a segment's rows are found by walking its id range and
// looking at `segment`. So that the walk stays short, a segment ends when more than
// `segmentHoleMax` foreign ids would lie between two of its samples.
//
// Time of a sample: uptime + its segment's offset, or unknown (held "clock-unknown"). A segment gets its
// offset from the boot's clock (BootClock.swift), once, and keeps it.
//
// Books. Counters change in the transaction that moves what they count, so they cannot drift:
//
//     received = stored + undecodable + refused + doubled
//     stored   = delivered + pending + held + dead + dropped      for each destination
//
// `pending + held` is the difference; `audit()` counts it row by row.

/// How a queue is set up; the defaults are the product's.
public struct QueueSettings: Sendable, Hashable {
    /// Samples that make a commit due at once: 50, 5 s of ten straps; more would save little.
    public var commitSamplesMax = GroupCommit.samplesMaxDefault
    /// Age of the oldest sample in memory that makes a commit due: 5 s, what a power cut may cost.
    public var commitAgeMax = GroupCommit.ageMaxDefault
    /// How long a frame may be under way to the store after it has arrived: a silence is judged that much later.
    public var framesUnderWayMax = Duration.zero
    /// Samples kept in memory while the disk refuses: 17 minutes of eight straps at 1 Hz, in about
    /// 1.5 MiB. Long enough for a technician's clean-up, small beside the memory goal of 12 MiB.
    public var bufferedSamplesMax = 8192
    /// How long delivered samples stay for the live page; 24 hours.
    public var keepDelivered = Duration.seconds(86_400)
    /// The most bytes the store may take, its write-ahead log apart; nil for no limit but the disk's.
    /// 2 GiB: 69 days of eight straps at 1 Hz, and a quarter of the smallest card still sold.
    public var maxBytes: Int64? = 2 << 30
    /// The policy at ``maxBytes``.
    public var fullPolicy = FullPolicy.refuseNew
    /// Samples that wait longer than this are dropped; nil: they wait for ever.
    public var maxAge: Duration?
    /// Whether the queue opens, takes frames into memory and answers while its files cannot be written or
    /// are being salvaged, and opens them when they can be. Else `SampleQueue.init` throws, and a salvage
    /// holds up every call.
    public var staysAvailable = false
    /// Where a run leaves what it could not write, the best place first.
    public var asideDirectories: [String] = []
    /// Whether there are other signs of a store having been here, such as tokens.
    public var isStoreExpected = false
    /// Cap on the file in pages; nil for none but the disk's.
    public var pageCountMax: Int?

    /// The defaults.
    public init() {}
}

/// Every sample from its arrival until it is delivered, dropped by policy, or dead.
public actor SampleQueue {
    /// Foreign ids between two samples of a segment that end it: what one sample may cost to skip.
    static let segmentHoleMax: Int64 = 4096
    /// Samples one transaction writes when a long buffer is caught up: small enough to fit on a disk
    /// that was full a moment ago.
    static let commitRowsMax = 500
    /// The longest stored text of a server's diagnostics; the exchange sends up to 5 KB an entry.
    public static let diagnosticsCharactersMax = 500
    /// The longest stored reason, fault, outcome or name.
    public static let textCharactersMax = 200
    /// The most samples one batch may hold.
    public static let batchSamplesMax = 1000

    nonisolated let thread: any SerialExecutor
    /// Runs tasks that mostly call the store, on its thread; nil where the caller's executor does the work.
    public nonisolated let tasks: (any TaskExecutor)?
    let whileCopying: @Sendable () -> Void
    public nonisolated var unownedExecutor: UnownedSerialExecutor {
        thread.asUnownedSerialExecutor()
    }

    public nonisolated let clock: any GatewayClock
    let settings: QueueSettings
    var store: StoreConnection
    var run: CurrentRun
    var buffer: SampleBuffer
    /// When ``tend()`` is called again; nil before its first call.
    var nextTend: Uptime?
    var segments = OpenSegments()
    var commits = CommitFacts()
    /// Called after each commit of samples.
    var commitHandler: (@Sendable () -> Void)?
    var ledgers: GapLedgers
    var deliveries = OpenDeliveries()
    var repair = StoreRepair()
    var sidecar: KeptSidecar
    /// The broken store that is being saved; nil while no save is under way.
    var saving: Saving?
    /// How often the device refused to read parts of it.
    var savingAttempts = 0
    /// When to look for a broken store to save; nil while there is none.
    var nextSaving: Uptime? = .zero

    /// Opens the store at `path` (its directory must exist), migrates it, and begins a run.
    ///
    /// `bootID` names the running boot (``BootID/current()``); `executor` does the work instead of a
    /// thread of the store's own, such as one under simulated time. `whileCopying` is called again
    /// and again while a store is copied whose files are gone, which may take minutes in which no other call is
    /// answered: a watchdog's proof of life. `seed` chooses the run's nonce. Throws ``QueueError``: in use, another
    /// version's, read-only, disk full, cannot open. A broken store is no error: its files are renamed, a fresh
    /// store takes its place, what can be read of the old one is saved into it, and ``health()`` tells of it.
    public init(
        path: String, settings: QueueSettings = QueueSettings(), clock: any GatewayClock,
        bootID: String, executor: (any SerialExecutor)? = nil,
        seed: UInt64 = .random(in: .min ... .max),
        whileCopying: @escaping @Sendable () -> Void = {}
    ) throws(QueueError) {
        let thread = executor ?? TaskThread(label: "store")
        self.thread = thread
        tasks = thread as? TaskThread
        self.whileCopying = whileCopying
        self.clock = clock
        self.settings = settings
        let started = clock.read()
        var run = CurrentRun(
            bootID: bootID, started: started, nonce: SampleIdentity.newNonce(seed: seed))
        buffer = SampleBuffer(settings)
        let opening = StoreOpening(
            path: path, settings: settings, started: started, bootID: bootID, nonce: run.nonce)
        var lock: StoreLock?
        do throws(QueueError) {
            lock = try StoreLock(path)
            let (database, begun) = try opening.begin()
            FaultPoint.runBegun.reach()
            store = StoreConnection(
                database, at: path, lock: lock, pageCountMax: settings.pageCountMax)
            run.begin(begun.start)
            repair.begin(begun.start, begun.findings)
            segments = OpenSegments(nextSample: begun.start.nextSample)
            ledgers = GapLedgers(begun.start.ledgers, aliveUptime: started.uptime)
            sidecar = KeptSidecar(uptime: started.uptime)
            sidecar.keep(begun.sidecar, besides: path, uptime: started.uptime)
        } catch {
            let error = error.located(at: path)
            guard settings.staysAvailable, error.isAbsence else { throw error }
            let uptime = started.uptime
            let known = Sidecar.find(besides: path).newest
            sidecar = KeptSidecar(known, uptime: uptime)
            store = try StoreConnection(
                absent: Absence(error, uptime: uptime), at: path, lock: lock,
                pageCountMax: settings.pageCountMax, known)
            commits.fault = error
            let start: RunStart
            do {
                start = try store.database.write { [nonce = run.nonce] db in
                    try RunStart(db, bootID: bootID, nonce: nonce, reading: started, isFresh: true)
                }
            } catch { throw QueueError("begin run", error) }
            ledgers = GapLedgers(start.ledgers, aliveUptime: uptime)
        }
        self.run = run
    }

    /// Writes what is buffered, ends the run, and lets go of the file. Afterwards every call throws
    /// `closed`; another `close` does nothing. If it throws, the store is still open.
    public func close() throws(QueueError) {
        guard !store.isClosed else { return }
        if let absence = store.absence {
            guard buffer.hasNoFrames else { throw absence.error }
            return try abandon()
        }
        replaceIfDamaged()
        try flush()
        let uptime = clock.read().uptime
        var kept = ledgers
        try write("end run") { [run, walk = repair.walk, deliveries] db in
            try removeNotes(db, of: deliveries)
            try kept.tellEvents(db, run)
            kept.endAll(at: uptime)
            try kept.write(db, run, uptime: uptime)
            try walk.store(db)
            try db.execute(
                sql: "UPDATE run SET ended_uptime_us = ? WHERE id = ?",
                arguments: [uptime, run.id])
            FaultPoint.runEnded.reach()
        }
        ledgers = kept
        keepSidecar(isFinal: true)
        try store.close(isOrderly: true)
        FaultPoint.closed.reach()
    }

    /// Loses what is in memory and lets go of the file, as if the process had been killed.
    func abandon() throws(QueueError) {
        try store.close(isOrderly: false)
    }

    /// Runs `body` in one transaction, which takes outcomes along that wait to be written; on any error
    /// nothing of it remains, unless the disk refused the commit's last bytes: then it may count at the next start.
    @discardableResult
    func write<Value>(
        _ operation: String, _ body: (Database) throws -> Value
    ) throws(QueueError) -> Value {
        try mustBeSound(operation)
        try store.mustBeWritable(operation)
        let reading = clock.read()
        do throws(QueueError) {
            let (value, written, changed) = try store.write(operation) { [deliveries, sidecar] db in
                let written = try deliveries.writeAlong(db, wall: reading.trustedWall)
                let value = try body(db)
                return (
                    value, written,
                    try Sidecar.sealing(db, after: sidecar.newest, at: reading.wall)
                )
            }
            deliveries.writtenAlong(written)
            repair.worked(operation)
            keepSidecar(changed)
            return value
        } catch {
            deliveries.failedAlong()
            note(error)
            throw error
        }
    }

    /// Runs `body`, which only reads.
    func read<Value>(
        _ operation: String, _ body: (Database) throws -> Value
    ) throws(QueueError) -> Value {
        try mustBeSound(operation)
        do throws(QueueError) {
            let value = try store.read(operation, body)
            repair.worked(operation)
            return value
        } catch {
            note(error)
            throw error
        }
    }

    /// From the first sign of damage on nothing opens or changes the files any more: they are renamed soon.
    func mustBeSound(_ operation: String) throws(QueueError) {
        guard store.absence == nil, !store.isClosed else { return }
        lookForStrangers()
        guard let damage = repair.damage else { return }
        throw QueueError(.corrupt, operation, damage.cause)
    }
}
