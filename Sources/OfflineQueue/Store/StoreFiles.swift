import Foundation

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
