import Basics
import CSQLite
import Foundation
import GRDB
import GRDBSQLite

/// The file on disk: who may open it, with which modes, and how SQLite treats it.
enum StoreFile {
    /// Bytes of a page of a new store. The smallest is best: a commit of a few rows writes a few pages, and a page is
    /// the least it can write.
    static let newPageBytes = 512
    /// Pages in the write-ahead log before SQLite copies them home: about a quarter of an hour of eight straps.
    /// Twice as many would save 1 % of what is written; the log is what the next start reads.
    static let walPagesMax = 2048
    /// The least that a file system writes, and a kernel keeps.
    static let diskBlockBytes = 4096
    /// Page cache in KiB. The working set is the tail of one table and a few rows of another.
    static let cacheKibibytes = 512

    /// Opens the store at `path`, which is there, and brings it to this program's schema. `pageCountMax` caps its size;
    /// nil leaves SQLite's own cap.
    ///
    /// - Throws: ``QueueError``; with `other-version` and `corrupt` nothing at `path` was changed, not even its mode.
    static func open(_ path: String, pageCountMax: Int?) throws(QueueError) -> DatabaseQueue {
        try examine(path)
        guard chmod(path, 0o600) == 0 || errno == EROFS else {
            throw QueueError(errno: errno, "set the store's mode")
        }
        do {
            let database = try DatabaseQueue(
                path: path, configuration: configuration(pageCountMax: pageCountMax))
            if try !database.read(Schema.isComplete) { try Schema.migrator.migrate(database) }
            lengthenLog(path, try database.unsafeRead(pageBytes))
            FaultPoint.migrated.reach()
            return database
        } catch {
            throw QueueError("open store", error).located(at: path)
        }
    }

    /// Looks at the file and its log before SQLite may, which deletes or shortens a log that it does not understand.
    private static func examine(_ path: String) throws(QueueError) {
        try checkHeader(path)
        let log = WriteAheadLog(of: path, readsIndex: true)
        if let code = log.unreadable { throw QueueError(errno: code, "open store") }
        if let damage = log.damage { throw QueueError(.corrupt, "open store", damage) }
        guard Set(StorePages(of: path, log).marks).count <= 1 else {
            throw QueueError(.corrupt, "open store", "the write-ahead log is of another store")
        }
        do {
            let database = try openUntouched(path)
            try database.read { db in
                _ = try Schema.isComplete(db)
                guard try db.tableExists("registry_change") else { return }
                _ = try Sidecar(proved: db, at: .epoch)
            }
            try database.close()
        } catch {
            let error = QueueError("open store", error)
            // An error of the disk shows again when the store is opened.
            guard error.code != .otherVersion, error.code != .corrupt else { throw error }
        }
    }

    /// A connection that only reads, and needs nothing of the disk: no lock, no index of the log.
    private static func openUntouched(_ path: String) throws -> DatabaseQueue {
        guard let escaped = path.addingPercentEncoding(withAllowedCharacters: .urlPathAllowed)
        else { throw QueueError(.cannotOpen, "open store", "its path cannot be a URI") }
        // Without a log SQLite need not create one, which takes a disk that can be written to.
        let mode = logBytes(path) > 0 ? "vfs=unix-none&mode=ro" : "immutable=1&mode=ro"
        return try DatabaseQueue(
            path: "file:\(escaped)?\(mode)", configuration: reading(isExclusive: true))
    }

    /// Has SQLite leave file and log as they are when the connection ends.
    private static func keepLog(_ db: Database) throws {
        guard csqlite_keep_log(db.sqliteConnection) == SQLITE_OK else {
            throw QueueError(.internalFault, "open store", "SQLite would not leave the log")
        }
    }

    /// Of a connection that only reads. With `isExclusive` SQLite keeps the log's index in memory.
    private static func reading(isExclusive: Bool) -> Configuration {
        var configuration = Configuration()
        configuration.label = "offline-queue-reader"
        configuration.readonly = true
        configuration.busyMode = .timeout(2)
        configuration.prepareDatabase { db in
            try keepLog(db)
            CautiousFile.use(db)
            if isExclusive { try db.execute(sql: "PRAGMA locking_mode = EXCLUSIVE") }
            try db.execute(sql: "PRAGMA cell_size_check = ON")
            try db.execute(sql: "PRAGMA cache_size = -\(cacheKibibytes)")
        }
        return configuration
    }

