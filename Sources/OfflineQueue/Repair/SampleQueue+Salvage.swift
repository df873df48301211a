import Foundation
import GRDB

// Where damage is met, and what is done about it: at the start, before anything else; later, at the
// next `commitIfDue` after any call met it, while what arrives waits in memory.

extension SampleQueue {
    /// Pause between two salvages while running, µs; ten minutes. A card that breaks the new store at
    /// once is not helped by writing more to it.
    static let salvagePauseMicroseconds: Int64 = 600_000_000
    /// The same after one for which the disk had no room, µs.
    static let retryMicroseconds: Int64 = 60_000_000

    /// Remembers that a call met damage. `rowsOnly`: the call's arguments cannot be at fault, so that a
    /// check of the schema that fails speaks of damaged rows too.
    func note(_ error: QueueError, rowsOnly: Bool = false) {
        // SQLite does not understand SQL that every test runs: the schema it reads is not ours any more.
        let isSchemaLost = error.code == .internalFault && error.cause.hasPrefix("SQLite 1:")
        guard damage == nil, absence == nil,
            error.code == .corrupt || isSchemaLost || (rowsOnly && error.isDamage)
        else { return }
        damage = error
    }

    /// Salvages the store if a call has met damage. The run goes on, under the same nonce.
    ///
    /// With ``QueueSettings/staysAvailable`` it is done beside the queue, which answers from the broken store
    /// meanwhile and takes frames into memory.
    func salvageIfDamaged() throws(QueueError) {
        guard let cause = damage, !isClosed, absence?.isSalvaging != true else { return }
        let reading = clock.read()
        let now = reading.uptimeMicroseconds
        if let salvagedUptime, now &- salvagedUptime < Self.salvagePauseMicroseconds { return }
        // What the schema's checks refuse may be a defect of this program and not of the disk: once.
        if cause.code == .internalFault, salvagedUptime != nil { return }
        if lock == nil { lock = try StoreLock(path) }
        salvagedUptime = now
        leaveStore(
            because: QueueError(.corrupt, "salvage store", "the store is being salvaged"),
            at: now)
        absence?.isSalvaging = true
        let salvage = Salvage(
            path: path, wallMicroseconds: reading.wallMicroseconds, onPage: whileSalvaging)
        guard settings.staysAvailable else {
            do {
                try salvage.run(cause: cause)
            } catch {
                endSalvage(error)
                throw error
            }
            return endSalvage(nil)
        }
        DispatchQueue.global(qos: .utility).async {
            var failure: QueueError?
            do throws(QueueError) { try salvage.run(cause: cause) } catch { failure = error }
            let met = failure
            Task { await self.endSalvage(met) }
        }
    }

    /// If it could not be salvaged, the broken one still serves what it can.
    private func endSalvage(_ error: QueueError?) {
        absence?.isSalvaging = false
        if error == nil { damage = nil }
        let uptime = clock.read().uptimeMicroseconds
        absence?.nextAttempt = uptime
        if let error {
            absence?.error = error
            // A person may make room soon.
            if !error.isDamage {
                salvagedUptime = uptime &- Self.salvagePauseMicroseconds &+ Self.retryMicroseconds
            }
        }
        returnToStoreIfDue(uptime: uptime)
    }

    /// Puts boot and run back if their rows were lost, and forgets what is known of segments.
    func resume(_ reading: ClockReading) throws(QueueError) {
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
            if let offset { try Self.trust(db, boot: boot, offset: offset, source: "clock") }
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

    /// Acknowledges the reports, the damaged rows, a missing store and lost samples; ``health()`` and
    /// ``totals()`` name none
    /// any more.
    public func acknowledgeSalvages() throws(QueueError) {
        try write("acknowledge salvages") { db in
            try db.execute(sql: "UPDATE salvage SET is_acknowledged = 1")
            try StoreFindings.acknowledge(db)
            try Self.acknowledgeLosses(db)
        }
        salvage = nil
        findings = StoreFindings()
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
