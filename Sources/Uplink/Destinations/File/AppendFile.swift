import Basics
import Foundation

/// A file of lines that only grows, each append on the disk when it returns.
public final class AppendFile {
    /// Where it stood when it failed.
    public enum Step: String, Sendable, CaseIterable {
        /// Opening or making the file.
        case open
        /// Taking the lock that keeps a second gateway out.
        case lock
        /// Seeing that it is a file of data points, or empty.
        case recognize
        /// Reading its end.
        case read
        /// Cutting off what a crash left of a line, or a failed append.
        case truncate
        /// Writing lines.
        case write
        /// Forcing the lines to the disk.
        case sync
        /// Forcing the directory to the disk.
        case syncDirectory
        /// Putting the file aside for a new one.
        case rotate
    }

    /// A step failed with this `errno`.
    public struct Fault: Error, Hashable, Sendable {
        /// The step.
        public var step: Step
        /// The `errno`.
        public var errno: Int32
    }

    private let descriptor: Int32
    private let failing: (Step) -> Int32
    /// When its last line was written; before it is written for the first time, when it was opened.
    private(set) var written = UTC.epoch

    /// How much of the end is read at opening: room for 4096 lines of 500 bytes.
    static let tailBytes = 2 << 20

    /// The beginning of every line of ours.
    private static let lineStart = Array(#"{"patient":"#.utf8)

    /// Opens the file at `path`, or makes it, 0600. What a crash left of a last line is cut off; a file that
    /// holds something else is left as it is.
    init(path: String, failing: @escaping (Step) -> Int32 = { _ in 0 }) throws(Fault) {
        self.failing = failing
        descriptor = try Self.run(.open, failing) {
            Glibc.open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0o600)
        }
        try step(.lock) { flock(descriptor, LOCK_EX | LOCK_NB) }
        let status = try status()
        guard status.st_mode & S_IFMT == S_IFREG else {
            throw Fault(step: .recognize, errno: EINVAL)
        }
        let length = status.st_size
        let whole = try wholeLinesEnd(before: length)
        for start in [0, whole] {
            let line = try read(from: start, to: min(start + off_t(Self.lineStart.count), length))
            guard Self.lineStart.starts(with: line) else {
                throw Fault(step: .recognize, errno: EEXIST)
            }
        }
        if whole < length { try truncate(to: whole) }
        // Lines of a gateway that crashed may be in memory only, and are about to be relied on.
        try step(.sync) { fsync(descriptor) }
        try Self.syncDirectory(of: path, failing)
        written = UTC(
            microseconds: Int64(status.st_mtim.tv_sec) * 1_000_000
                + Int64(status.st_mtim.tv_nsec) / 1000)
    }

    deinit {
        // A child that is just being started has the descriptor too, and with it the lock.
        flock(descriptor, LOCK_UN)
        close(descriptor)
    }

    /// How many bytes it has now: another program may have emptied it.
    var length: off_t { get throws(Fault) { try status().st_size } }

    private func status() throws(Fault) -> stat {
        var status = stat()
        try step(.read) { fstat(descriptor, &status) }
        return status
    }

    /// Whether `path` still leads to this file: another program may have moved it away.
    func isStill(at path: String) -> Bool {
        var here = stat()
        var there = stat()
        return fstat(descriptor, &here) == 0 && lstat(path, &there) == 0
            && here.st_ino == there.st_ino && here.st_dev == there.st_dev
    }

    /// The last lines of the file, without the first one of them, which may have been cut.
    func tailLines() throws(Fault) -> [ArraySlice<UInt8>] {
        let length = try length
        let start = max(length - off_t(Self.tailBytes), 0)
        return Self.lines(try read(from: start, to: length), isCut: start > 0)
    }