    /// Makes a new store at `path`, where there is none, filled by `fill`: it is there whole or not at all.
    ///
    /// - Parameter isCopy: whether it is filled by a copy of another one, whose form it takes.
    @discardableResult
    static func make<Value>(
        _ path: String, isCopy: Bool = false, _ fill: (DatabaseQueue) throws -> Value
    ) throws(QueueError) -> Value {
        let temporary = path + ".new"
        do {
            Evidence.remove(temporary)
            try createPrivately(temporary)
            let database = try DatabaseQueue(
                path: temporary,
                configuration: isCopy ? Configuration() : configuration(pageCountMax: nil))
            let value = try fill(database)
            // Not by closing it, which does not say whether it worked.
            try database.writeWithoutTransaction { db in _ = try db.checkpoint(.truncate) }
            try database.close()
            try PrivateFile.sync(temporary)
            for companion in Evidence.companions.dropFirst() { unlink(temporary + companion) }
            // A path that cannot be examined must not be written over.
            guard errnoOfSize(path) == nil, errnoOfSize(path + "-wal") == nil, !isThere(path) else {
                throw QueueError(.inputOutput, "create store", "there is another one")
            }
            // A leftover index or empty log belongs to no store any more.
            for companion in Evidence.companions.dropFirst() { unlink(path + companion) }
            guard rename(temporary, path) == 0 else {
                throw QueueError(errno: errno, "create store")
            }
            try PrivateFile.sync(URL(fileURLWithPath: path).deletingLastPathComponent().path)
            return value
        } catch {
            Evidence.remove(temporary)
            throw QueueError("create store", error).located(at: path)
        }
    }

    /// Closes a store that is in order, with its log copied into the file. What keeps it from that leaves both as they
    /// are.
    static func close(_ database: DatabaseQueue) throws {
        try? database.writeWithoutTransaction { db in _ = try db.checkpoint(.truncate) }
        try database.close()
    }

    /// A store in memory, with what `sidecar` knows.
    static func openInMemory(_ sidecar: Sidecar?) throws(QueueError) -> DatabaseQueue {
        do {
            let database = try DatabaseQueue()
            try Schema.migrator.migrate(database)
            try database.write { db in _ = try sidecar?.fill(db) }
            return database
        } catch {
            throw QueueError("open store", error)
        }
    }

    /// Reads the store at `path` in one snapshot, whether a daemon runs or not.
    ///
    /// - Throws: ``QueueError`` with `operation` for what the store refuses, and whatever else `body` throws.
    static func readOnce<Value>(
        _ path: String, _ operation: String, _ body: (Database) throws -> Value
    ) throws -> Value {
        let database: DatabaseQueue
        do {
            database = try openReadOnly(path)
        } catch { throw QueueError(operation, error) }
        defer { try? database.close() }
        do {
            return try database.read(body)
        } catch let error as DatabaseError {
            throw QueueError(operation, error)
        }
    }

    /// A connection to whatever database is at `path`.
    static func openToRead(_ path: String) throws -> DatabaseQueue {
        try DatabaseQueue(path: path, configuration: reading(isExclusive: false))
    }

    /// A connection to the store at `path` that changes nothing, whether a daemon runs or not.
    static func openReadOnly(_ path: String) throws -> DatabaseQueue {
        guard access(path, F_OK) == 0 else { throw QueueError(errno: errno, "open store") }
        try checkHeader(path)
        let database = try openToRead(path)
        guard try database.read(Schema.isComplete) else {
            throw QueueError(.cannotOpen, "open store", "there are no tables in it yet")
        }
        return database
    }

    /// Throws `corrupt` if the file is no database that this program has made. Before SQLite sees it: in closing one
    /// with such a header it deletes the log, which holds the newest samples.
    private static func checkHeader(_ path: String) throws(QueueError) {
        let descriptor = Glibc.open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 || errno != ENOENT || logBytes(path) == 0 else {
            throw QueueError(.corrupt, "open store", "the file is gone, and its log is not")
        }
        guard descriptor >= 0 else { throw QueueError(errno: errno, "open store") }
        defer { _ = Glibc.close(descriptor) }
        var header = [UInt8](repeating: 0, count: headerBytes)
        switch read(descriptor, &header, header.count) {
        case 0 where logBytes(path) == 0: break
        case 0:
            throw QueueError(.corrupt, "open store", "the file is empty, and its log is not")
        case -1: throw QueueError(errno: errno, "open store")
        case headerBytes where pageBytes(inHeader: header) != nil:
            guard Array(header[18..<24]) == fixedOctets else {
                throw QueueError(.corrupt, "open store", "the header of the file is damaged")
            }
        default: throw QueueError(.corrupt, "open store", "the file is no database")
        }
    }

    /// The magic text, the size of a page, and octets that every store has (file format, §1.3).
    static let headerBytes = 24

    /// Octets 18 to 23: a log for reading and for writing, nothing reserved on a page, and three fractions.
    private static let fixedOctets: [UInt8] = [2, 2, 0, 64, 32, 32]

    /// Whether SQLite has pages of that size.
    static func isPageSize(_ bytes: Int) -> Bool {
        512...65_536 ~= bytes && bytes.nonzeroBitCount == 1
    }

