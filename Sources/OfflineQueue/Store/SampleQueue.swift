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
//  7. A store of a newer schema is refused; the schema only moves by migrations.
//  8. When the disk refuses, samples wait in memory, `bufferedSamplesMax` at most; what comes after
//     is refused, counted as "store-unwritable", and the count is written with the next commit. What
//     waits at the end is set aside in a file, and taken up once by the next start.
//  9. SQLite opens no file before the gateway has examined it, and none that is damaged (WriteAheadLog).
//
// Format (one SQLite file, pages of 1,024 bytes; times are Int64 microseconds)
//
//     boot        a start of the kernel: its id, and its offset UTC − uptime once it is trusted
//     run         a start of the program: its boot and the random nonce that identities are made of
//     sensor, enrollment, assignment      who wears what, and where it goes (Registry.swift)
//     segment     the samples of one assignment in one run on one day (UTC), without a wide hole between
//                 their ids: first_sample…last_sample, two cursors, and all counters, which so are
//                 counts by day
//     further_destination, further_delivery, further_dead_letter      where an assignment's samples go
//                 beside its enrollment: which, with what cursor and counters, and what was refused there
//     sample      id, segment, uptime, wall (only if trusted at arrival), flags, crc, frame
//     undecodable frames no measurement could be read from, kept with the fault
//     dead_letter what an exchange refused for good; its sample row stays too
//     gap         when an assignment had no samples and why; what no gap holds, samples speak for
//                 (GapLedger.swift); open while until_boot is NULL
//     ledger_delivery  how far a destination has been told of the gaps, and of each day's coverage
//     loss        counts by segment, destination, kind (refused: never stored; dropped: stored, then
//                 withheld) and reason
//     request     a delivery's request that was begun and not answered for certain: the exchange may
//                 still be working on it, whatever became of this program meanwhile
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
// Time of a sample: wall, else uptime + the boot's offset, else unknown (held "clock-unknown").
//
// Books. Counters change in the transaction that moves what they count, so they cannot drift:
//
//     received = stored + undecodable + refused + doubled
//     stored   = delivered + pending + held + dead + dropped      for each destination
//
// `pending + held` is the difference; `audit()` counts it row by row.

/// How a queue is set up; the defaults are the product's.
public struct QueueSettings: Sendable, Hashable {
    /// See ``GroupCommit/samplesMaxDefault``.
    public var commitSamplesMax = GroupCommit.samplesMaxDefault
    /// See ``GroupCommit/ageMicrosecondsMaxDefault``.
    public var commitAgeMicrosecondsMax = GroupCommit.ageMicrosecondsMaxDefault
    /// Samples kept in memory while the disk refuses: 17 minutes of eight straps at 1 Hz, in about
    /// 1.5 MiB. Long enough for a technician's clean-up, small beside the memory goal of 12 MiB.
    public var bufferedSamplesMax = 8192
    /// How long delivered samples stay for the live page, µs; 24 hours.
    public var keepDeliveredMicroseconds: Int64 = 86_400_000_000
    /// The most bytes the store may take, its write-ahead log apart; nil for no limit but the disk's.
    /// 2 GiB: 69 days of eight straps at 1 Hz, and a quarter of the smallest card still sold.
    public var maxBytes: Int64? = 2 << 30
    /// What to do at ``maxBytes``.
    public var fullPolicy = FullPolicy.refuseNew
    /// Samples that wait longer than this are dropped, µs; nil: they wait for ever.
    public var maxAgeMicroseconds: Int64?
    /// Whether the queue opens, takes frames into memory and answers while its files cannot be written or
    /// are being salvaged, and opens them when they can be. Else `SampleQueue.init` throws, and a salvage
    /// holds up every call.
    public var staysAvailable = false
    /// Where what could not be written at the end of an earlier run may lie, the best place first.
    public var asideDirectories: [String] = []
    /// Whether there are other signs of a store having been here, such as tokens.
    public var isStoreExpected = false
    /// Cap on the file in pages of 1,024 bytes; nil for none but the disk's.
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

    /// Where a sample of an assignment goes next.
    struct Tail: Sendable {
        var segment: Int64
        var lastSample: Int64
        /// When the segment began, in days since 1970-01-01 UTC; nil if the clock was not known then.
        var day: Int64?
    }

    nonisolated let thread: any SerialExecutor
    let whileSalvaging: @Sendable () -> Void
    public nonisolated var unownedExecutor: UnownedSerialExecutor {
        thread.asUnownedSerialExecutor()
    }

