import Basics
import Foundation
import GRDB

/// How a store is opened and a run begins, or goes on: a broken one is set aside, and a fresh one takes its place; what
/// of an earlier run was set aside is taken up, and what is not as it was left is found.
struct StoreOpening: Sendable {
    struct Begun: Sendable {
        var start: RunStart
        var findings: StoreFindings
        var sidecar: Sidecar?
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
    ///   - cause: why the store was set aside that was there before, by an earlier attempt.
    ///   - mayReplace: whether one that is found broken is set aside at once.
    ///   - ledgers: of a run that goes on: up to when the store had all of an assignment.
    ///   - known: what a run that goes on has of the sidecar.
    ///   - setAside: called once nothing broken is in the store's place, before a fresh one is.
    func begin(
        replacing damage: QueueError? = nil, after cause: QueueError? = nil,
        mayReplace: Bool = true, known: Sidecar? = nil, written: ((Int64) -> Uptime?)? = nil,
        setAside: (QueueError) -> Void = { _ in }
    ) throws(QueueError) -> (database: DatabaseQueue, Begun) {
        let evidence = Evidence(of: path)
        try evidence.finish()
        // A fresh store from an older sidecar may give a strap to the patient before. What the device has not let be read
        // for as long as it takes to call it broken will not be read.
        let found = known == nil ? Sidecar.find(besides: path) : (newest: known, unread: nil)
        let sidecar = found.newest
        var why = damage ?? cause
        let unread = sidecar != nil && why?.code == .inputOutput ? nil : found.unread
        var proved: Sidecar?
        if StoreFile.isThere(path) {
            do throws(QueueError) {
                if let damage { throw damage }
                let database = try open()
                do {
                    return (
                        database, try database.write { try begin($0, sidecar, nil, nil, written) }
                    )
                } catch {
                    throw QueueError("begin run", error).located(at: path)
                }
            } catch {
                guard damage != nil || error.isDamage, mayReplace else { throw error }
                if known == nil { proved = registry(at: path, sidecar, isOnly: unread != nil) }
                if let unread, proved == nil { throw unread }
                _ = try evidence.setAside(at: started.wall)
                why = error
            }
        } else if let unread {
            throw unread
        } else if known == nil, sidecar != nil, let file = evidence.files.last {
            // A kill may have come between the renaming and the fresh store.
            proved = registry(at: evidence.place(of: file), sidecar, isOnly: false)
        }
        let registry = known ?? proved ?? sidecar
        if let why { setAside(why) }
        // With its run from the first moment on: what it says of the time before is there, or the store is not.
        let begun = try StoreFile.make(path) { database in
            try Schema.migrator.migrate(database)
            return try database.write { db in
                try begin(db, sidecar, registry, why, written)
            }
        }
        return (try open(), begun)
    }

    private func open() throws(QueueError) -> DatabaseQueue {
        try StoreFile.open(path, pageCountMax: settings.pageCountMax)
    }

    /// The registry of the broken store itself, if it proves that it is whole, and is newer than the sidecar.
    ///
    /// - Parameter isOnly: whether there is a newer sidecar that cannot be read. Then the log must be whole, at whose end
    ///   the last change is.
    private func registry(at path: String, _ sidecar: Sidecar?, isOnly: Bool) -> Sidecar? {
        let log = WriteAheadLog(of: path, readsIndex: true)
        guard !isOnly || log.damage == nil, let view = SalvageView(StorePages(of: path, log)) else {
            return nil
        }
        defer { view.remove() }
        guard let database = view.open() else { return nil }
        defer { try? database.close() }
        let found = try? database.read { try Sidecar(proved: $0, at: started.wall) }
        guard let found, let sidecar else { return found }
        guard found.store == sidecar.store, found.change >= sidecar.change else { return nil }
        return isOnly || found.change > sidecar.change ? found : nil
    }

    /// - Parameter registry: of the store before it, for one that has nothing yet.
    private func begin(
        _ db: Database, _ sidecar: Sidecar?, _ registry: Sidecar?, _ cause: QueueError?,
        _ written: ((Int64) -> Uptime?)?
    ) throws -> Begun {
        let isFresh = registry != nil
        let refused = try registry?.fill(db) ?? 0
        let hadRuns = try Sidecar.storeID(db) != "0"
        try noteAsides(db, isFresh: isFresh)
        var start = try RunStart(
            db, bootID: bootID, nonce: nonce, reading: started, isFresh: isFresh)
        if isFresh {
            try db.loseTime { assignment in
                Instant(
                    boot: start.boot,
                    uptime: written.map { $0(assignment) ?? started.uptime } ?? started.uptime)
            }
        }
        let rows = refused == 0 ? "" : "; \(refused) rows of who wears what were damaged"
        let isBroken = try noteEvidence(
            db, sidecar, (cause?.cause ?? "it was found beside the store") + rows,
            isCounted: registry?.change == sidecar?.change)
        start.salvage = try SalvageReport.latest(db)
        if !isBroken { try reportMissing(db, sidecar, hadRuns, isFresh: isFresh, rows) }
        return Begun(
            start: start, findings: try StoreFindings(db),
            sidecar: try Sidecar.sealing(db, after: nil, at: started.wall), isFresh: isFresh)
    }

