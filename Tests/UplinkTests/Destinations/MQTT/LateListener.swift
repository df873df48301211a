import Foundation
import Synchronization

/// A server whose connections take a second to be made: the kernel drops the first packet of each, as its queue is
/// full, and takes the one that the client's kernel sends again. What comes is handed on.
final class LateListener: Sendable {
    let port: UInt16
    private let listener: Int32
    private let filler: Int32
    private let late = Mutex(false)

    /// How long the queue stays full. In milliseconds, less than the second after which a packet is sent again.
    private static let pause: Int32 = 500

    /// Whether there was a connection, and it took its time.
    var wasLate: Bool { late.withLock { $0 } }

    /// - Parameter target: the port on this machine that everything is handed on to.
    init(before target: UInt16) throws {
        let (descriptor, port) = try Loopback.listen()
        listen(descriptor, 0)
        listener = descriptor
        self.port = port
        // A queue of none takes one.
        filler = Loopback.connect(port)
        Thread { [self] in
            let begun = ContinuousClock.now
            // Time for the client's first packet to come, and be dropped.
            poll(nil, 0, Self.pause)
            close(accept(descriptor, nil, nil))
            let client = accept(descriptor, nil, nil)
            guard client >= 0 else { return }
            let took = ContinuousClock.now - begun
            late.withLock { $0 = took > .milliseconds(Int64(Self.pause)) }
            let server = Loopback.connect(target)
            Self.handOn(client, server)
            close(client)
            close(server)
        }.start()
    }

    func stop() {
        shutdown(listener, Int32(SHUT_RDWR))
        close(filler)
    }

    deinit { close(listener) }

    private static func handOn(_ one: Int32, _ other: Int32) {
        var bytes = [UInt8](repeating: 0, count: 4096)
        while true {
            var wanted = [one, other].map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
            guard poll(&wanted, 2, -1) > 0 else { return }
            for (from, to) in [(0, other), (1, one)] where wanted[from].revents != 0 {
                let count = recv(wanted[from].fd, &bytes, bytes.count, 0)
                guard count > 0 else { return }
                send(to, bytes, count, Int32(MSG_NOSIGNAL))
            }
        }
    }
}
