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

    /// - Parameter state: one assignment a line, such as `READY=1`.
    func send(_ state: String) {
        guard let path, !path.isEmpty else { return }
        // A leading @ means the NUL of an abstract socket.
        let place = path.hasPrefix("@") ? "\0" + path.dropFirst() : path
        let descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue), 0)
        guard descriptor >= 0 else { return }
        defer { close(descriptor) }
        let bytes = Array(state.utf8)
        _ = UnixSocket.withAddress(place) {
            sendto(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL), $0, $1)
        }
    }
}
