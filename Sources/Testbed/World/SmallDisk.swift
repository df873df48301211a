import Foundation

/// A small file system of its own, which can be filled.
package struct SmallDisk: Sendable {
    package let path: String
    private var filler: String { path + "/filler" }

    /// Nil where this user may not mount one.
    package static func make() async throws -> SmallDisk? {
        guard geteuid() == 0 else { return nil }
        let path = FileManager.default.temporaryDirectory
            .appending(path: "chaos-disk-\(UInt32.random(in: 0 ... .max))").path
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        let mount = try await Command.run(
            "/bin/mount", ["-t", "tmpfs", "-o", "size=64m,mode=0700", "tmpfs", path])
        return mount.status == 0 ? SmallDisk(path: path) : nil
    }

    /// Leaves no room at all.
    package func fill() async throws {
        for size in ["64k", "1k"] {
            // It ends when the disk is full.
            _ = try await Command.run(
                "/bin/dd",
                ["if=/dev/zero", "of=\(filler)", "bs=\(size)", "oflag=append", "conv=notrunc"])
        }
    }

    package func free() { try? FileManager.default.removeItem(atPath: filler) }

    package func remove() async {
        _ = try? await Command.run("/bin/umount", ["-l", path])
        try? FileManager.default.removeItem(atPath: path)
    }
}
