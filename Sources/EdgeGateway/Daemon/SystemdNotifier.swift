import Basics
import Foundation
import Glibc

/// Tells systemd how the daemon is: `sd_notify(3)` without libsystemd.
///
/// Does nothing when systemd did not start us (no `NOTIFY_SOCKET`).
struct SystemdNotifier: Sendable {
    private let path: String?

    init(environment: [String: String] = ProcessInfo.processInfo.environment) {
        path = environment["NOTIFY_SOCKET"]
    }

    /// Tells it without waiting: systemd may be busy, and its queue full.
    ///
    /// - Parameter state: one assignment a line, such as `READY=1`.
    func send(_ state: String) {
        guard trySending(state, Int32(MSG_DONTWAIT)) == EAGAIN else { return }
        // It waits on a thread of its own, so that it holds up no task.
        Thread.detachNewThread { _ = trySending(state, 0) }
    }

    /// Feeds the watchdog. If systemd has no room for it, earlier ones wait there, and the next one follows.
    func feedWatchdog() { _ = trySending("WATCHDOG=1", Int32(MSG_DONTWAIT)) }

    /// Returns 0, or the `errno` of what failed.
    private func trySending(_ state: String, _ flags: Int32) -> Int32 {
        guard let path, !path.isEmpty else { return 0 }
        // A leading @ means the NUL of an abstract socket.
        let place = path.hasPrefix("@") ? "\0" + path.dropFirst() : path
        let type = Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
        let descriptor = socket(AF_UNIX, type, 0)
        guard descriptor >= 0 else { return errno }
        defer { close(descriptor) }
        let bytes = Array(state.utf8)
        let count = UnixSocket.withAddress(place) {
            sendto(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL) | flags, $0, $1)
        }
        return count < 0 ? errno : 0
    }
}
