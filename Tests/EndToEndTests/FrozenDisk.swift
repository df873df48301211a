import Foundation
import Testbed
import Testing

/// A file system in a file, which can be frozen: what writes to it waits.
struct FrozenDisk {
    private let path: String
    /// Where a gateway's store and tokens may lie.
    var state: String { path + "/state" }

    /// Mounts one, and removes it in the end. Needs root.
    static func with(_ body: (FrozenDisk) async throws -> Void) async throws {
        let path = FileManager.default.temporaryDirectory
            .appending(path: "frozen-\(UInt32.random(in: 0 ... .max))").path
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        let make = """
            truncate -s 64M '\(path).img' && mkfs.ext4 -q -F '\(path).img' \
            && mount -o loop '\(path).img' '\(path)'
            """
        let made = try await Command.run("/bin/sh", ["-c", make])
        try #require(made.status == 0, "\(made.complaint)")
        let disk = FrozenDisk(path: path)
        do {
            try await body(disk)
        } catch {
            await disk.remove()
            throw error
        }
        await disk.remove()
    }

    /// Does `body` while what writes to it waits; a process that does cannot even be killed.
    func whileFrozen(_ body: () async throws -> Void) async throws {
        try await freeze("-f")
        do {
            try await body()
        } catch {
            try? await freeze("-u")
            throw error
        }
        try await freeze("-u")
    }

    private func freeze(_ flag: String) async throws {
        let outcome = try await Command.run("/sbin/fsfreeze", [flag, path])
        try #require(outcome.status == 0, "\(outcome.complaint)")
    }

    private func remove() async {
        _ = try? await Command.run("/bin/sh", ["-c", "umount -l '\(path)'; rm -rf '\(path)'*"])
    }
}
