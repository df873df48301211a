import Basics
import Foundation
import GRDB

/// How a store is opened and a run begins, or goes on: a broken one is set aside, and a fresh one takes its place; what
/// of an earlier run was set aside is taken up, and what is not as it was left is found.
struct StoreOpening: Sendable {
    struct Begun: Sendable {
        var database: DatabaseQueue
        var start: RunStart
        var findings: StoreFindings
        /// Whether the store is new, and has nothing of an earlier one but its registry.
        var isFresh: Bool
    }

    let path: String
    let settings: QueueSettings
    /// When the program started: the run begins then, however late the store opens.
    let started: ClockReading
    let bootID: String
    let nonce: UInt64

    /// Opens the store, or makes one, and begins the run.
    ///
    /// - Parameters:
    ///   - damage: what is known to be wrong with the store; nil: it is examined.
    ///   - mayReplace: whether one that is found broken is set aside at once.
    ///   - ledgers: of a run that goes on: up to when the store had all of an assignment.
    ///   - known: what a run that goes on has of the sidecar.
    func begin(
        replacing damage: QueueError? = nil, mayReplace: Bool = true, known: Sidecar? = nil,
        written: ((Int64) -> Uptime?)? = nil
    ) throws(QueueError) -> Begun {
        let evidence = Evidence(of: path)
        try evidence.finish()
        let wasThere = StoreFile.isThere(path)
        var (sidecar, unread) = (known, QueueError?.none)
        if known == nil {
            do throws(QueueError) {
                sidecar = try Sidecar.newest(besides: path)
            } catch { unread = error }
        }
        var broken: (file: String, cause: QueueError)?
        if wasThere {
            do throws(QueueError) {
                if let damage { throw damage }
                return try begin(sidecar, isFresh: false, nil, written)
            } catch {
                guard damage != nil || error.isDamage, mayReplace else { throw error }
                // A fresh store without its registry would know nobody.
                if let unread { throw unread }
                broken = (try evidence.setAside(at: started.wall), error)
            }
        }
        if let unread { throw unread }
        let registry = known ?? broken.flatMap { self.registry(of: $0.file, sidecar) } ?? sidecar
        try StoreFile.make(path) { database in
            try Schema.migrator.migrate(database)
            try database.write { db in try registry?.fill(db) }
        }
        return try begin(sidecar, isFresh: registry != nil, broken?.cause ?? damage, written)
    }

    /// The registry of the broken store itself, if it is whole and the sidecar's next state, or if there is no sidecar.
    private func registry(of file: String, _ sidecar: Sidecar?) -> Sidecar? {
        let path = Evidence(of: path).place(of: file)
        guard let view = SalvageView(of: path, WriteAheadLog(of: path, readsIndex: true)) else {
            return nil
        }
        defer { view.remove() }
        guard let database = view.open() else { return nil }
        defer { try? database.close() }
        guard let found = try? database.read({ try Sidecar($0, at: started.wall) }) else {
            return nil
        }
        return sidecar.map { found.change == $0.change &+ 1 && found.store == $0.store } ?? true
            ? found : nil
    }

    private func begin(
        _ sidecar: Sidecar?, isFresh: Bool, _ cause: QueueError?, _ written: ((Int64) -> Uptime?)?
    ) throws(QueueError) -> Begun {
        let database = try StoreFile.open(path, pageCountMax: settings.pageCountMax)
        do {
            if let sidecar, !isFresh,
                try database.unsafeRead({ try Sidecar($0, at: started.wall) }).contradicts(sidecar)
            {
                throw QueueError(.corrupt, "open store", Sidecar.contradiction)
            }
            return try database.write { db in
                let hadSamples = try Sidecar.storeID(db) != "0"
                try noteAsides(db, isFresh: isFresh)
                var start = try RunStart(
                    db, bootID: bootID, nonce: nonce, reading: started, isFresh: isFresh)
                if isFresh {
                    try db.loseTime { assignment in
                        Instant(
                            boot: start.boot,
                            uptime: written.map { $0(assignment) ?? started.uptime }
                                ?? started.uptime)
                    }
                }
                let isBroken = try noteEvidence(db, sidecar, cause)
                start.salvage = try SalvageReport.latest(db)
                if !isBroken { try reportMissing(db, sidecar, hadSamples, isFresh: isFresh) }
                return Begun(
                    database: database, start: start, findings: try StoreFindings(db),
                    isFresh: isFresh)
            }
        } catch {
            throw QueueError("begin run", error).located(at: path)
        }
    }

