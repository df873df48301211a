import Foundation

/// Puts a salvaged store in the place of the broken one, so that a power cut at any step can be made
/// up for.
struct StoreSwap {
    let path: String

    private static let companions = ["", "-wal", "-shm", "-journal"]

    static func broken(_ path: String, _ stamp: String) -> String { path + ".broken-" + stamp }

    static func remove(_ path: String) {
        for companion in companions { unlink(path + companion) }
    }

    private var directory: String { URL(fileURLWithPath: path).deletingLastPathComponent().path }
    private var name: String { URL(fileURLWithPath: path).lastPathComponent }

    /// Makes the finished `temporary` the store; `stamp` names the broken one.
    func adopt(_ temporary: String, stamp: String) throws(QueueError) {
        try sync(temporary)
        try rename(temporary, path + ".salvaged-" + stamp)
        try sync(directory)
        try finish()
    }

    /// Ends a swap that was begun, if one was; every opening of a store starts with it.
    func finish() throws(QueueError) {
        let prefix = name + ".salvaged-"
        let names = (try? FileManager.default.contentsOfDirectory(atPath: directory)) ?? []
        let stamps = names.filter { $0.hasPrefix(prefix) }.map {
            String($0.dropFirst(prefix.count))
        }
        .filter { !$0.hasPrefix("tmp") }
        guard let stamp = stamps.max() else { return }
        let broken = Self.broken(path, stamp)
        for companion in Self.companions where access(path + companion, F_OK) == 0 {
            try rename(path + companion, broken + companion)
        }
        try rename(path + ".salvaged-" + stamp, path)
        try sync(directory)
        // The index of the log is made again by the next program that opens the broken file.
        unlink(broken + "-shm")
        forgetOldest(but: broken)
    }

    private func forgetOldest(but newest: String) {
        let prefix = name + ".broken-"
        let names = (try? FileManager.default.contentsOfDirectory(atPath: directory)) ?? []
        let stamps = Set(
            names.filter { $0.hasPrefix(prefix) }
                .map { String($0.dropFirst(prefix.count).prefix { $0 != "-" }) })
        let others = stamps.filter { Self.broken(path, $0) != newest }.sorted(by: >)
        for stamp in others.dropFirst(SampleQueue.brokenFilesMax - 1) {
            Self.remove(Self.broken(path, stamp))
        }
    }

    private func rename(_ from: String, _ to: String) throws(QueueError) {
        guard Glibc.rename(from, to) == 0 else { throw QueueError(errno: errno, "replace store") }
    }

    private func sync(_ path: String) throws(QueueError) {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw QueueError(errno: errno, "sync store") }
        defer { close(descriptor) }
        guard fsync(descriptor) == 0 else { throw QueueError(errno: errno, "sync store") }
    }
}
