import Foundation
import Glibc

/// A file that is there whole or not at all, and that nobody else may read.
final class OutputFile {
    private let path: String
    private let part: String
    private let descriptor: Int32

    /// Begins the file beside its place. A file that is there already is not overwritten.
    ///
    /// - Throws: ``CommandFailure``
    init(_ path: String) throws {
        self.path = path
        part = path + ".part-" + String(UInt32.random(in: 0 ... .max), radix: 16)
        guard access(path, F_OK) != 0 else {
            throw CommandFailure(
                exitCode: .wrongUsage, message: "\(path) is there already; name another file")
        }
        descriptor = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw Self.failure(path) }
    }

    /// A file that was not finished goes.
    deinit {
        close(descriptor)
        unlink(part)
    }

    /// - Throws: ``CommandFailure``
    func write(_ bytes: [UInt8]) throws {
        var done = 0
        while done < bytes.count {
            let count = bytes[done...].withUnsafeBytes {
                Glibc.write(descriptor, $0.baseAddress, $0.count)
            }
            guard count > 0 else { throw Self.failure(path) }
            done += count
        }
    }

    /// Puts the file in its place, when it is on the disk.
    ///
    /// - Throws: ``CommandFailure``
    func finish() throws {
        guard fsync(descriptor) == 0, rename(part, path) == 0 else { throw Self.failure(path) }
    }

    private static func failure(_ path: String) -> CommandFailure {
        CommandFailure(
            exitCode: .notWell,
            message: "\(path) cannot be written: \(String(cString: strerror(errno)))\n"
                + "  name another file, on a disk with room")
    }
}

/// How far something is, for a person who waits: on standard error, only on a terminal, and only if it
/// takes long enough to wonder.
final class ProgressLine {
    private static let patience = Duration.seconds(1)
    private static let pause = Duration.milliseconds(200)

    private let what: String
    private let isShown = isatty(STDERR_FILENO) == 1
    private var next = ContinuousClock.now + patience
    private var isThere = false

    init(_ what: String) { self.what = what }

    deinit { if isThere { Terminal.write("\r\u{1B}[K") } }

    /// - Parameter part: 0…1.
    func show(_ part: Double) {
        let now = ContinuousClock.now
        guard isShown, now >= next else { return }
        next = now + Self.pause
        isThere = true
        Terminal.write("\r\u{1B}[K\(what): \(Int(min(max(part, 0), 1) * 100)) %")
    }
}
