import Basics
import Glibc
import Synchronization

/// A client of a Unix socket that sends what a test tells it to, as slowly as that does, and waits for
/// nothing. Closed when no one holds it any more.
public final class SlowClient: Sendable {
    private let descriptor: Int32
    private let bytes = Mutex<[UInt8]>([])
    private let hasEnded = Mutex(false)

    /// Connects, for up to 5 s while the server has more to accept than its backlog holds (EAGAIN). A refused
    /// connection shows in ``isCutOff()``.
    public init(_ path: String) {
        descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue), 0)
        for _ in 0..<500 {
            let isConnected = UnixSocket.withAddress(path) { connect(descriptor, $0, $1) } == 0
            guard !isConnected, errno == EAGAIN else { break }
            usleep(10_000)
        }
    }

    deinit { close(descriptor) }

    /// Sends text, or as much of it as the socket takes at once.
    public func send(_ text: String) { send(Array(text.utf8)) }

    /// Sends bytes, or as many of them as the socket takes at once.
    public func send(_ bytes: [UInt8]) {
        _ = Glibc.send(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL))
    }

    /// The bytes that have come so far.
    public func received() -> String {
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = recv(descriptor, &buffer, buffer.count, 0)
            if count == 0 { hasEnded.withLock { $0 = true } }
            guard count > 0 else { break }
            bytes.withLock { $0 += buffer.prefix(count) }
        }
        return bytes.withLock { String(decoding: $0, as: UTF8.self) }
    }

    /// Whether ``received()`` has seen the end of what the other side sends. That side may still wait for ours.
    public var isAtEnd: Bool { hasEnded.withLock { $0 } }

    /// Whether the other side has closed the connection.
    public func isCutOff() -> Bool {
        var wait = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        return poll(&wait, 1, 0) > 0 && wait.revents & Int16(POLLHUP) != 0
    }
}