    /// Notes broken stores that lie beside this one and are not known to it yet. Returns whether there is one.
    ///
    /// - Parameter isCounted: whether no run is known to have followed the one that wrote the sidecar.
    private func noteEvidence(
        _ db: Database, _ sidecar: Sidecar?, _ cause: String, isCounted: Bool
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
                    started.wall, file, cause.bounded,
                    isNewest ? sidecar?.samples : nil, isNewest ? sidecar?.lastSample : nil,
                    isNewest ? sidecar?.at : nil, isNewest && isCounted && sidecar?.isFinal == true,
                ])
        }
        return !files.isEmpty
    }

    /// Notes what earlier runs could not write, to be imported as what a broken store held. One that the disk kept from
    /// beginning here begins now, when it did.
    private func noteAsides(_ db: Database, isFresh: Bool) throws {
        let (evidence, store) = (Evidence(of: path), try Sidecar.storeID(db))
        let found = settings.asideDirectories.flatMap(evidence.asides).map { Aside($0, of: store) }
        for aside in found.sorted(by: { $0.began.wall < $1.began.wall }) {
            // By its name, so that a damaged file is known to be ours as well.
            let nonce = evidence.nonce(ofAside: aside.path) ?? 0
            let known = try Row.fetchOne(
                db, sql: "SELECT ended_uptime_us FROM run WHERE nonce = ?",
                arguments: [Int64(bitPattern: nonce)])
            // It ends when all of it is here.
            guard known?[0] as Uptime? == nil else {
                evidence.remove(aside.path)
                continue
            }
            if known == nil, aside.fault == nil {
                // Another gateway may share the directory.
                guard let bootID = aside.bootID else { continue }
                _ = try RunStart(
                    db, bootID: bootID, nonce: nonce, reading: aside.began, isFresh: isFresh)
                // It could not be read before.
                try db.execute(
                    sql: "DELETE FROM salvage WHERE broken_file = ?", arguments: [aside.path])
            }
            try db.execute(
                sql: """
                    INSERT OR IGNORE INTO salvage (at_wall_us, broken_file, cause, fault, is_done,
                        is_acknowledged)
                    VALUES (?1, ?2, 'the disk took no more', ?3, ?3 IS NOT NULL, ?3 IS NULL)
                    """,
                arguments: [started.wall, aside.path, known == nil ? aside.fault?.bounded : nil])
        }
    }

    /// Samples that a run could not write.
    private struct Aside {
        let path: String
        /// Of its run, if it is one of that store.
        private(set) var bootID: String?
        private(set) var began = ClockReading(uptime: .zero, wall: .epoch, isTrusted: false)
        /// Why nobody knows.
        private(set) var fault: String?

        init(_ path: String, of store: String) {
            self.path = path
            let operation = "read what was set aside"
            do {
                let run = try StoreFile.readOnce(path, operation) { db in
                    guard try Sidecar.storeID(db) == store else { return nil as Row? }
                    return try Row.fetchOne(
                        db,
                        sql: """
                            SELECT b.boot_id, r.started_uptime_us, r.started_wall_us
                            FROM run r JOIN boot b ON b.id = r.boot WHERE r.is_imported = 0
                            ORDER BY r.id DESC LIMIT 1
                            """)
                }
                guard let run else { return }
                let wall = run[2] as UTC?
                bootID = run[0]
                began = ClockReading(
                    uptime: run[1] ?? .zero, wall: wall ?? .epoch, isTrusted: wall != nil)
            } catch {
                fault = QueueError(operation, error).cause
            }
        }
    }

    /// Writes down that a store was here and is not any more.
    private func reportMissing(
        _ db: Database, _ sidecar: Sidecar?, _ isOld: Bool, isFresh: Bool, _ rows: String
    ) throws {
        let detail: String
        if isFresh {
            detail = "its files are gone\(rows)"
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
