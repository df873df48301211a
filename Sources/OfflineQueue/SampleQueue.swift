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
//  6. A sample is handed out for sending only with a time somebody vouches for.
//  7. A store of a newer schema is refused; the schema only moves by migrations.
//  8. When the disk refuses, samples wait in memory, `bufferedSamplesMax` at most; what comes after
//     is refused, counted as "store-unwritable", and the count is written with the next commit.
//
// Format (one SQLite file, pages of 1,024 bytes; times are Int64 microseconds)
//
//     boot        a start of the kernel: its id, and its offset UTC − uptime once somebody vouches
//     run         a start of the program: its boot and the random nonce that identities are made of
//     sensor, enrollment, assignment      who wears what, and where it goes (Roster.swift)
//     segment     the samples of one assignment in one run, without a wide hole between their ids:
//                 first_sample…last_sample, two cursors, and all counters
//     sample      id, segment, uptime, wall (only if trusted at arrival), flags, crc, frame
//     undecodable frames no measurement could be read from, kept with the fault
//     dead_letter what an exchange refused for good; its sample row stays too
//     gap         when an assignment had no samples and why; what no gap holds, samples speak for
//                 (GapLedger.swift); open while until_boot is NULL
//     loss        counts by segment, kind (refused: never stored; dropped: stored, then withheld)
//                 and reason
//     request     a lane's request that was begun and not answered for certain: the exchange may
//                 still be working on it, whatever became of this program meanwhile
//     upload      the history of requests
//
// Settling. In a segment ids grow, so "what is done" is a cursor and no row is touched:
//
//     first_sample ──pruned──▶ pruned_through ──done──▶ settled_through ──pending──▶ last_sample
//
// Ids of several sensors interleave, hence a segment's rows are found by walking its id range and
// looking at `segment`. So that the walk stays short, a segment ends when more than
// `segmentHoleMax` foreign ids would lie between two of its samples.
//
// Time of a sample: wall, else uptime + the boot's offset, else unknown (held "clock-unknown").
//
// Books. Counters change in the transaction that moves what they count, so they cannot drift:
//
//     received = stored + undecodable + refused
//     stored   = delivered + pending + held + dead + dropped
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
    /// Cap on the file in pages of 1,024 bytes; nil for none but the disk's.
    public var pageCountMax: Int?

    /// The defaults.
    public init() {}
}

/// How well the store takes what comes.
public struct StoreHealth: Sendable, Hashable {
    /// Why the last commit failed, or nil if it did not.
    public var fault: QueueError?
    /// Uptime of the first failure since the last success, µs.
    public var failingSinceUptimeMicroseconds: Int64?
    /// Samples in memory and not yet on disk.
    public var buffered: Int
    /// Samples refused since this start, because memory was full too or ``StoreFill`` at its limit.
    public var refused: Int
    /// The latest salvage of a broken store that nobody has acknowledged.
    public var salvage: SalvageReport?
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
    }

    nonisolated let thread: any SerialExecutor
    let whileSalvaging: @Sendable () -> Void
    public nonisolated var unownedExecutor: UnownedSerialExecutor {
        thread.asUnownedSerialExecutor()
    }

    let path: String
    var database: DatabaseQueue
    private(set) var lock: StoreLock?
    let clock: any GatewayClock
    let settings: QueueSettings
    /// The rows of this boot and this run, and this run's nonce.
    let boot: Int64
    let run: Int64
    let bootID: String
    /// The nonce this run's identities are made of.
    public nonisolated let runNonce: UInt64
    /// UTC − uptime of this boot, once somebody vouches for it.
    var wallOffset: Int64?

    var buffer: [Arrival] = []
    var group: GroupCommit
    var refusals: [Int64: Int] = [:]
    var refusedCount = 0
    var fault: QueueError?
    var failingSince: Int64?
    var isFull = false
    var lent = LentSamples()
    var patientHolds: [Int64: [String: String]] = [:]
    /// Damage some call met, until the store has been salvaged; when that was last done; whether the
    /// store is closed meanwhile; and what nobody has seen yet of it.
    var damage: QueueError?
    var salvagedUptime: Int64?
    var isOut = false
    var salvage: SalvageReport?
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
        thread = executor ?? SerialThread()
        self.whileSalvaging = whileSalvaging
        let lock = try StoreLock(path)
        let reading = clock.read()
        let nonce = UInt64.random(in: 1...SampleIdentity.nonceMask)
        let (database, start) = try Self.begin(
            path: path, settings: settings, reading: reading, bootID: bootID, nonce: nonce,
            whileSalvaging)
        FaultPoint.runBegun.reach()
        self.lock = lock
        self.path = path
        self.database = database
        self.clock = clock
        self.settings = settings
        self.bootID = bootID
        runNonce = nonce
        salvage = start.salvage
        boot = start.boot
        run = start.run
        wallOffset = start.wallOffset
        nextSample = start.nextSample
        assignmentIDs = start.assignmentIDs
        ledgers = start.ledgers
        aliveUptime = reading.uptimeMicroseconds
        group = GroupCommit(
            samplesMax: settings.commitSamplesMax,
            ageMicrosecondsMax: settings.commitAgeMicrosecondsMax)
    }

    /// Writes what is buffered, ends the run, and lets go of the file. Afterwards every call throws
    /// `closed`; another `close` does nothing. If it throws, the store is still open.
    public func close() throws(QueueError) {
        guard lock != nil else { return }
        try? salvageIfDamaged()
        try flush()
        let uptime = clock.read().uptimeMicroseconds
        var kept = ledgers
        try write("end run") { [run, boot] db in
            for id in kept.keys { kept[id]?.end(at: uptime) }
            try Self.keep(&kept, db, run: run, boot: boot, uptime: uptime)
            try db.execute(
                sql: "UPDATE run SET ended_uptime_us = ? WHERE id = ?", arguments: [uptime, run])
            FaultPoint.runEnded.reach()
        }
        ledgers = kept
        do { try database.close() } catch { throw QueueError("close store", error) }
        FaultPoint.closed.reach()
        lock = nil
    }

    /// Loses what is in memory and lets go of the file, as if the process had been killed: for tests.
    func abandon() throws {
        try database.close()
        lock = nil
    }

    /// Runs `body` in one transaction; on any error nothing of it remains.
    @discardableResult
    func write<Value>(
        _ operation: String, _ body: (Database) throws -> Value
    ) throws(QueueError) -> Value {
        try mustBeOpen(operation)
        do {
            return try database.write(body)
        } catch {
            let error = QueueError(operation, error)
            note(error)
            throw error
        }
    }

    /// Runs `body`, which only reads.
    ///
    /// Not through GRDB's `read`: that one switches `PRAGMA query_only` on and off, at which SQLite compiles
    /// every statement anew, which was a third of a delivery's cost. Nobody else writes, and calls come one
    /// by one: the statements of one see the same store.
    func read<Value>(
        _ operation: String, _ body: (Database) throws -> Value
    ) throws(QueueError) -> Value {
        try mustBeOpen(operation)
        do {
            return try database.unsafeRead(body)
        } catch {
            let error = QueueError(operation, error)
            note(error)
            throw error
        }
    }

    /// GRDB traps when a closed database is used; here it is an error.
    func mustBeOpen(_ operation: String) throws(QueueError) {
        guard lock != nil else { throw QueueError(.closed, operation, "the store is closed") }
        guard !isOut else { throw QueueError(.corrupt, operation, "the store is being salvaged") }
    }
}
