import Basics
import GRDB

/// The state that a new run finds in the store. Reads one sample row.
struct RunStart: Sendable {
    var boot: Int64
    var run: Int64
    var clock: BootClock
    var nextSample: Int64
    var salvage: SalvageReport?
    /// The last sample whose row was checked; 0 if none was.
    var walkedThrough: Int64 = 0
    /// The ledgers of the open assignments, which begin with this run.
    var ledgers: [Int64: KeptLedger] = [:]

    /// The first run of a store gets any number below this one, the next ones follow: a segment says by its run of which
    /// store it is, also where the file of another one was written over this one's.
    private static let firstRunMax: Int64 = 1 << 31

    /// Two stores that one run makes, one in the place of the other, are made at different times.
    private static func firstRun(_ nonce: UInt64, _ reading: ClockReading) -> Int64 {
        var random = SeededRandom(
            seed: nonce &+ UInt64(bitPattern: reading.uptime.microseconds))
        return .random(in: 0..<firstRunMax, using: &random)
    }

    /// - Parameter isFresh: whether the store is new and knows of the runs before this one only that they were.
    init(
        _ db: Database, bootID: String, nonce: UInt64, reading: ClockReading, isFresh: Bool = false
    ) throws {
        boot = try db.boot(bootID)
        clock = try BootClock(db, boot: boot) ?? BootClock()
        let facts = [clock.note(reading)].compactMap(\.self)
        try clock.write(facts, boot: boot, source: "clock", db)
        nextSample = try Self.lastSample(db) + 1
        let previous = try PreviousRun(db)
        // A commit that a full disk refused at its last bytes is in the log all the same, and counts when the
        // store is opened again. The run is its own predecessor then, and nothing is left to be closed.
        let begun = try Int64.fetchOne(
            db, sql: "SELECT id FROM run WHERE nonce = ?", arguments: [Int64(bitPattern: nonce)])
        if let begun {
            run = begun
        } else {
            try db.execute(
                sql: """
                    INSERT INTO run (id, boot, nonce, started_uptime_us, started_wall_us)
                    VALUES ((SELECT 1 + coalesce(max(id), ?) FROM run), ?, ?, ?, ?)
                    """,
                arguments: [
                    Self.firstRun(nonce, reading), boot, Int64(bitPattern: nonce),
                    reading.uptime, reading.trustedWall,
                ])
            run = db.lastInsertedRowID
        }
        try db.markStore()
        walkedThrough = try Int64.fetchOne(db, sql: "SELECT through FROM walk") ?? 0
        let now = Instant(boot: boot, uptime: reading.uptime)
        if isFresh {
            for id in try Int64.fetchAll(
                db, sql: "SELECT id FROM assignment WHERE ended_boot IS NULL")
            {
                ledgers[id] = KeptLedger(ledger: GapLedger(beginning: now.uptime))
            }
        }
        if let previous, !isFresh {
            for assignment in try Row.fetchAll(
                db, sql: "SELECT * FROM assignment WHERE ended_boot IS NULL")
            {
                let begin = try previous.closeLedger(db, of: assignment, resumedAt: now)
                ledgers[assignment["id"] ?? 0] = KeptLedger(ledger: GapLedger(beginning: begin))
            }
        }
        FaultPoint.ledgersClosed.reach()
    }

    /// The highest sample number ever given. Throws `corrupt` if the segments do not know of a sample
    /// that is there, or if they know of a run that is not: the next one would get its number, and its samples.
    static func lastSample(_ db: Database) throws -> Int64 {
        let last = try lastGiven(db)
        let highest = try Int64.fetchOne(db, sql: "SELECT max(id) FROM sample") ?? 0
        guard highest <= last else {
            throw QueueError(.corrupt, "begin run", "samples and segments do not agree")
        }
        let lastRun = try Int64.fetchOne(db, sql: "SELECT max(id) FROM run") ?? 0
        let lastOfSegments = try Int64.fetchOne(db, sql: "SELECT max(run) FROM segment") ?? 0
        guard lastOfSegments <= lastRun else {
            throw QueueError(.corrupt, "begin run", "segments and runs do not agree")
        }
        return last
    }

    /// The last number by the segments alone. Throws `corrupt` for the largest possible number or more: with it in a
    /// sidecar, no fresh store could number a sample.
    static func lastGiven(_ db: Database) throws -> Int64 {
        let erased = "SELECT number FROM erased_until WHERE kind = 'sample'"
        let last =
            try Int64.fetchOne(
                db.cachedStatement(
                    sql: """
                        SELECT max(coalesce((SELECT max(last_sample) FROM segment), 0),
                            coalesce((\(erased)), 0))
                        """)) ?? 0
        guard last < SampleIdentity.sampleMax else {
            throw QueueError(.corrupt, "find last sample", "its number cannot be")
        }
        return last
    }
}
