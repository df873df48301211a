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
    private static let diskBlockBytes = 4096
    /// Page cache in KiB. The working set is the tail of one table and a few rows of another.
    static let cacheKibibytes = 512

    /// Opens or creates the database at `path`, and brings it to this program's schema. `pageCountMax` caps its size;
    /// nil leaves SQLite's own cap.
    ///
    /// - Throws: ``QueueError``; with `other-version` nothing at `path` was changed, not even its mode.
    static func open(_ path: String, pageCountMax: Int?) throws(QueueError) -> DatabaseQueue {
        let operation = "open store"
        try StoreSwap(path: path).finish()
        if bytes(path) > 0 {
            try checkHeader(path)
            try checkVersion(path)
        }
        try createPrivately(path)
        try checkHeader(path)
        // Before SQLite sees it, which deletes or shortens a log that it does not understand.
        if let damage = WriteAheadLog(of: path, readsIndex: true).damage {
            throw QueueError(.corrupt, operation, damage)
        }
        do {
            let database = try DatabaseQueue(
                path: path, configuration: configuration(pageCountMax: pageCountMax))
            do {
                if try !database.read(Schema.isComplete) { try Schema.migrator.migrate(database) }
            } catch {
                closeKeepingLog(database, path)
                throw error
            }
            lengthenLog(path, try database.read(pageBytes))
            FaultPoint.migrated.reach()
            #if DEBUG
                database.inDatabase(FaultPoint.watchCheckpoints)
            #endif
            return database
        } catch {
            throw QueueError(operation, error).located(at: path)
        }
    }

    /// Throws `other-version` before anything touches the store. What keeps SQLite from reading it is met again where
    /// it is damage.
    private static func checkVersion(_ path: String) throws(QueueError) {
        do {
            let database = try openUntouched(path)
            defer { try? database.close() }
            _ = try database.read(Schema.isComplete)
        } catch let error as QueueError where error.code == .otherVersion {
            throw error
        } catch {}
    }

    /// A connection that only reads, and needs nothing of the disk: no lock, no index of the log. It leaves file and
    /// log as they are.
    private static func openUntouched(_ path: String) throws -> DatabaseQueue {
        guard let escaped = path.addingPercentEncoding(withAllowedCharacters: .urlPathAllowed)
        else { throw QueueError(.cannotOpen, "open store", "its path cannot be a URI") }
        var configuration = Configuration()
        configuration.label = "offline-queue-stand-in"
        configuration.readonly = true
        configuration.prepareDatabase { db in
            keepLog(db)
            // In this mode SQLite keeps the log's index in memory.
            try db.execute(sql: "PRAGMA locking_mode = EXCLUSIVE")
            try db.execute(sql: "PRAGMA cell_size_check = ON")
            try db.execute(sql: "PRAGMA cache_size = -\(cacheKibibytes)")
        }
        // Without a log SQLite need not create one, which takes a disk that can be written to.
        let mode = logBytes(path) > 0 ? "vfs=unix-none&mode=ro" : "immutable=1&mode=ro"
        return try DatabaseQueue(path: "file:\(escaped)?\(mode)", configuration: configuration)
    }

    /// Has SQLite leave the log where it is when the connection closes, also one without a commit.
    private static func keepLog(_ db: Database) {
        var isKept: CInt = 1
        sqlite3_file_control(db.sqliteConnection, "main", SQLITE_FCNTL_PERSIST_WAL, &isKept)
    }

    /// The same for a store that cannot be written to at the moment. Nil if there is nothing to be read.
    static func openStandIn(_ path: String) -> DatabaseQueue? {
        guard bytes(path) > 0, (try? checkHeader(path)) != nil,
            let database = try? openUntouched(path)
        else { return nil }
        return (try? database.read(Schema.isComplete)) == true ? database : nil
    }

    /// A store without anything in it, in memory.
    static func openEmpty() throws(QueueError) -> DatabaseQueue {
        do {
            let database = try DatabaseQueue()
            try Schema.migrator.migrate(database)
            return database
        } catch {
            throw QueueError("open store", error)
        }
    }

    /// Closes the last connection to the store without copying its log home: what may be damaged stays as
    /// it is, beside the file.
    static func closeKeepingLog(_ database: DatabaseQueue, _ path: String) {
        // SQLite copies the log home when the last connection closes that may write.
        var configuration = Configuration()
        configuration.readonly = true
        let reader = try? DatabaseQueue(path: path, configuration: configuration)
        _ = try? reader?.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM sqlite_master") }
        try? database.close()
        try? reader?.close()
    }

    /// A copy of an open store, as it is, in a file of its own.
    ///
    /// - Parameter onPages: called at each megabyte.
    static func copy(
        _ database: DatabaseQueue, to path: String, onPages: @escaping () -> Void
    ) throws {
        try createPrivately(path)
        let copy = try DatabaseQueue(path: path)
        try database.backup(to: copy, pagesPerStep: 1024) { _ in onPages() }
        try copy.close()
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

    /// A connection to the store at `path` that changes nothing, whether a daemon runs or not.
    static func openReadOnly(_ path: String) throws -> DatabaseQueue {
        guard access(path, F_OK) == 0 else { throw QueueError(errno: errno, "open store") }
        try checkHeader(path)
        var configuration = Configuration()
        configuration.label = "offline-queue-reader"
        configuration.readonly = true
        configuration.busyMode = .timeout(2)
        configuration.prepareDatabase { db in
            try db.execute(sql: "PRAGMA cell_size_check = ON")
            try db.execute(sql: "PRAGMA cache_size = -\(cacheKibibytes)")
        }
        let database = try DatabaseQueue(path: path, configuration: configuration)
        guard try database.read(Schema.isComplete) else {
            throw QueueError(.cannotOpen, "open store", "there are no tables in it yet")
        }
        return database
    }

    /// Throws `corrupt` if the file is no database. Before SQLite sees it: in closing one with such a
    /// header it deletes the log, which holds the newest samples.
    private static func checkHeader(_ path: String) throws(QueueError) {
        let descriptor = Glibc.open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw QueueError(errno: errno, "open store") }
        defer { _ = Glibc.close(descriptor) }
        var header = [UInt8](repeating: 0, count: headerBytes)
        switch read(descriptor, &header, header.count) {
        case 0 where logBytes(path) == 0: break
        case 0:
            throw QueueError(.corrupt, "open store", "the file is empty, and its log is not")
        case headerBytes where pageBytes(inHeader: header) != nil: break
        case -1: throw QueueError(errno: errno, "open store")
        default: throw QueueError(.corrupt, "open store", "the file is no database")
        }
    }

    /// The magic text, and the size of a page (file format, §1.3).
    static let headerBytes = 18

    /// Whether SQLite has pages of that size.
    static func isPageSize(_ bytes: Int) -> Bool {
        512...65_536 ~= bytes && bytes.nonzeroBitCount == 1
    }

    /// The size of a page by the first octets of a store; nil if these are of no store.
    static func pageBytes(inHeader header: [UInt8]) -> Int? {
        guard header.count >= headerBytes, header.starts(with: "SQLite format 3\0".utf8) else {
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

    /// A new store at `path` to be filled in one go and synced by the caller: nothing is checked or
    /// waited for while it is filled.
    static func create(_ path: String) throws -> DatabaseQueue {
        try createPrivately(path)
        var configuration = configuration(pageCountMax: nil)
        configuration.foreignKeysEnabled = false
        configuration.prepareDatabase { db in try db.execute(sql: "PRAGMA synchronous = OFF") }
        let database = try DatabaseQueue(path: path, configuration: configuration)
        try Schema.migrator.migrate(database)
        return database
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
            promiseNothing(db)
            // The page size counts only before the first table is made, and before WAL mode.
            try db.execute(sql: "PRAGMA page_size = \(newPageBytes)")
            try db.execute(sql: "PRAGMA journal_mode = WAL")
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

    /// Has SQLite not rely on what it takes for granted of any disk: that a write which a power cut interrupts
    /// leaves the bytes before and behind it alone. A card writes blocks of 4 KiB at least, so each commit begins
    /// in a block of its own (docs/decisions.md).
    ///
    /// Not by the `psow` of a URI, with which SQLite would also write all pages of a block of which one has
    /// changed. It asks once for that, when it has opened the file, and again when it opens the log
    /// (<https://www.sqlite.org/psow.html>).
    private static func promiseNothing(_ db: Database) {
        var file: UnsafeMutablePointer<sqlite3_file>?
        sqlite3_file_control(db.sqliteConnection, "main", SQLITE_FCNTL_FILE_POINTER, &file)
        guard let file, let methods = file.pointee.pMethods else { return }
        // It must outlive the file, whose end nobody tells. A process opens a store a few times.
        let cautious = UnsafeMutablePointer<sqlite3_io_methods>.allocate(capacity: 1)
        cautious.initialize(to: methods.pointee)
        // A newer SQLite may have more methods than were copied.
        cautious.pointee.iVersion = min(methods.pointee.iVersion, 3)
        cautious.pointee.xDeviceCharacteristics = { _ in 0 }
        file.pointee.pMethods = UnsafePointer(cautious)
    }

    /// Makes the file, or narrows its mode to 0600, before SQLite does: its companions (`-wal`,
    /// `-shm`) take their mode from it.
    private static func createPrivately(_ path: String) throws(QueueError) {
        let descriptor = Glibc.open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        if descriptor >= 0 {
            _ = Glibc.close(descriptor)
        } else if errno != EEXIST {
            throw QueueError(errno: errno, "create store")
        } else if chmod(path, 0o600) != 0, errno != EROFS {
            throw QueueError(errno: errno, "set the store's mode")
        }
    }
}

/// Keeps a second process out of a store: an exclusive flock(2) on a file beside it.
///
/// On a file beside it, because closing any descriptor of the database itself would release
/// SQLite's own locks on it (fcntl(2)). The kernel releases it when the process ends in any way.
final class StoreLock: Sendable {
    private let descriptor: Int32

    init(_ storePath: String) throws(QueueError) {
        let path = storePath + ".lock"
        var opened = Glibc.open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        // A disk that cannot be written to can still lock what is there.
        if opened < 0, errno == EROFS { opened = Glibc.open(path, O_RDONLY | O_CLOEXEC) }
        guard opened >= 0 else { throw QueueError(errno: errno, "create lock file") }
        // Only now is there something for `deinit` to close: it runs also when this throws, if nothing is left to
        // be set, and what is closed twice may by then be another's descriptor.
        descriptor = opened
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            let code = errno
            guard code == EWOULDBLOCK else { throw QueueError(errno: code, "lock store") }
            throw QueueError(.inUse, "lock store", "another process has this store open")
        }
    }

    deinit {
        // A child that is just being started has the descriptor too, and with it the lock.
        flock(descriptor, LOCK_UN)
        _ = Glibc.close(descriptor)
    }
}

extension QueueError {
    /// The error for the `errno` of a failed system call.
    init(errno code: Int32, _ operation: String) {
        let kind: Code =
            switch code {
            case ENOSPC, EDQUOT: .diskFull
            case EROFS: .readOnly
            case EIO: .inputOutput
            default: .cannotOpen
            }
        self.init(kind, operation, String(cString: strerror(code)))
    }

    /// The same by what the disk at `path` says: SQLite has many names for a full disk, some of which are
    /// those of a broken one.
    func located(at path: String) -> QueueError {
        guard code == .inputOutput || code == .cannotOpen,
            let room = DiskRoom(at: path)
        else { return self }
        if room.isReadOnly { return QueueError(.readOnly, operation, cause) }
        return room.isFull ? QueueError(.diskFull, operation, cause) : self
    }
}

/// What is left of the file system that holds a file.
public struct DiskRoom: Sendable, Hashable {
    /// With less than this the disk counts as full: SQLite needs as much at once, for the index of its log.
    private static let bytesMin: Int64 = 64 << 10
    /// With less than this the disk is nearly full: eight straps without a network need as much for half a day.
    private static let bytesLow: Int64 = 32 << 20

    /// Bytes that this user may still take.
    public let freeBytes: Int64
    /// Whether no further file can be made.
    public let isWithoutInodes: Bool
    /// Whether it is mounted read-only.
    public let isReadOnly: Bool

    /// Asks the file system of `path`, or of the nearest directory above it that is there; nil if none is.
    public init?(at path: String) {
        var status = statvfs()
        var place = URL(fileURLWithPath: path)
        while statvfs(place.path, &status) != 0 {
            let above = place.deletingLastPathComponent()
            guard errno == ENOENT, above.path != place.path else { return nil }
            place = above
        }
        freeBytes = Int64(clamping: UInt64(status.f_bavail) &* UInt64(status.f_frsize))
        // A file system without inodes says that it has none.
        isWithoutInodes = status.f_files > 0 && status.f_favail == 0
        isReadOnly = status.f_flag & UInt(ST_RDONLY) != 0
    }

    /// Whether nothing can be written for want of room.
    public var isFull: Bool { freeBytes < Self.bytesMin || isWithoutInodes }

    /// Whether a person had better make room.
    public var isNearlyFull: Bool { freeBytes < Self.bytesLow }
}
