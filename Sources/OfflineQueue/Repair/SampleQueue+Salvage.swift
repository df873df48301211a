import Basics
import Foundation
import GRDB

// Where damage is met, and what is done about it: at the start, before anything else; later, at the
// next `commitIfDue` after any call met it, while what arrives waits in memory.

extension SampleQueue {
    /// Remembers that a call met damage (``StoreRepair/note(_:rowsOnly:)``).
    func note(_ error: QueueError, rowsOnly: Bool = false) {
        if store.absence == nil { repair.note(error, rowsOnly: rowsOnly) }
    }

    /// Salvages the store if a call has met damage. The run goes on, under the same nonce.
    ///
    /// With ``QueueSettings/staysAvailable`` it runs in the background, while the queue answers from the broken store
    /// meanwhile and takes frames into memory.
    func salvageIfDamaged() throws(QueueError) {
        let reading = clock.read()
        let uptime = reading.uptime
        guard !store.isClosed, store.absence?.isSalvaging != true,
            let cause = repair.salvageDue(uptime: uptime)
        else { return }
        try store.takeLock()
        repair.salvageBegan(uptime: uptime)
        store.leave(
            because: QueueError(.corrupt, "salvage store", "the store is being salvaged"),
            at: uptime)
        store.beginSalvage()
        let now = Instant(boot: run.boot, uptime: reading.uptime)
        let salvage = Salvage(
            path: store.path, wall: reading.wall,
            remembered: remembered.map { ($0, now) }, onPage: whileSalvaging)
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
        let uptime = clock.read().uptime
        store.endSalvage(error, at: uptime)
        repair.salvageEnded(error, uptime: uptime)
        returnToStoreIfDue(uptime: uptime)
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
        repair.acknowledge()
    }
}

extension SalvageReport {
    /// The latest that was not acknowledged.
    static func latest(_ db: Database) throws -> SalvageReport? {
        try Row.fetchOne(
            db, sql: "SELECT * FROM salvage WHERE is_acknowledged = 0 ORDER BY id DESC LIMIT 1"
        ).map(SalvageReport.init(row:))
    }

    init(row: Row) {
        id = row["id"] ?? 0
        at = row["at_wall_us"] ?? .epoch
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
