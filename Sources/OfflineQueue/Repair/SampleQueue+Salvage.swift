import Basics
import Foundation
import GRDB

// Where damage is met, and what is done about it: at the start, before anything else; later, at the
// next `commitIfDue` after any call met it. What is found in the broken files is imported while recording goes on.

/// The progress of saving one broken store.
struct Saving: Sendable {
    /// The number of its report.
    let id: Int64
    let file: String
    fileprivate var work: SampleImport
    /// Samples that contradict the tables.
    private var rejected = 0

    fileprivate init(id: Int64, file: String, _ settings: QueueSettings) {
        self.id = id
        self.file = file
        work = SampleImport(home: settings, isAside: Evidence.isAside(file))
    }

    /// The oldest broken store that is not saved yet; nil without one.
    static func next(_ db: Database, _ settings: QueueSettings) throws -> Saving? {
        try Row.fetchOne(
            db, sql: "SELECT id, broken_file FROM salvage WHERE is_done = 0 ORDER BY id LIMIT 1"
        ).map { Saving(id: $0[0] ?? 0, file: $0[1] ?? "", settings) }
    }

    /// Samples that are here now.
    var carried: Int { work.summary.added + work.summary.known }

    /// Stores the next piece, but for what contradicts the tables: damage can make anything of a row.
    fileprivate mutating func add(
        _ piece: SalvageReader.Piece, from number: Int64, during run: Int64, _ db: Database
    ) throws {
        let before = work
        do {
            try db.inSavepoint {
                try store(piece, from: number, during: run, db)
                return .commit
            }
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
            work = before
            guard let (first, second) = piece.halves else {
                if case .samples = piece { rejected += 1 }
                return
            }
            try add(first, from: number, during: run, db)
            try add(second, from: max(number, work.nextSample), during: run, db)
        }
        FaultPoint.sliceSaved.reach()
    }

    private mutating func store(
        _ piece: SalvageReader.Piece, from number: Int64, during run: Int64, _ db: Database
    ) throws {
        switch piece {
        case .gaps(let gaps): try Self.add(gaps, db)
        case .undecodable(let frames): try work.store(undecodable: frames, from: number, db)
        case .samples(let lines):
            try work.store(lines, from: number, during: run, db)
        }
    }

    private static func add(
        _ gaps: some Sequence<SalvageSource.Values>, _ db: Database
    ) throws {
        for row in gaps {
            func instant(_ name: String) throws -> Instant? {
                let boot = try Int64.fetchOne(
                    db.cachedStatement(sql: "SELECT id FROM boot WHERE boot_id = ?"),
                    arguments: [row["\(name)_boot"]])
                guard let boot, let uptime: Uptime = row.value("\(name)_uptime_us") else {
                    return nil
                }
                return Instant(boot: boot, uptime: uptime)
            }
            guard let assignment = row.number("assignment"),
                let from = try instant("from"), let until = try instant("until"), from < until,
                let cause = (row.value("cause") as String?).flatMap(GapCause.init),
                cause != .storeLost
            else { continue }
            try db.explain(assignment, from: from, until: until, as: cause)
        }
    }

    /// All that can be read is here. Returns whether nobody needs the files any more.
    fileprivate mutating func end(
        _ rest: SalvageReader.Rest, from nextSample: Int64, _ db: Database
    ) throws -> Bool {
        try work.count(rest.refused, from: nextSample, db)
        let unread = rest.unread
        let orphaned = unread.orphaned + work.summary.unsure + rejected
        if Evidence.isAside(file), rest.isWhole, unread.damaged + orphaned == 0, unread.isReadable {
            try db.execute(sql: "DELETE FROM salvage WHERE id = ?", arguments: [id])
            try db.execute(
                sql: "UPDATE run SET ended_uptime_us = ? WHERE nonce = ?",
                arguments: [rest.lastEnd, rest.lastNonce])
            return true
        }
        try db.execute(
            sql: """
                UPDATE salvage SET carried = max(0, ? - iif(stored IS NULL, 0, ?)), damaged = ?,
                    orphaned = ?, is_done = 1, fault = ?, is_acknowledged = 0,
                    stored = stored + max(0, ? - stored_through),
                    is_exact = is_exact AND EXISTS
                        (SELECT 1 FROM run WHERE nonce = ? AND is_imported = 0)
                WHERE id = ?
                """,
            arguments: [
                carried, unread.strangers, unread.damaged, orphaned,
                unread.isReadable ? nil : "the disk does not let all of the files be read",
                unread.last,
                // Of a run that the registry did not know, nobody counted the samples.
                rest.lastNonce, id,
            ])
        return false
    }

