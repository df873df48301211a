import Foundation
import Synchronization

/// The files of an open store, by which it is noticed that they are not at their place any more, or that another program
/// has written to them. A program goes on writing to a file that was deleted, and all of it is gone when it ends.
struct StoreFiles: Sendable {
    private struct Identity: Sendable, Hashable {
        var device: UInt64
        var number: UInt64
    }
    /// The attributes that each write changes.
    private struct State: Sendable, Hashable {
        var bytes: Int64
        var seconds: Int
        var nanoseconds: Int
    }
    private typealias Found = (identity: Identity, state: State)

    private static let companions = ["", "-wal", "-shm", ".lock"]
    /// The files that only this process writes to. Readers share the index of the log, so it is left out.
    private static let written = ["", "-wal"]

    private let path: String
    private var identities: [String: Identity] = [:]
    private var states: [String: State] = [:]
    private var fileWrites: Int?

    init(of path: String) {
        self.path = path
        for companion in Self.companions {
            identities[companion] = Self.find(path + companion)?.identity
        }
        noteWrite()
    }

    private static func find(_ path: String) -> Found? {
        var status = stat()
        guard stat(path, &status) == 0 else { return nil }
        return (
            Identity(device: UInt64(status.st_dev), number: UInt64(status.st_ino)),
            State(
                bytes: Int64(status.st_size), seconds: status.st_mtim.tv_sec,
                nanoseconds: status.st_mtim.tv_nsec)
        )
    }

    /// This process has written to them.
    mutating func noteWrite() {
        let fileWrites = CautiousFile.fileWrites.load(ordering: .relaxed)
        // If the file changed while this process wrote only to the log, another program wrote to it.
        for companion in Self.written where !companion.isEmpty || fileWrites != self.fileWrites {
            states[companion] = Self.find(path + companion)?.state
        }
        self.fileWrites = fileWrites
    }

    /// The first to which another program has written; nil while none has.
    var overwritten: String? {
        Self.written.first { companion in
            guard let found = Self.find(path + companion) else { return false }
            return found.identity == identities[companion] && found.state != states[companion]
        }.map { URL(fileURLWithPath: path + $0).lastPathComponent }
    }

    /// The first that is gone, or another one; nil while all are as they were.
    var missing: String? {
        for companion in Self.companions {
            guard let known = identities[companion] else { continue }
            let name = URL(fileURLWithPath: path + companion).lastPathComponent
            guard let there = Self.find(path + companion)?.identity else {
                return "\(name) was removed"
            }
            if there != known { return "\(name) was replaced by another file" }
        }
        return nil
    }

    /// Whether the lock is still that of this process.
    var holdsLock: Bool {
        identities[".lock"].map { $0 == Self.find(path + ".lock")?.identity } ?? false
    }
}
