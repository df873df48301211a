import Basics
import Foundation
import Glibc

/// Lets one process at a time change a relay's table: flock(2) on a file beside it.
///
/// Not on the table, which is another file after each change. The kernel lets the lock go when its process ends,
/// however it ends; the file stays, for whoever waits has it open.
final class RelayTableLock: Sendable {
    private let descriptor: Int32

    /// How long one process may keep it. A change takes as long as a disk takes to commit.
    static let patience = Duration.seconds(10)
    private static let lookPause = Duration.milliseconds(5)
    private static let holderBytesMax = 32

    /// Waits until no other process changes the table at `path`. Those that do change it one after another are
    /// waited for as long as they do.
    ///
    /// - Throws: ``CommandFailure`` if one has kept it for `patience`, or the file cannot be made.
    init(of path: String, patience: Duration = patience) async throws {
        let place = path + ".lock"
        descriptor = open(place, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { throw Self.failure(place) }
        var holder = ""
        var since = ContinuousClock.now
        while flock(descriptor, LOCK_EX | LOCK_NB) != 0 {
            guard errno == EWOULDBLOCK || errno == EINTR else { throw Self.failure(place) }
            let now = ContinuousClock.now
            let current = Self.holder(descriptor)
            if current != holder { (holder, since) = (current, now) }
            guard now - since < patience else {
                throw CommandFailure(
                    exitCode: .notWell,
                    message: "\(path) is being changed by "
                        + (holder.isEmpty ? "another process" : "process \(holder)")
                        + ", which does not end\n  end it, and try again; fuser \(place) names it")
            }
            await UptimeClock.system.sleep(Self.lookPause)
            try Task.checkCancellation()
        }
        guard Self.isOwn(descriptor) else {
            throw CommandFailure(
                exitCode: .wrongUsage,
                message: "\(place) is another program's file, and the table's lock would be there\n"
                    + "  give the table another name")
        }
        let own = Array("\(getpid())".utf8)
        // Only the message above needs it.
        _ = ftruncate(descriptor, 0)
        _ = pwrite(descriptor, own, own.count, 0)
    }

    deinit {
        // `init` may have failed.
        if descriptor >= 0 { close(descriptor) }
    }

    /// Whether it is a lock, which holds a process number at most: what else is there is not overwritten.
    private static func isOwn(_ descriptor: Int32) -> Bool {
        var status = stat()
        guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
            return false
        }
        return status.st_size == holder(descriptor).utf8.count
    }

    /// The process that has it, as it has written it down.
    private static func holder(_ descriptor: Int32) -> String {
        var bytes = [UInt8](repeating: 0, count: holderBytesMax)
        let count = pread(descriptor, &bytes, bytes.count, 0)
        return String(
            decoding: bytes.prefix(max(0, count)).prefix { 0x30...0x39 ~= $0 }, as: UTF8.self)
    }

    private static func failure(_ place: String) -> CommandFailure {
        CommandFailure(
            exitCode: .notWell,
            message: "\(place) cannot be used: \(String(cString: strerror(errno)))\n"
                + "  run this as the user who owns the table's directory, usually root")
    }
}