    /// The size of a page by the first octets of a store; nil if these are of no store.
    static func pageBytes(inHeader header: [UInt8]) -> Int? {
        guard header.count >= 18, header.starts(with: "SQLite format 3\0".utf8) else {
            return nil
        }
        // 65,536 does not fit, and is written as 1.
        let size = Int(header[16]) << 8 | Int(header[17])
        return isPageSize(size) ? size : size == 1 ? 65_536 : nil
    }

    /// How much of a row lies in its own page; the rest runs over into pages of its own, each with the number of the
    /// next in four octets (file format, §1.6).
    static func localBytes(ofRow length: Int, pageBytes: Int) -> Int {
        let most = pageBytes - 35
        guard length > most else { return length }
        let least = (pageBytes - 12) * 32 / 255 - 23
        let even = least + (length - least) % (pageBytes - 4)
        return even <= most ? even : least
    }

    private static func pageBytes(_ db: Database) throws -> Int {
        try Int.fetchOne(db, sql: "PRAGMA page_size") ?? newPageBytes
    }

    /// Bytes that the log has from the start: room for the pages that it may have, and for the commit that passes
    /// them. With each commit that lengthens a log, the file system writes one of its own.
    static func walBytes(_ pageBytes: Int) -> Int {
        (walPagesMax + 64) * (WriteAheadLog.frameHeaderBytes + pageBytes)
    }

    /// Fills the log with zeros, which SQLite takes for its end. Where there is no room for that, it stays as it
    /// is.
    private static func lengthenLog(_ path: String, _ pageBytes: Int) {
        let walBytes = walBytes(pageBytes)
        let descriptor = Glibc.open(path + "-wal", O_WRONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return }
        // SQLite has no lock on the log itself, which this would release.
        defer { Glibc.close(descriptor) }
        let length = lseek(descriptor, 0, SEEK_END)
        guard length >= 0, length < walBytes else { return }
        // Block by block: of what is written at once, a newer kernel makes one large page in its cache, and all of
        // it counts as written when a part changes.
        let zeros = [UInt8](repeating: 0, count: diskBlockBytes)
        var end = Int(length)
        while end < walBytes {
            let count = diskBlockBytes - end % diskBlockBytes
            guard write(descriptor, zeros, count) == count else {
                ftruncate(descriptor, length)
                return
            }
            end += count
        }
    }

    /// Bytes of the write-ahead log beside the store; 0 if there is none.
    static func logBytes(_ path: String) -> Int64 { bytes(path + "-wal") }

    /// Whether there is anything of a store at `path`.
    static func isThere(_ path: String) -> Bool { bytes(path) > 0 || logBytes(path) > 0 }

    /// Why nobody can say whether there is such a file; nil if somebody can.
    private static func errnoOfSize(_ path: String) -> Int32? {
        var status = stat()
        return stat(path, &status) == 0 || errno == ENOENT ? nil : errno
    }

    private static func bytes(_ path: String) -> Int64 {
        var status = stat()
        return stat(path, &status) == 0 ? Int64(status.st_size) : 0
    }

    private static func configuration(pageCountMax: Int?) -> Configuration {
        var configuration = Configuration()
        configuration.label = "offline-queue"
        // No other program writes (the lock file sees to that), but an operator may look with sqlite3.
        configuration.busyMode = .timeout(2)
        configuration.prepareDatabase { db in
            try keepLog(db)
            CautiousFile.use(db)
            // The page size counts only before the first table is made, and before WAL mode.
            try db.execute(sql: "PRAGMA page_size = \(newPageBytes)")
            try db.execute(sql: "PRAGMA journal_mode = WAL")
            // Opens the log.
            try db.execute(sql: "SELECT 1 FROM sqlite_master LIMIT 1")
            CautiousFile.use(db)
            let pageBytes = try pageBytes(db)
            try db.execute(sql: "PRAGMA synchronous = FULL")
            try db.execute(sql: "PRAGMA cell_size_check = ON")
            try db.execute(sql: "PRAGMA wal_autocheckpoint = \(walPagesMax)")
            try db.execute(sql: "PRAGMA journal_size_limit = \(2 * walBytes(pageBytes))")
            try db.execute(sql: "PRAGMA cache_size = -\(cacheKibibytes)")
            // Debian's SQLite zeroes what it deletes; "fast" does so only where it costs no write.
            try db.execute(sql: "PRAGMA secure_delete = FAST")
            if let pageCountMax {
                try db.execute(sql: "PRAGMA max_page_count = \(pageCountMax)")
            }
        }
        return configuration
    }

    /// Makes the file before SQLite does: its companions (`-wal`, `-shm`) take their mode from it.
    private static func createPrivately(_ path: String) throws(QueueError) {
        let descriptor = Glibc.open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        if descriptor >= 0 {
            _ = Glibc.close(descriptor)
        } else {
            throw QueueError(errno: errno, "create store")
        }
    }
}
