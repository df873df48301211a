import Foundation
import GRDB

/// The files of an open store, by which it is noticed that they are not at their place any more. A program
/// goes on writing to a file that was deleted, and all of it is gone when it ends.
struct StoreFiles: Sendable {
    private struct Identity: Sendable, Hashable {
        var device: UInt64
        var number: UInt64

        init?(_ path: String) {
            var status = stat()
            guard stat(path, &status) == 0 else { return nil }
            device = UInt64(status.st_dev)
            number = UInt64(status.st_ino)
        }
    }

    private static let companions = ["", "-wal", "-shm", ".lock"]

    private let path: String
    private let identities: [String: Identity]

    init(of path: String) {
        self.path = path
        var identities: [String: Identity] = [:]
        for companion in Self.companions { identities[companion] = Identity(path + companion) }
        self.identities = identities
    }

    /// The first that is gone, or another one; nil while all are as they were.
    var missing: String? {
        for companion in Self.companions {
            guard let known = identities[companion] else { continue }
            let name = URL(fileURLWithPath: path + companion).lastPathComponent
            guard let there = Identity(path + companion) else { return "\(name) was removed" }
            if there != known { return "\(name) was replaced by another file" }
        }
        return nil
    }

    /// Whether the lock is still that of this process.
    var holdsLock: Bool { identities[".lock"].map { $0 == Identity(path + ".lock") } ?? false }
}

extension SampleQueue {
    /// Pause between two attempts to carry a store over whose files are gone, µs.
    static let carryPauseMicroseconds: Int64 = 60_000_000

    /// Looks whether the store's files are where they were, and carries all of it into new ones if not: the
    /// open ones still have it.
    func carryOverIfMissing(uptime: Int64) {
        guard absence == nil, !isClosed, let detail = files?.missing else { return }
        if let carriedUptime, uptime &- carriedUptime < Self.carryPauseMicroseconds { return }
        carriedUptime = uptime
        let wall = clock.read().wallMicroseconds
        do throws(QueueError) {
            try carryOver()
            try write("report missing store") { db in
                try StoreFindings.insertMissing(db, at: wall, detail, isCarried: true)
            }
            findings.missing = MissingStore(
                atMicroseconds: wall, detail: detail, isCarried: true)
        } catch {
            // Tried again in a minute; the open files take what comes meanwhile.
            findings.missing = MissingStore(
                atMicroseconds: wall, detail: "\(detail); \(error.cause)", isCarried: false)
        }
    }

    private func carryOver() throws(QueueError) {
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
            try StoreFile.copy(database, to: temporary, onPages: whileSalvaging)
            let stamp = Salvage(
                path: path, wallMicroseconds: clock.read().wallMicroseconds
            ).stamp
            try StoreSwap(path: path).adopt(temporary, stamp: stamp)
            // Only now: in closing, SQLite deletes a log by its name, which may be another store's.
            try? database.close()
            do {
                database = try StoreFile.open(path, pageCountMax: settings.pageCountMax)
            } catch {
                absence = Absence(error, uptime: clock.read().uptimeMicroseconds)
                answerFromStandIn()
                throw error
            }
            files = StoreFiles(of: path)
            try? StoreMarker(besides: path).write(try read(operation, StoreMarker.id(of:)))
        } catch {
            throw QueueError(operation, error).located(at: path)
        }
    }
}