    /// Something is in the way; with `isOver` it is not tried again.
    fileprivate func fail(_ error: QueueError, isOver: Bool, _ db: Database) throws {
        try db.execute(
            sql: """
                UPDATE salvage SET fault = ?1, is_done = ?2, carried = max(carried, ?3),
                    is_acknowledged = is_acknowledged AND NOT ?2
                WHERE id = ?4
                """, arguments: [error.cause.bounded, isOver, carried, id])
    }
}

extension SampleQueue {
    /// Pause after something kept a broken store from being saved, such as a full disk; as much longer each time.
    private static let savingPause = Duration.seconds(60)
    private static let savingPauseMax = Duration.seconds(3_600)
    /// So often what no room on the disk will mend is tried again, such as parts that cannot be read.
    private static let savingAttemptsMax = 5

    /// Remembers that a call met damage (``StoreRepair/note(_:rowsOnly:at:)``).
    func note(_ error: QueueError, rowsOnly: Bool = false) {
        guard store.absence == nil, !isExplained(error) else { return }
        repair.note(error, rowsOnly: rowsOnly, at: clock.read().uptime)
    }

    /// Whether the disk is read-only, or the file is not ours to write.
    func isExplained(_ error: QueueError) -> Bool {
        error.code == .readOnly
            && (DiskRoom(at: store.path)?.isReadOnly != false || access(store.path, W_OK) != 0)
    }

    /// Begins to save what a broken store holds, if there is one and nothing is being saved.
    ///
    /// With ``QueueSettings/staysAvailable`` it goes on in the background, else every call waits for it.
    func saveIfDue(uptime: Uptime) {
        guard saving == nil, store.absence == nil, !store.isClosed, !store.isAside, let nextSaving,
            uptime >= nextSaving
        else { return }
        self.nextSaving = nil
        do throws(QueueError) {
            guard let next = try read("find broken store", { try Saving.next($0, settings) }) else {
                return
            }
            save(next)
        } catch {
            self.nextSaving = uptime + Self.savingPause
        }
    }

    private func save(_ next: Saving) {
        // A failed commit may have left frames in the broken store. Those in memory must be stored first, under the same
        // numbers.
        try? flush()
        saving = next
        let place = Evidence(of: store.path).place(of: next.file)
        // The files of the sidecar may be older, if the disk did not take the newest.
        let known = Evidence.isAside(next.file) ? nil : sidecar.newest
        let openings = store.openings
        guard settings.staysAvailable else {
            do throws(QueueError) {
                let reader = try SalvageReader(path: place, sidecar: known)
                while let piece = reader.nextPiece() { try save(piece, openings) }
                try endSaving(reader.rest, openings)
            } catch {
                failSaving(error, openings)
            }
            return
        }
        Task.detached(priority: .utility) { [self] in
            do throws(QueueError) {
                let reader = try SalvageReader(path: place, sidecar: known)
                while let piece = reader.nextPiece() { try await save(piece, openings) }
                try await endSaving(reader.rest, openings)
            } catch {
                await failSaving(error, openings)
            }
        }
    }

    /// - Parameter openings: as many as there were when the saving began: another store is not the one it is for.
    private func save(_ piece: SalvageReader.Piece, _ openings: Int) throws(QueueError) {
        try mustBeSaving(openings)
        guard let saving else { return }
        let (start, current) = (segments.nextSample, run.id)
        let done = try write("save samples") { db in
            var saving = saving
            try saving.add(piece, from: start, during: current, db)
            return saving
        }
        self.saving = done
        segments.advance(to: max(start, done.work.nextSample))
    }

    private func endSaving(_ rest: SalvageReader.Rest, _ openings: Int) throws(QueueError) {
        try mustBeSaving(openings)
        guard var saving else { return }
        guard rest.unread.isReadable || savingAttempts + 1 >= Self.savingAttemptsMax else {
            throw QueueError(.inputOutput, "save samples", "parts of the files cannot be read")
        }
        let start = segments.nextSample
        let (isOver, report) = try write("end saving") { db in
            (try saving.end(rest, from: start, db), try SalvageReport.latest(db))
        }
        repair.salvage = report
        if isOver { Evidence(of: store.path).remove(saving.file) }
        (self.saving, savingAttempts) = (nil, 0)
        nextSaving = .zero
        saveIfDue(uptime: clock.read().uptime)
    }

