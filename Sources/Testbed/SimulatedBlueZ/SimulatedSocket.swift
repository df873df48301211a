import BlueZ
import Foundation
import Synchronization

#if canImport(Glibc)
    import Glibc
#endif

/// bluetoothd's end of a socket of notifications.
final class SimulatedSocket: Sendable {
    /// How long a closed pipe, which cannot be shut down, keeps its thread.
    private static let patienceMilliseconds: Int32 = 1000

    private let descriptor: DBusDescriptor
    private let isClosed = Mutex(false)

    /// Makes a socket and returns it with what goes to the client: the other end, or what is to come in
    /// its place.
    ///
    /// - Parameter onClosed: called once the client has closed its end.
    static func make(
        _ answer: BlueZHabits.SocketAnswer, bytes: Int?, onClosed: @escaping @Sendable () -> Void
    ) -> (socket: SimulatedSocket, client: DBusDescriptor?)? {
        var ends: [Int32] = [-1, -1]
        let kind =
            Int32(SOCK_SEQPACKET.rawValue) | Int32(SOCK_NONBLOCK.rawValue)
            | Int32(SOCK_CLOEXEC.rawValue)
        let isMade =
            switch answer {
            case .socket, .nothing: socketpair(AF_UNIX, kind, 0, &ends) == 0
            // Its reading end goes to the client.
            case .pipe: pipe(&ends) == 0
            }
        guard isMade, let ours = DBusDescriptor(owning: ends[1]) else { return nil }
        let theirs = DBusDescriptor(owning: ends[0])
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        if var bytes = bytes.map(Int32.init(clamping:)) {
            setsockopt(
                ours.number, SOL_SOCKET, SO_SNDBUF, &bytes,
                socklen_t(MemoryLayout<Int32>.size))
        }
        let socket = SimulatedSocket(ours)
        Thread.detachNewThread { socket.wait(for: onClosed) }
        return (socket, answer == .nothing ? nil : theirs)
    }

    private init(_ descriptor: DBusDescriptor) { self.descriptor = descriptor }

    /// Sends a packet; false if the client's end is full or gone.
    func send(_ bytes: [UInt8]) -> Bool {
        Glibc.send(
            descriptor.number, bytes, bytes.count, Int32(MSG_NOSIGNAL)
        ) == bytes.count
    }

    /// Ends it as bluetoothd does: the client reads what it has, and then the end.
    func close() {
        isClosed.withLock { $0 = true }
        shutdown(descriptor.number, Int32(SHUT_RDWR))
    }

    private func wait(for onClosed: () -> Void) {
        var polled = pollfd(fd: descriptor.number, events: 0, revents: 0)
        while poll(&polled, 1, Self.patienceMilliseconds) == 0 {
            if isClosed.withLock({ $0 }) { return }
        }
        if !isClosed.withLock({ $0 }) { onClosed() }
    }
}
