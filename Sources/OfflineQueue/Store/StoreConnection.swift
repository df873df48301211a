import Basics
import Foundation
import GRDB

/// The files of an open store and the connection to them, or what answers in their place.
///
/// A store that cannot be written to at the start, or is being salvaged, is absent: reads are answered from a
/// stand-in, a connection that only reads and needs nothing of the disk, and what would change something
/// throws why it cannot.
struct StoreConnection: Sendable {
    let path: String
    private let pageCountMax: Int?
    private(set) var database: DatabaseQueue
    /// Held while the store is open for writing.
    private var lock: StoreLock?
    /// The files it was opened with; nil until it is.
    private var files: StoreFiles?
    /// Why the store is not open for writing; nil while it is.
    private(set) var absence: Absence?
    private(set) var isClosed = false
    /// How often it was opened for writing.
    private(set) var openings = 0

    /// An open store.
    init(_ database: DatabaseQueue, at path: String, lock: StoreLock?, pageCountMax: Int?) {
        self.path = path
        self.pageCountMax = pageCountMax
        self.database = database
        self.lock = lock
        files = StoreFiles(of: path)
        openings = 1
    }

    /// A store that cannot be opened. Throws if not even a database in memory can replace it.
    init(
        absent absence: Absence, at path: String, lock: StoreLock?, pageCountMax: Int?
    ) throws(QueueError) {
        self.path = path
        self.pageCountMax = pageCountMax
        self.absence = absence
        self.lock = lock
        if let readable = StoreFile.openStandIn(path) {
            database = readable
        } else {
            database = try StoreFile.openEmpty()
        }
    }

    // MARK: - Reading and writing

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
            throw QueueError(operation, error).located(at: path)
        }
    }

    /// Runs `body` in one transaction; on any error nothing of it remains.
    func write<Value>(
        _ operation: String, _ body: (Database) throws -> Value
    ) throws(QueueError) -> Value {
        try mustBeWritable(operation)
        do {
            return try database.write(body)
        } catch {
            throw QueueError(operation, error).located(at: path)
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

    // MARK: - Opening and closing

    /// The store is open, with this connection.
    mutating func open(_ database: DatabaseQueue) {
        self.database = database
        absence = nil
        files = StoreFiles(of: path)
        openings += 1
    }

    /// Lets go of the files.
    mutating func close() throws(QueueError) {
        do { try database.close() } catch { throw QueueError("close store", error) }
        isClosed = true
        lock = nil
    }

    /// Locks the store unless that was done.
    mutating func takeLock() throws(QueueError) {
        if lock == nil { lock = try StoreLock(path) }
    }

    /// Closes the store, so that its files stay as they are, and answers from a stand-in.
    mutating func leave(because error: QueueError, at uptime: Uptime) {
        if absence == nil {
            StoreFile.closeKeepingLog(database, path)
        } else {
            try? database.close()
        }
        files = nil
        stayAbsent(Absence(error, uptime: uptime))
    }

    /// Closes the stand-in, before an attempt to open the store. It may be that its directory could not be
    /// made before.
    mutating func prepareReturn() throws(QueueError) {
        try? database.close()
        try? FileManager.default.createDirectory(
            at: URL(fileURLWithPath: path).deletingLastPathComponent(),
            withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        try takeLock()
    }

    /// Opens the files again that were left, and has `check` look at them, which may write; if that fails
    /// they are closed as they are.
    mutating func reopen(
        _ check: (StoreConnection) throws(QueueError) -> Void
    ) throws(QueueError) {
        database = try StoreFile.open(path, pageCountMax: pageCountMax)
        let before = absence
        absence = nil
        do throws(QueueError) {
            try check(self)
            files = StoreFiles(of: path)
            openings += 1
            markStore()
        } catch {
            absence = before
            StoreFile.closeKeepingLog(database, path)
            throw error
        }
    }

    /// The store could not be opened: a stand-in answers.
    mutating func stayAbsent(_ absence: Absence) {
        self.absence = absence
        // In memory nothing can fail but for want of memory.
        if let standIn = StoreFile.openStandIn(path) ?? (try? StoreFile.openEmpty()) {
            database = standIn
        }
    }

    /// Whether an attempt to open it is due.
    func mayReturn(uptime: Uptime) -> Bool {
        guard !isClosed, let absence, !absence.isSalvaging else { return false }
        return uptime >= absence.nextAttempt
    }

    mutating func beginSalvage() {
        absence?.isSalvaging = true
    }

    /// The next attempt to open it is due at once.
    mutating func endSalvage(_ error: QueueError?, at uptime: Uptime) {
        absence?.isSalvaging = false
        absence?.nextAttempt = uptime
        if let error { absence?.error = error }
    }

    private func markStore() {
        // What fails is done by the next start.
        if let id = try? read("read store", StoreMarker.id(of:)) {
            try? StoreMarker(besides: path).write(id)
        }
    }

    // MARK: - Files that are gone

    /// Which files of an open store are no longer at their paths; nil while all are.
    var missing: String? {
        absence == nil && !isClosed ? files?.missing : nil
    }

    /// Carries all of it into new files: the open ones still have it.
    mutating func carryOver(
        _ reading: ClockReading, onPages: @escaping @Sendable () -> Void
    ) throws(QueueError) {
        let operation = "carry store over"
        let temporary = path + ".salvaged-tmp"
        do {
            try FileManager.default.createDirectory(
                at: URL(fileURLWithPath: path).deletingLastPathComponent(),
                withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
            if files?.holdsLock != true {
                lock = nil
                lock = try StoreLock(path)
            }
            StoreSwap.remove(temporary)
            try StoreFile.copy(database, to: temporary, onPages: onPages)
            let stamp = Salvage(path: path, wall: reading.wall).stamp
            try StoreSwap(path: path).adopt(temporary, stamp: stamp)
            // Only now: in closing, SQLite deletes a log by its name, which may be another store's.
            try? database.close()
            do {
                database = try StoreFile.open(path, pageCountMax: pageCountMax)
            } catch {
                stayAbsent(Absence(error, uptime: reading.uptime))
                throw error
            }
            files = StoreFiles(of: path)
            markStore()
        } catch {
            throw QueueError(operation, error).located(at: path)
        }
    }
}
