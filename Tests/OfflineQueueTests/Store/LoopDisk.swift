import Foundation

/// An ext4 file system in a file, mounted through a loop device: what its file holds is what a disk
/// would hold, while what the kernel keeps in memory is not in it.
final class LoopDisk: Sendable {
    /// Small, so that it is copied in a blink.
    private static let bytes: UInt64 = 24 << 20

    let image: URL
    let mountPoint: URL
    var store: String { mountPoint.appendingPathComponent("queue.sqlite").path }

    /// A new, empty one, or one made of an image.
    init(in directory: URL, named name: String, image existing: URL? = nil) throws {
        image = existing ?? directory.appendingPathComponent(name + ".img")
        mountPoint = directory.appendingPathComponent(name)
        try FileManager.default.createDirectory(at: mountPoint, withIntermediateDirectories: true)
        if existing == nil {
            try Data().write(to: image)
            try FileHandle(forWritingTo: image).truncate(atOffset: Self.bytes)
            try run("mkfs.ext4", "-q", "-F", image.path)
        }
        try run("mount", "-o", "loop", image.path, mountPoint.path)
    }

    // mount(8) has set the loop device free with the last user of it.
    deinit { umount2(mountPoint.path, Int32(MNT_DETACH)) }

    /// Why there can be none here, or nil.
    static let obstacle: String? = {
        guard getuid() == 0 else { return "needs root" }
        guard let store = try? TestStore() else { return "no directory" }
        do {
            _ = try LoopDisk(in: store.directory, named: "try")
            return nil
        } catch {
            return "needs loop mounts and mkfs.ext4"
        }
    }()
}

/// Freezes a process again and again, and copies what its disk holds meanwhile; kills it in the end.
enum PowerCutter {
    /// Arguments: process, image, note of what was acknowledged, then a pause in seconds before each
    /// cut. A copy is good when the image was not written to since: the process is stopped, but the
    /// kernel may still be writing.
    private static let script = """
        pid=$1 image=$2 note=$3 cut=0
        shift 3
        for pause; do
            sleep "$pause"
            kill -STOP "$pid" || exit
            while cat /proc/"$pid"/task/*/stat | grep -qv ') T '; do sleep 0.01; done
            cp "$note" "$image.$cut.acknowledged"
            until cmp -s "$image" "$image.$cut"; do cp "$image" "$image.$cut"; done
            kill -CONT "$pid"
            cut=$((cut + 1))
        done
        kill -KILL "$pid"
        """

    /// Begins with this process.
    static func begin(image: String, note: String, pauses: [Double]) throws {
        _ = try spawn(
            ["sh", "-c", script, "sh", "\(getpid())", image, note] + pauses.map { "\($0)" })
    }
}

/// Runs a program of the system to its end.
private func run(_ words: String...) throws {
    let pid = try spawn(words)
    var status: Int32 = 0
    while waitpid(pid, &status, 0) < 0 { guard errno == EINTR else { throw POSIXError(.ECHILD) } }
    guard status == 0 else { throw POSIXError(.EPERM) }
}

private func spawn(_ words: [String]) throws -> pid_t {
    var arguments = words.map { strdup($0) } + [nil]
    defer { arguments.forEach { free($0) } }
    var pid: pid_t = 0
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    for descriptor in [1, 2] as [Int32] {
        posix_spawn_file_actions_addopen(&actions, descriptor, "/dev/null", O_WRONLY, 0)
    }
    guard posix_spawnp(&pid, words[0], &actions, nil, &arguments, environ) == 0 else {
        throw POSIXError(.ENOENT)
    }
    return pid
}
