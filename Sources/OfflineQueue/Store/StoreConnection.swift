import Basics
import Foundation
import GRDB

/// The files of an open store and the connection to them, or what answers in their place.
///
/// A store that cannot be opened is absent: what is asked is answered from memory, with what the sidecar knows, and what
/// would change something throws why it cannot.
struct StoreConnection: Sendable {
    private(set) var path: String
    /// Whether it holds what the store itself did not take, elsewhere.
    private(set) var isAside = false
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
        absent absence: Absence, at path: String, lock: StoreLock?, pageCountMax: Int?,
        _ sidecar: Sidecar?
    ) throws(QueueError) {
        self.path = path
        self.pageCountMax = pageCountMax
        self.absence = absence
        self.lock = lock
        database = try StoreFile.openInMemory(sidecar)
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
    mutating func write<Value>(
        _ operation: String, _ body: (Database) throws -> Value
    ) throws(QueueError) -> Value {
        try writeOutside(operation) { database in try database.write(body) }
    }

    /// Runs `body`, which writes in transactions of its own or in none.
    mutating func writeOutside<Value>(
        _ operation: String, _ body: (DatabaseQueue) throws -> Value
    ) throws(QueueError) -> Value {
        try mustBeWritable(operation)
        defer { files?.noteWrite() }
        do {
            return try body(database)
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

    /// The store is open, with this connection; with `aside` it is another one, which takes what it did not.
    mutating func open(_ database: DatabaseQueue, aside: String?) {
        try? self.database.close()
        if let aside { (path, isAside) = (aside, true) }
        self.database = database
        absence = nil
        files = StoreFiles(of: path)
        openings += 1
    }

    /// Lets go of the files; with `isOrderly` the log is copied into the file before.
    mutating func close(isOrderly: Bool) throws(QueueError) {
        do {
            try isOrderly ? StoreFile.close(database) : database.close()
        } catch {
            throw QueueError("close store", error)
        }
        isClosed = true
        lock = nil
    }

    /// Lets go of the files as they are, and answers from memory.
    mutating func leave(because error: QueueError, at uptime: Uptime, _ sidecar: Sidecar?) {
        files = nil
        absence = Absence(error, uptime: uptime)
        absence?.nextAttempt = uptime
        // In memory nothing can fail but for want of memory.
        guard let inMemory = try? StoreFile.openInMemory(sidecar) else { return }
        try? database.close()
        database = inMemory
    }

    /// Before an attempt to open the store. It may be that its directory could not be made before.
    mutating func prepareReturn() throws(QueueError) {
        try? makeDirectory()
        if lock == nil { lock = try StoreLock(path) }
    }

    private func makeDirectory() throws {
        try FileManager.default.createDirectory(
            at: URL(fileURLWithPath: path).deletingLastPathComponent(),
            withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
    }

    /// The store could not be opened.
    mutating func stayAbsent(_ absence: Absence) { self.absence = absence }

    /// Whether an attempt to open it is due.
    func mayReturn(uptime: Uptime) -> Bool {
        guard !isClosed, let absence else { return false }
        return uptime >= absence.nextAttempt
    }

    // MARK: - Files that are gone

    /// Which files of an open store are no longer at their paths; nil while all are.
    var missing: String? {
        absence == nil && !isClosed ? files?.missing : nil
    }

    /// The file to which another program has written while the store is open; nil while none has.
    var overwritten: String? {
        absence == nil && !isClosed ? files?.overwritten : nil
    }

    /// Carries all of it into new files: the open ones still have it.
    mutating func carryOver(
        _ reading: ClockReading, onPages: @escaping @Sendable () -> Void
    ) throws(QueueError) {
        do {
            try makeDirectory()
            if files?.holdsLock != true {
                lock = nil
                lock = try StoreLock(path)
            }
            if StoreFile.isThere(path) { _ = try Evidence(of: path).setAside(at: reading.wall) }
            try StoreFile.make(path, isCopy: true) { [database] new in
                try database.backup(to: new, pagesPerStep: 1024) { _ in onPages() }
            }
            let new = try StoreFile.open(path, pageCountMax: pageCountMax)
            try? database.close()
            database = new
            files = StoreFiles(of: path)
        } catch {
            throw QueueError("carry store over", error).located(at: path)
        }
    }
}