    let path: String
    var database: DatabaseQueue
    /// Held while the store is open for writing.
    var lock: StoreLock?
    private(set) var isClosed = false
    /// Why the store is not open for writing; nil while it is.
    var absence: Absence?
    /// The files it was opened with; nil until it is.
    var files: StoreFiles?
    let clock: any GatewayClock
    let settings: QueueSettings
    /// The rows of this boot and this run, and this run's nonce; 0 until the run has begun.
    var boot: Int64 = 0
    var run: Int64 = 0
    let bootID: String
    /// When the program started.
    let started: ClockReading
    /// The nonce this run's identities are made of.
    public nonisolated let runNonce: UInt64
    /// UTC − uptime of this boot, once it is trusted.
    var wallOffset: Int64?

    var buffer: [Arrival] = []
    var group: GroupCommit
    var refusals: [Int64: Int] = [:]
    /// Copies that were passed over since the last commit, by assignment.
    var copies: [Int64: Int] = [:]
    var refusedCount = 0
    var fault: QueueError?
    var failingSince: Int64?
    var isFull = false
    var lent = LentSamples()
    /// Outcomes that are written with the next transaction, by delivery.
    var unwritten: [Int64: UnwrittenOutcomes] = [:]
    /// Whether transactions take them along: not since one failed that did, until they are written by
    /// themselves, so that they cost other data nothing.
    var takesOutcomesAlong = true
    var patientHolds: [Int64: [String: String]] = [:]
    /// Damage some call met, until the store has been salvaged; when that was last done; and the part of
    /// it that was not acknowledged yet.
    var damage: QueueError?
    var salvagedUptime: Int64?
    var salvage: SalvageReport?
    var findings = StoreFindings()
    /// When the files were last found missing.
    var carriedUptime: Int64?
    var walk = ChecksumWalk()
    /// Uptimes of the last commit, of the last frame that was taken, and by assignment of the newest that
    /// is stored.
    var committedUptime: Int64?
    var takenUptime: Int64?
    var storedUptimes: [Int64: Int64] = [:]
    var nextSample: Int64
    var tails: [Int64: Tail] = [:]
    var assignmentIDs: Set<Int64>
    /// The gap ledgers of the open assignments, as of the last commit, and what came since.
    var ledgers: [Int64: KeptLedger]
    var ledgerEvents: [LedgerEvent] = []
    /// Uptime of the last transaction that told how long this run lived.
    var aliveUptime: Int64

    /// Opens the store at `path` (its directory must exist), migrates it, and begins a run.
    ///
    /// `bootID` names the running boot (``BootID/current()``); `executor` does the work instead of a
    /// thread of the store's own, such as one under simulated time. `whileSalvaging` is called again
    /// and again while a broken store is replaced, which may take minutes in which no other call is
    /// answered: a watchdog's proof of life. Throws ``QueueError``: in use, newer
    /// schema, read-only, disk full, cannot open. A broken store is no error: what can be read of it is
    /// salvaged into a new one, the broken file is kept beside it, and ``health()`` tells of it.
    public init(
        path: String, settings: QueueSettings = QueueSettings(), clock: any GatewayClock,
        bootID: String, executor: (any SerialExecutor)? = nil,
        whileSalvaging: @escaping @Sendable () -> Void = {}
    ) throws(QueueError) {
        thread = executor ?? SerialThread(label: "edge-gateway.offline-queue")
        self.whileSalvaging = whileSalvaging
        self.path = path
        self.clock = clock
        self.settings = settings
        self.bootID = bootID
        started = clock.read()
        runNonce = SampleIdentity.newNonce()
        aliveUptime = started.uptimeMicroseconds
        group = GroupCommit(
            samplesMax: settings.commitSamplesMax,
            ageMicrosecondsMax: settings.commitAgeMicrosecondsMax)
        let opening = StoreOpening(
            path: path, settings: settings, started: started, bootID: bootID, nonce: runNonce)
        do throws(QueueError) {
            lock = try StoreLock(path)
            let begun = try opening.begin(
                salvaging: !settings.staysAvailable, whileSalvaging: whileSalvaging)
            FaultPoint.runBegun.reach()
            database = begun.database
            files = StoreFiles(of: path)
            salvage = begun.start.salvage
            findings = begun.findings
            walk.through = begun.start.walkedThrough
            boot = begun.start.boot
            run = begun.start.run
            wallOffset = begun.start.wallOffset
            nextSample = begun.start.nextSample
            assignmentIDs = begun.start.assignmentIDs
            ledgers = begun.start.ledgers
        } catch {
            let error = error.located(at: path)
            guard settings.staysAvailable, error.isAbsence else { throw error }
            let standIn: DatabaseQueue
            if let readable = StoreFile.openStandIn(path) {
                standIn = readable
            } else {
                standIn = try StoreFile.openEmpty()
            }
            database = standIn
            absence = Absence(error, uptime: started.uptimeMicroseconds)
            if error.isDamage { damage = error }
            fault = error
            failingSince = started.uptimeMicroseconds
            nextSample = 1
            let registry = StandInRegistry(standIn, uptime: started.uptimeMicroseconds)
            assignmentIDs = registry.assignmentIDs
            ledgers = registry.ledgers
        }
    }

