import GRDB

/// What a new run finds in the store. Reads one sample row.
struct RunStart: Sendable {
    var boot: Int64
    var run: Int64
    var wallOffset: Int64?
    var nextSample: Int64
    var assignmentIDs: Set<Int64>
    var salvage: SalvageReport?
    /// The last sample whose row was checked; 0 if none was.
    var walkedThrough: Int64 = 0
    /// The ledgers of the open assignments, which begin with this run.
    var ledgers: [Int64: KeptLedger] = [:]

    init(_ db: Database, bootID: String, nonce: UInt64, reading: ClockReading) throws {
        try db.execute(
            sql: "INSERT INTO boot (boot_id) VALUES (?) ON CONFLICT DO NOTHING",
            arguments: [bootID])
        boot =
            try Int64.fetchOne(
                db, sql: "SELECT id FROM boot WHERE boot_id = ?", arguments: [bootID]) ?? 0
        if let wall = reading.trustedWallMicroseconds {
            try SampleQueue.trust(
                db, boot: boot, offset: wall &- reading.uptimeMicroseconds, source: "clock")
        }
        wallOffset = try Int64.fetchOne(
            db, sql: "SELECT wall_offset_us FROM boot WHERE id = ?", arguments: [boot])
        let previous = try PreviousRun(db)
        try db.execute(
            sql: """
                INSERT INTO run (boot, nonce, started_uptime_us, started_wall_us)
                VALUES (?, ?, ?, ?)
                """,
            arguments: [
                boot, Int64(bitPattern: nonce), reading.uptimeMicroseconds,
                reading.trustedWallMicroseconds,
            ])
        run = db.lastInsertedRowID
        nextSample = try Self.lastSample(db) + 1
        assignmentIDs = try Int64.fetchSet(db, sql: "SELECT id FROM assignment")
        salvage = try Row.fetchOne(
            db, sql: "SELECT * FROM salvage WHERE is_acknowledged = 0 ORDER BY id DESC LIMIT 1"
        ).map(SalvageReport.init(row:))
        walkedThrough = try Int64.fetchOne(db, sql: "SELECT through FROM walk") ?? 0
        let now = Instant(boot: boot, uptime: reading.uptimeMicroseconds)
        for assignment in try previous?.assignments(db) ?? [] {
            let begin = try previous?.closeLedger(db, of: assignment, resumedAt: now) ?? now.uptime
            guard let id = assignment["id"] as Int64?, assignment["ended_boot"] as Int64? == nil
            else { continue }
            ledgers[id] = KeptLedger(ledger: GapLedger(beginning: begin))
        }
        FaultPoint.ledgersClosed.reach()
    }

    /// The highest sample number ever given. Throws `corrupt` if the segments do not know of a sample
    /// that is there.
    static func lastSample(_ db: Database) throws -> Int64 {
        let last = try Int64.fetchOne(db, sql: "SELECT max(last_sample) FROM segment") ?? 0
        let highest = try Int64.fetchOne(db, sql: "SELECT max(id) FROM sample") ?? 0
        guard highest <= last, last < SampleIdentity.sampleMax else {
            throw QueueError(.corrupt, "begin run", "samples and segments do not agree")
        }
        return last
    }
}
