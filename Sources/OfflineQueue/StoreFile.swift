import Foundation
import GRDB

/// The file on disk: who may open it, with which modes, and how SQLite is told to treat it.
enum StoreFile {
    /// Small pages: a commit of a few rows writes a few pages, and a page is the least it can write.
    static let pageBytes = 1024
    /// Pages in the write-ahead log before SQLite copies them home: 2 MiB, about half an hour of
    /// eight straps. Later is cheaper, as a page changed often is copied once; but the log is what
    /// the next start reads.
    static let walPagesMax = 2048
    /// Page cache in KiB. The working set is the tail of one table and a few rows of another.
    static let cacheKibibytes = 512

    /// Opens or creates the database at `path`, brings it to this program's schema, and refuses one
    /// of a newer program. `pageCountMax` caps its size; nil leaves SQLite's own cap.
    static func open(_ path: String, pageCountMax: Int?) throws(QueueError) -> DatabaseQueue {
        let operation = "open store"
        try StoreSwap(path: path).finish()
        try createPrivately(path)
        try checkHeader(path)
        do {
            let database = try DatabaseQueue(
                path: path, configuration: configuration(pageCountMax: pageCountMax))
            try database.read(checkVersion)
            try Schema.migrator.migrate(database)
            FaultPoint.migrated.reach()
            #if DEBUG
                database.inDatabase(FaultPoint.watchCheckpoints)
            #endif
            return database
        } catch {
            throw QueueError(operation, error)
        }
    }

    /// A connection to the store at `path` that changes nothing, beside a daemon or without one.
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
        try database.read(checkVersion)
        guard try database.read({ try Schema.migrator.hasCompletedMigrations($0) }) else {
            throw QueueError(
                .olderSchema, "open store", "the store was written by an older version")
        }
        return database
    }

    /// Throws `newer-schema` if the store has seen steps that this program does not know.
    private static func checkVersion(_ db: Database) throws {
        let unknown = try Schema.migrator.appliedIdentifiers(db)
            .subtracting(Schema.migrator.migrations)
        guard !unknown.isEmpty else { return }
        guard unknown.allSatisfy({ $0.first == "v" && Int($0.dropFirst()) != nil }) else {
            throw QueueError(.corrupt, "open store", "its version is no version")
        }
        throw QueueError(.newerSchema, "open store", "the store was written by a newer version")
    }

    /// Throws `corrupt` if the file is no database. Before SQLite sees it: in closing one with such a
    /// header it deletes the log, which holds the newest samples.
    private static func checkHeader(_ path: String) throws(QueueError) {
        let descriptor = Glibc.open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw QueueError(errno: errno, "open store") }
        defer { _ = Glibc.close(descriptor) }
        let magic = Array("SQLite format 3\0".utf8)
        var header = [UInt8](repeating: 0, count: magic.count)
        switch read(descriptor, &header, header.count) {
        case 0 where logBytes(path) == 0: break
        case 0:
            throw QueueError(.corrupt, "open store", "the file is empty, and its log is not")
        case magic.count where header == magic: break
        case -1: throw QueueError(errno: errno, "open store")
        default: throw QueueError(.corrupt, "open store", "the file is no database")
        }
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

    /// Bytes of the write-ahead log beside the store; 0 if there is none.
    static func logBytes(_ path: String) -> Int64 { bytes(path + "-wal") }

    private static func bytes(_ path: String) -> Int64 {
        var status = stat()
        return stat(path, &status) == 0 ? Int64(status.st_size) : 0
    }

    private static func configuration(pageCountMax: Int?) -> Configuration {
        var configuration = Configuration()
        configuration.label = "offline-queue"
        // Nobody else writes (the lock file sees to that), but an operator may look with sqlite3.
        configuration.busyMode = .timeout(2)
        configuration.prepareDatabase { db in
            // The page size counts only before the first table is made, and before WAL mode.
            try db.execute(sql: "PRAGMA page_size = \(pageBytes)")
            try db.execute(sql: "PRAGMA journal_mode = WAL")
            try db.execute(sql: "PRAGMA synchronous = FULL")
            try db.execute(sql: "PRAGMA cell_size_check = ON")
            try db.execute(sql: "PRAGMA wal_autocheckpoint = \(walPagesMax)")
            try db.execute(sql: "PRAGMA journal_size_limit = \(walPagesMax * pageBytes)")
            try db.execute(sql: "PRAGMA cache_size = -\(cacheKibibytes)")
            // Debian's SQLite zeroes what it deletes; "fast" does so only where it costs no write.
            try db.execute(sql: "PRAGMA secure_delete = FAST")
            if let pageCountMax {
                try db.execute(sql: "PRAGMA max_page_count = \(pageCountMax)")
            }
        }
        return configuration
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
        descriptor = Glibc.open(storePath + ".lock", O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw QueueError(errno: errno, "create lock file") }
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            let code = errno
            _ = Glibc.close(descriptor)
            guard code == EWOULDBLOCK else { throw QueueError(errno: code, "lock store") }
            throw QueueError(.inUse, "lock store", "another process has this store open")
        }
    }

    deinit { _ = Glibc.close(descriptor) }
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
}