    /// Writes what is buffered, ends the run, and lets go of the file. Afterwards every call throws
    /// `closed`; another `close` does nothing. If it throws, the store is still open.
    public func close() throws(QueueError) {
        guard !isClosed else { return }
        if let absence {
            guard buffer.isEmpty, refusals.isEmpty else { throw absence.error }
            return try abandon()
        }
        if !settings.staysAvailable { try? salvageIfDamaged() }
        try flush()
        let uptime = clock.read().uptimeMicroseconds
        var kept = ledgers
        try write("end run") { [run, boot, walk] db in
            for id in kept.keys { kept[id]?.end(at: uptime) }
            try Self.keep(&kept, db, run: run, boot: boot, uptime: uptime)
            try walk.store(db)
            try db.execute(
                sql: "UPDATE run SET ended_uptime_us = ? WHERE id = ?", arguments: [uptime, run])
            FaultPoint.runEnded.reach()
        }
        ledgers = kept
        do { try database.close() } catch { throw QueueError("close store", error) }
        FaultPoint.closed.reach()
        isClosed = true
        lock = nil
    }

    /// Loses what is in memory and lets go of the file, as if the process had been killed.
    func abandon() throws(QueueError) {
        do { try database.close() } catch { throw QueueError("close store", error) }
        isClosed = true
        lock = nil
    }

    /// Runs `body` in one transaction, which takes ``unwritten`` outcomes along; on any error nothing of it
    /// remains.
    @discardableResult
    func write<Value>(
        _ operation: String, _ body: (Database) throws -> Value
    ) throws(QueueError) -> Value {
        try mustBeWritable(operation)
        let outcomes = takesOutcomesAlong ? unwritten : [:]
        do {
            let wall = outcomes.isEmpty ? nil : clock.read().trustedWallMicroseconds
            let (value, settled) = try database.write { [lent] db in
                let settled = try outcomes.filter {
                    try $0.value.fits(db, $0.key, lent, wall: wall)
                }
                return (try body(db), settled)
            }
            for (enrollment, outcomes) in settled {
                unwritten[enrollment] = nil
                lent.settled(outcomes.samples, by: enrollment)
            }
            return value
        } catch {
            if !outcomes.isEmpty { takesOutcomesAlong = false }
            let error = QueueError(operation, error).located(at: path)
            note(error)
            throw error
        }
    }

    /// Runs `body`, which only reads.
    ///
    /// Not through GRDB's `read`: that one switches `PRAGMA query_only` on and off, at which SQLite compiles
    /// every statement anew, which was a third of a delivery's cost. No other program writes, and calls come one
    /// by one: the statements of one see the same store.
    func read<Value>(
        _ operation: String, _ body: (Database) throws -> Value
    ) throws(QueueError) -> Value {
        try mustBeOpen(operation)
        do {
            return try database.unsafeRead(body)
        } catch {
            let error = QueueError(operation, error).located(at: path)
            note(error)
            throw error
        }
    }

    /// GRDB traps when a closed database is used; here it is an error.
    func mustBeOpen(_ operation: String) throws(QueueError) {
        guard !isClosed else { throw QueueError(.closed, operation, "the store is closed") }
    }

    /// Throws why nothing can be written at the moment, if that is known.
    func mustBeWritable(_ operation: String) throws(QueueError) {
        try mustBeOpen(operation)
        if let error = absence?.error { throw QueueError(error.code, operation, error.cause) }
    }
}
