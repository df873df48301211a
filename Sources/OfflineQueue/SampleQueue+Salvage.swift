import Foundation
import GRDB

// Where damage is met, and what is done about it: at the start, before anything else; later, at the
// next `commitIfDue` after any call met it, while what arrives waits in memory.

extension SampleQueue {
    /// Pause between two salvages while running, µs; ten minutes. A card that breaks the new store at
    /// once is not helped by writing more to it.
    static let salvagePauseMicroseconds: Int64 = 600_000_000

    /// Opens the store and begins a run; a broken store is salvaged first, once.
    static func begin(
        path: String, settings: QueueSettings, reading: ClockReading, bootID: String,
        nonce: UInt64, _ whileSalvaging: @escaping @Sendable () -> Void
    ) throws(QueueError) -> (DatabaseQueue, RunStart) {
        func start() throws(QueueError) -> (DatabaseQueue, RunStart) {
            let database = try StoreFile.open(path, pageCountMax: settings.pageCountMax)
            do {
                let start = try database.write { db in
                    try RunStart(db, bootID: bootID, nonce: nonce, reading: reading)
                }
                return (database, start)
            } catch {
                try? database.close()
                throw QueueError("begin run", error)
            }
        }
        do {
            return try start()
        } catch {
            guard error.isDamage else { throw error }
            try Salvage(
                path: path, wallMicroseconds: reading.wallMicroseconds, onPage: whileSalvaging
            ).run(cause: error)
            return try start()
        }
    }

    /// Remembers that a call met damage. `rowsOnly`: the call's arguments cannot be at fault, so that a
    /// check of the schema that fails speaks of damaged rows too.
    func note(_ error: QueueError, rowsOnly: Bool = false) {
        // SQLite does not understand SQL that every test runs: the schema it reads is not ours any more.
        let isSchemaLost = error.code == .internalFault && error.cause.hasPrefix("SQLite 1:")
        guard damage == nil,
            error.code == .corrupt || isSchemaLost || (rowsOnly && error.isDamage)
        else { return }
        damage = error
    }

    /// Salvages the store if a call has met damage. The run goes on, under the same nonce.
    func salvageIfDamaged() throws(QueueError) {
        guard let cause = damage, lock != nil else { return }
        let reading = clock.read()
        let now = reading.uptimeMicroseconds
        if let salvagedUptime, now &- salvagedUptime < Self.salvagePauseMicroseconds { return }
        // What the schema's checks refuse may be a defect of this program and not of the disk: once.
        if cause.code == .internalFault, salvagedUptime != nil { return }
        salvagedUptime = now
        isOut = true
        try? database.close()
        defer {
            // If it could not be salvaged, the broken one still serves what it can.
            if isOut, let database = try? StoreFile.open(path, pageCountMax: nil) {
                self.database = database
                isOut = false
            }
        }
        try Salvage(
            path: path, wallMicroseconds: reading.wallMicroseconds, onPage: whileSalvaging
        ).run(cause: cause)
        database = try StoreFile.open(path, pageCountMax: settings.pageCountMax)
        isOut = false
        damage = nil
        try resume(reading)
    }

    /// Puts boot and run back if their rows were lost, and forgets what is known of segments.
    private func resume(_ reading: ClockReading) throws(QueueError) {
        let offset = wallOffset
        let (last, assignments) = try write("resume run") { [boot, run, bootID, runNonce] db in
            try db.execute(
                sql: "INSERT OR IGNORE INTO boot (id, boot_id) VALUES (?, ?)",
                arguments: [boot, bootID])
            try db.execute(
                sql: """
                    INSERT OR IGNORE INTO run (id, boot, nonce, started_uptime_us)
                    VALUES (?, ?, ?, ?)
                    """,
                arguments: [
                    run, boot, Int64(bitPattern: runNonce), reading.uptimeMicroseconds,
                ])
            if let offset { try Self.vouch(db, boot: boot, offset: offset, source: "clock") }
            return (
                try RunStart.lastSample(db),
                try Int64.fetchSet(db, sql: "SELECT id FROM assignment")
            )
        }
        nextSample = max(nextSample, last + 1)
        tails = [:]
        assignmentIDs = assignments
        salvage = try salvages(limit: 1).first { !$0.isAcknowledged }
    }

    /// What became of broken stores, newest first.
    public func salvages(limit: Int = 100) throws(QueueError) -> [SalvageReport] {
        try read("list salvages") { db in
            try Row.fetchAll(
                db, sql: "SELECT * FROM salvage ORDER BY id DESC LIMIT ?",
                arguments: [max(0, limit)]
            ).map(SalvageReport.init(row:))
        }
    }

    /// Somebody has seen the reports; ``health()`` names none any more.
    public func acknowledgeSalvages() throws(QueueError) {
        try write("acknowledge salvages") { db in
            try db.execute(sql: "UPDATE salvage SET is_acknowledged = 1")
        }
        salvage = nil
    }
}

extension SalvageReport {
    init(row: Row) {
        id = row["id"] ?? 0
        atMicroseconds = row["at_wall_us"] ?? 0
        brokenFile = row["broken_file"] ?? ""
        cause = row["cause"] ?? ""
        carried = row["carried"] ?? 0
        damaged = row["damaged"] ?? 0
        orphaned = row["orphaned"] ?? 0
        lost = row["lost"] ?? 0
        isAcknowledged = row["is_acknowledged"] ?? false
    }
}

extension QueueError {
    /// Whether the store itself is to blame: SQLite calls it broken, or its rows contradict the schema.
    var isDamage: Bool { code == .corrupt || code == .internalFault }
}
