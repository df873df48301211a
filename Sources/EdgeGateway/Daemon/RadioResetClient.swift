import Basics
import Foundation
import Glibc

/// Asks the radio-reset helper, the only part with privilege, to reset a controller.
///
/// The helper is a program of its own with `CAP_NET_ADMIN`, started by systemd for a connection to
/// its socket. Where it is not installed there is no socket, and nothing is done.
struct RadioResetClient: Sendable {
    /// The helper takes half a second; a hung controller's ioctl may take 10 s.
    private static let timeout = Duration.seconds(15)

    let socketPath: String

    /// Resets the controller with this address.
    ///
    /// - Returns: whether it was done; blocks for up to 15 s.
    func reset(_ address: String) -> Bool {
        guard access(socketPath, W_OK) == 0 else { return false }
        let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        guard descriptor >= 0 else { return false }
        defer { close(descriptor) }
        var patience = timeval(tv_sec: Int(Self.timeout.components.seconds), tv_usec: 0)
        let size = socklen_t(MemoryLayout<timeval>.size)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &patience, size)
        setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &patience, size)
        guard UnixSocket.withAddress(socketPath, { connect(descriptor, $0, $1) }) == 0 else {
            return false
        }
        let line = Array("\(address)\n".utf8)
        guard send(descriptor, line, line.count, Int32(MSG_NOSIGNAL)) == line.count else {
            return false
        }
        var answer = [UInt8](repeating: 0, count: 3)
        return recv(descriptor, &answer, answer.count, Int32(MSG_WAITALL)) == 3
            && answer == Array("ok\n".utf8)
    }
}