    /// The same of a file that is not written any more, which stays as it is; nil if it cannot be read.
    static func tailLines(ofFileAt path: String) -> [ArraySlice<UInt8>]? {
        guard let file = FileHandle(forReadingAtPath: path),
            let length = try? file.seekToEnd()
        else { return nil }
        let start = length > UInt64(tailBytes) ? length - UInt64(tailBytes) : 0
        guard (try? file.seek(toOffset: start)) != nil,
            let tail = try? file.read(upToCount: tailBytes) ?? Data()
        else { return nil }
        return lines([UInt8](tail), isCut: start > 0)
    }

    private static func lines(_ tail: [UInt8], isCut: Bool) -> [ArraySlice<UInt8>] {
        let lines = tail.split(separator: 0x0A)
        return isCut ? Array(lines.dropFirst()) : lines
    }

    /// Appends lines at `now`. When this throws, the file is as before, or must be opened anew.
    func append(_ lines: [UInt8], at now: UTC) throws(Fault) {
        let before = try length
        do {
            var written = 0
            while written < lines.count {
                written += try Self.run(.write, failing) {
                    lines.withUnsafeBytes {
                        Glibc.write(
                            descriptor, $0.baseAddress.map { $0 + written }, $0.count - written)
                    }
                }
            }
            try step(.sync) { fsync(descriptor) }
        } catch {
            // Linux forgets what it could not write: what is not known to be on the disk must not
            // be found there later and taken for delivered.
            try? truncate(to: before)
            throw error
        }
        written = now
    }

    /// Moves the file from `path` to `other`, where it stays.
    func move(from path: String, to other: String) throws(Fault) {
        try step(.rotate) { rename(path, other) }
        try Self.syncDirectory(of: path, failing)
    }

    private func wholeLinesEnd(before length: off_t) throws(Fault) -> off_t {
        var start = length
        while start > 0 {
            let end = start
            start = max(end - off_t(Self.tailBytes), 0)
            let part = try read(from: start, to: end)
            if let newline = part.lastIndex(of: 0x0A) { return start + off_t(newline) + 1 }
        }
        return 0
    }

    private func truncate(to end: off_t) throws(Fault) {
        try step(.truncate) { ftruncate(descriptor, end) }
    }

    private func read(from start: off_t, to end: off_t) throws(Fault) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: Int(end - start))
        var count = 0
        while count < bytes.count {
            let got = try Self.run(.read, failing) {
                bytes.withUnsafeMutableBytes {
                    pread(
                        descriptor, $0.baseAddress.map { $0 + count }, $0.count - count,
                        start + off_t(count))
                }
            }
            if got == 0 { break }
            count += got
        }
        return Array(bytes.prefix(count))
    }

    private func step(_ step: Step, _ call: () -> Int32) throws(Fault) {
        _ = try Self.run(step, failing, call)
    }

    private static func syncDirectory(
        of path: String, _ failing: (Step) -> Int32
    ) throws(Fault) {
        let slash = path.lastIndex(of: "/")
        let directory = slash.map { $0 == path.startIndex ? "/" : String(path[..<$0]) } ?? "."
        let descriptor = try run(.syncDirectory, failing) {
            open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        }
        defer { close(descriptor) }
        _ = try run(.syncDirectory, failing) { fsync(descriptor) }
    }

    /// Runs a system call that reports failure as a negative number, again when interrupted.
    private static func run<Result: BinaryInteger>(
        _ step: Step, _ failing: (Step) -> Int32, _ call: () -> Result
    ) throws(Fault) -> Result {
        let forced = failing(step)
        guard forced == 0 else { throw Fault(step: step, errno: forced) }
        while true {
            let result = call()
            if result >= 0 { return result }
            let number = errno
            if number != EINTR { throw Fault(step: step, errno: number) }
        }
    }
}

extension AppendFile.Fault: CustomStringConvertible {
    /// The failed step, without the path.
    public var description: String {
        step == .recognize
            ? "the file holds something other than data points"
            : "write data points (\(step.rawValue)): \(String(cString: strerror(errno)))"
    }
}
