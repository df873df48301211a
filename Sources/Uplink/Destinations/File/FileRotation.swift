import Basics
import Foundation

/// When a file of data points is put aside for a new one, and what becomes of it.
///
/// It is moved to `STEM-20261123T170000Z.ndjson` in its directory, the time being that of the move, UTC.
/// From then on it is not written any more.
struct FileRotation: Sendable, Hashable {
    /// A file is put aside before it grows beyond this; nil: never for its size.
    var bytesMax: Int64?
    /// Whether each day, UTC, has a file of its own, by when the lines are written.
    var isDaily = false
    /// Whether files that were put aside are compressed, all but the newest: its last lines are looked up
    /// after a crash.
    var compresses = false

    /// The file is kept for ever.
    static let none = FileRotation()

    /// Whether a file of `length` bytes, last written at `written`, is put aside before `count` bytes more.
    func isDue(length: Int64, written: UTC, adding count: Int, now: UTC) -> Bool {
        guard length > 0 else { return false }
        if let bytesMax, length + Int64(count) > bytesMax { return true }
        return isDaily && now > written && now.day != written.day
    }
}

/// The files that were put aside for the one at a path.
struct RotatedFiles: Sendable {
    private let directory: String
    private let stem: String
    private let suffix: String

    init(path: String) {
        let slash = path.lastIndex(of: "/") ?? path.startIndex
        directory = slash == path.startIndex ? "/" : String(path[..<slash])
        let name = path[slash...].drop { $0 == "/" }
        // "points" and ".ndjson"; a name without a dot has no suffix.
        let dot = name.dropFirst().lastIndex(of: ".") ?? name.endIndex
        stem = String(name[..<dot])
        suffix = String(name[dot...])
    }

    /// The file of the gap ledger beside it: `points.gaps.ndjson`.
    var ledgerPath: String { path("\(stem).gaps\(suffix)") }

    /// A path that is not taken, for a file that is put aside at `time`.
    func free(at time: UTC) -> String {
        let seconds = time.microseconds / 1_000_000
        let date = CivilDate(daysSince1970: seconds / 86_400)
        let clock = seconds % 86_400
        let stamp = String(
            format: "%04lld%02lld%02lldT%02lld%02lld%02lldZ", date.year, date.month, date.day,
            clock / 3600, clock / 60 % 60, clock % 60)
        for number in 1... {
            let path = self.path("\(stem)-\(stamp)\(number == 1 ? "" : "-\(number)")\(suffix)")
            if access(path, F_OK) != 0, access(path + ".gz", F_OK) != 0 { return path }
        }
        return self.path(stem + "-" + stamp + suffix)
    }

    /// Those that are not compressed, the oldest first, by their names: times of files change when they are
    /// copied.
    func plain() -> [String] {
        names.compactMap { name in stamp(of: name).map { (stamp: $0, name: name) } }
            .sorted { $0.stamp < $1.stamp }
            .map { path($0.name) }
    }

    /// All files with data points or gaps: also the one that is written, and compressed ones.
    func all() -> [String] {
        names.filter { name in
            let plain = name.hasSuffix(".gz") ? String(name.dropLast(3)) : name
            return name == stem + suffix || path(name) == ledgerPath || stamp(of: plain) != nil
        }.sorted().map(path)
    }

    private var names: [String] {
        (try? FileManager.default.contentsOfDirectory(atPath: directory)) ?? []
    }

    /// When a file was put aside, and which of that second it is: of `STEM-20261123T170000Z.ndjson` or
    /// `STEM-20261123T170000Z-2.ndjson`.
    private func stamp(of name: String) -> (time: String, number: Int)? {
        guard name.hasPrefix(stem + "-"), name.hasSuffix(suffix) else { return nil }
        let middle = name.dropFirst(stem.count + 1).dropLast(suffix.count)
        guard let match = middle.wholeMatch(of: /([0-9]{8}T[0-9]{6}Z)(?:-([0-9]{1,9}))?/) else {
            return nil
        }
        return (String(match.1), match.2.flatMap { Int($0) } ?? 1)
    }

    private func path(_ name: String) -> String {
        directory == "/" ? "/" + name : directory + "/" + name
    }
}

/// Compresses files with `gzip`, which Debian always has, at the lowest priority.
enum FileCompression {
    /// Compresses the file at `path` to `PATH.gz`, which takes its place once it is on the disk; returns why
    /// it could not be. What a crash left half done is done anew. Stops when the task is cancelled.
    static func compress(_ path: String) async -> String? {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/nice")
        process.arguments = ["-n", "19", "gzip", "--force", "--synchronous", "--", path]
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        let status: Int32? = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                process.terminationHandler = {
                    continuation.resume(returning: $0.terminationStatus)
                }
                do {
                    try process.run()
                } catch {
                    process.terminationHandler = nil
                    continuation.resume(returning: nil)
                }
            }
        } onCancel: {
            // It takes its half of a file with it.
            if process.isRunning { process.terminate() }
        }
        guard let status else { return "gzip cannot be started" }
        return status == 0 || Task.isCancelled ? nil : "gzip left with \(status)"
    }
}
