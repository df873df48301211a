import Foundation
import GRDB

/// How a store is opened and a run begins: what of an earlier run was set aside is taken up, and what is
/// not as it was left is found.
struct StoreOpening: Sendable {
    struct Begun: Sendable {
        var database: DatabaseQueue
        var start: RunStart
        var findings: StoreFindings
    }

    let path: String
    let settings: QueueSettings
    /// When the program started: the run begins then, however late the store opens.
    let started: ClockReading
    let bootID: String
    let nonce: UInt64

    /// Opens the store and begins a run; a broken store is salvaged first, once, if that is wanted.
    func begin(
        salvaging: Bool, whileSalvaging: @escaping @Sendable () -> Void
    ) throws(QueueError) -> Begun {
        let marker = StoreMarker(besides: path)
        let wasThere = StoreFile.isThere(path)
        do {
            return try begin(marker, wasThere: wasThere)
        } catch {
            guard error.isDamage, salvaging else { throw error }
            try Salvage(
                path: path, wall: started.wall, onPage: whileSalvaging
            ).run(cause: error)
            return try begin(marker, wasThere: true)
        }
    }

    private func begin(_ marker: StoreMarker, wasThere: Bool) throws(QueueError) -> Begun {
        let database = try StoreFile.open(path, pageCountMax: settings.pageCountMax)
        do {
            try takeUpAside(database)
            let begun = try database.write { db in
                let start = try RunStart(db, bootID: bootID, nonce: nonce, reading: started)
                try reportMissing(db, marker, wasThere: wasThere, start)
                return Begun(
                    database: database, start: start, findings: try StoreFindings(db))
            }
            // What fails is done by the next start.
            try? marker.write(try database.unsafeRead(StoreMarker.id(of:)))
            return begun
        } catch {
            StoreFile.closeKeepingLog(database, path)
            throw QueueError("begin run", error).located(at: path)
        }
    }

    /// Writes down that a store was here and is not any more. One that was broken is reported as broken.
    private func reportMissing(
        _ db: Database, _ marker: StoreMarker, wasThere: Bool, _ start: RunStart
    ) throws {
        let isNew = try StoreMarker.id(of: db) != marker.known
        guard start.salvage == nil else { return }
        let detail: String
        switch (marker.known, wasThere) {
        case (.some, true) where isNew: detail = "another store stands in its place"
        case (.some, false) where isNew: detail = "its files are gone"
        case (nil, false) where settings.isStoreExpected:
            detail = "its files are gone; there are tokens of its enrollments"
        default: return
        }
        try StoreFindings.insertMissing(
            db, at: started.wall, detail, isCarried: false)
    }
}

/// The file that says that a store was here, under a name of its own: a person who deletes the store's
/// files by `queue.sqlite*` leaves it.
struct StoreMarker: Sendable {
    private let path: String
    /// The identity of the store that was here; nil if there was none.
    let known: String?

    init(besides store: String) {
        path = URL(fileURLWithPath: store).deletingLastPathComponent().path + "/store-id"
        known = (try? String(contentsOfFile: path, encoding: .utf8))?
            .trimmingCharacters(in: .whitespacesAndNewlines)
    }

    /// A store is known by the nonce of its first run.
    static func id(of db: Database) throws -> String {
        let nonce = try Int64.fetchOne(
            db, sql: "SELECT nonce FROM run WHERE is_imported = 0 ORDER BY id LIMIT 1")
        return String(UInt64(bitPattern: nonce ?? 0), radix: 16)
    }

    func write(_ id: String) throws {
        guard id != known else { return }
        try PrivateFile.replace(path, with: Data((id + "\n").utf8))
    }
}

/// Files that only their owner may read, which are there whole or not at all.
enum PrivateFile {
    static func replace(_ path: String, with data: Data) throws {
        let part = path + ".part"
        unlink(part)
        let descriptor = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw QueueError(errno: errno, "write file") }
        defer {
            close(descriptor)
            unlink(part)
        }
        var done = 0
        while done < data.count {
            let count = data.withUnsafeBytes {
                Glibc.write(descriptor, $0.baseAddress.map { $0 + done }, data.count - done)
            }
            guard count > 0 else { throw QueueError(errno: errno, "write file") }
            done += count
        }
        guard fsync(descriptor) == 0, rename(part, path) == 0 else {
            throw QueueError(errno: errno, "write file")
        }
        let directory = open(
            URL(fileURLWithPath: path).deletingLastPathComponent().path, O_RDONLY | O_CLOEXEC)
        if directory >= 0 {
            fsync(directory)
            close(directory)
        }
    }
}