    /// Notes broken stores that lie beside this one and are not known to it yet. Returns whether there is one.
    private func noteEvidence(
        _ db: Database, _ sidecar: Sidecar?, _ cause: QueueError?
    ) throws -> Bool {
        let known = try String.fetchSet(db, sql: "SELECT broken_file FROM salvage")
        let files = Evidence(of: path).files.filter { !known.contains($0) }
        for file in files {
            let isNewest = file == files.last
            try db.execute(
                sql: """
                    INSERT INTO salvage (at_wall_us, broken_file, cause, stored, stored_through,
                        stored_wall_us, is_exact)
                    VALUES (?, ?, ?, ?, ?, ?, ?)
                    """,
                arguments: [
                    started.wall, file, cause?.cause.bounded ?? "it was found beside the store",
                    isNewest ? sidecar?.samples : nil, isNewest ? sidecar?.lastSample : nil,
                    isNewest ? sidecar?.at : nil, isNewest && sidecar?.isFinal == true,
                ])
        }
        return !files.isEmpty
    }

    /// Notes what earlier runs could not write, to be imported as what a broken store held. One that the disk kept from
    /// beginning here begins now, when it did.
    private func noteAsides(_ db: Database, isFresh: Bool) throws {
        let (evidence, store) = (Evidence(of: path), try Sidecar.storeID(db))
        let found = settings.asideDirectories.flatMap(evidence.asides).compactMap {
            path -> (path: String, run: Row)? in
            // Another gateway may share the directory. What cannot be read stays for a person to examine.
            let run = try? StoreFile.readOnce(path, "read what was set aside") { db in
                guard try Sidecar.storeID(db) == store else { return nil as Row? }
                return try Row.fetchOne(
                    db,
                    sql: """
                        SELECT r.nonce, b.boot_id, r.started_uptime_us, r.started_wall_us
                        FROM run r JOIN boot b ON b.id = r.boot WHERE r.is_imported = 0
                        ORDER BY r.id DESC LIMIT 1
                        """)
            }
            return run.flatMap { $0 }.map { (path, $0) }
        }
        func started(_ run: Row) -> ClockReading {
            let wall = run[3] as UTC?
            return ClockReading(
                uptime: run[2] ?? .zero, wall: wall ?? .epoch, isTrusted: wall != nil)
        }
        for (path, run) in found.sorted(by: { started($0.run).wall < started($1.run).wall }) {
            let nonce: Int64 = run[0] ?? 0
            let known = try Row.fetchOne(
                db, sql: "SELECT ended_uptime_us FROM run WHERE nonce = ?", arguments: [nonce])
            // It ends when all of it is here.
            guard known?[0] as Uptime? == nil else {
                evidence.remove(path)
                continue
            }
            if known == nil {
                _ = try RunStart(
                    db, bootID: run[1] ?? "", nonce: UInt64(bitPattern: nonce),
                    reading: started(run), isFresh: isFresh)
            }
            try db.execute(
                sql: """
                    INSERT OR IGNORE INTO salvage (at_wall_us, broken_file, cause, is_acknowledged)
                    VALUES (?, ?, 'the disk took no more', 1)
                    """, arguments: [self.started.wall, path])
        }
    }

    /// Writes down that a store was here and is not any more.
    private func reportMissing(
        _ db: Database, _ sidecar: Sidecar?, _ isOld: Bool, isFresh: Bool
    ) throws {
        let detail: String
        if isFresh {
            detail = "its files are gone"
        } else if let sidecar, try Sidecar.storeID(db) != sidecar.store {
            detail = "another store stands in its place"
        } else if sidecar == nil, !isOld, settings.isStoreExpected {
            detail = "its files are gone; there are tokens of its enrollments"
        } else {
            return
        }
        try StoreFindings.insertMissing(db, at: started.wall, detail, isCarried: false)
    }
}