    /// Says why, and tries again later; only want of room is worth more than a few attempts.
    private func failSaving(_ error: QueueError, _ openings: Int) {
        guard openings == store.openings, let failed = saving else { return }
        saving = nil
        savingAttempts += 1
        let mayPass = error.code == .diskFull || error.code == .readOnly
        let isOver = !mayPass && savingAttempts >= Self.savingAttemptsMax
        let report = try? write("end saving") { db in
            try failed.fail(error, isOver: isOver, db)
            return try SalvageReport.latest(db)
        }
        if let report { repair.salvage = report }
        let pause = min(Self.savingPause * savingAttempts, Self.savingPauseMax)
        nextSaving = clock.read().uptime + pause
        if isOver { savingAttempts = 0 }
    }

    private func mustBeSaving(_ openings: Int) throws(QueueError) {
        guard openings == store.openings, saving != nil else {
            throw QueueError(.closed, "save samples", "the store is another one")
        }
    }

    /// The files of a broken store go last: when it is saved as far as it can be, and a year after it broke if a person
    /// has acknowledged it, or when the disk is full. The clock may not have been trusted when it broke.
    private static let evidenceAgeMax = Duration.seconds(365 * 86_400)

    func pruneEvidence(_ now: UTC) {
        let evidence = Evidence(of: store.path)
        let isFull = DiskRoom(at: store.path)?.isFull ?? false
        let old = try? read("list salvages") { db in
            try Row.fetchAll(
                db,
                sql: """
                    SELECT broken_file, is_acknowledged AND at_wall_us < ?1 FROM salvage
                    WHERE is_done = 1
                        AND (is_acknowledged AND at_wall_us < ?1 OR ?2 AND fault IS NULL) ORDER BY id
                    """, arguments: [now - Self.evidenceAgeMax, isFull])
        }
        let files = Set(evidence.files)
        // Of those that are in the way, one at a time.
        var mayMakeRoom = true
        for row in old ?? [] where files.contains(row[0] ?? "") {
            guard mayMakeRoom || row[1] as Bool? == true else { continue }
            evidence.remove(row[0] ?? "")
            mayMakeRoom = false
        }
    }

    /// The files of broken stores that are still here, and of what runs could not write: they may hold a patient who
    /// was erased since.
    public func evidence() -> [String] {
        Evidence(of: store.path).paths(settings.asideDirectories)
    }

    /// The outcome of broken stores, newest first.
    public func salvages(limit: Int = 100) throws(QueueError) -> [SalvageReport] {
        try read("list salvages") { db in
            try Row.fetchAll(
                db, sql: "SELECT * FROM salvage ORDER BY id DESC LIMIT ?",
                arguments: [max(0, limit)]
            ).map(SalvageReport.init(row:))
        }
    }

    /// Acknowledges the reports of stores that are saved, the damaged rows, a missing store and lost samples;
    /// ``health()`` and ``totals()`` name none any more. Of the files of acknowledged stores the newest
    /// ``brokenFilesMax`` stay; the others are deleted.
    public func acknowledgeSalvages() throws(QueueError) {
        let (names, latest) = try write("acknowledge salvages") { db in
            try db.execute(sql: "UPDATE salvage SET is_acknowledged = 1 WHERE is_done = 1")
            try StoreFindings.acknowledge(db)
            try Self.acknowledgeLosses(db)
            let names = try String.fetchAll(
                db,
                sql: """
                    SELECT broken_file FROM salvage WHERE is_acknowledged = 1 AND is_done = 1
                    ORDER BY id DESC LIMIT -1 OFFSET ?
                    """, arguments: [Self.brokenFilesMax])
            return (names, try SalvageReport.latest(db))
        }
        for name in names { Evidence(of: store.path).remove(name) }
        repair.acknowledge()
        repair.salvage = latest
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
        stored = (row["stored"] as Int?).map {
            LastKnown(samples: $0, at: row["stored_wall_us"] ?? .epoch)
        }
        carried = row["carried"] ?? 0
        damaged = row["damaged"] ?? 0
        orphaned = row["orphaned"] ?? 0
        isExact = row["is_exact"] ?? false
        isDone = row["is_done"] ?? false
        fault = row["fault"]
        isAcknowledged = row["is_acknowledged"] ?? false
    }
}

extension QueueError {
    /// Whether the store itself is to blame: SQLite calls it broken, or its rows contradict the schema.
    var isDamage: Bool { code == .corrupt || code == .internalFault }
}
