import Basics
import Foundation
import Glibc
import Synchronization

/// A bad network in front of a server on 127.0.0.1: passes each connection's one request on and its
/// answer back, and does to the bytes what a script says.
///
/// It listens on a Unix socket, or on a port that connections to the server's are led to, so that the
/// client goes on naming the server's own host and port.
public final class FaultProxy: Sendable {
    /// Where it listens: the path of a socket, or the number of a port of 127.0.0.1.
    public let socketPath: String
    /// The faults.
    public let script: NetworkFaultScript

    private struct State {
        var connections = 0
        var open = 0
        var isCalm = false
        var isCut = false
    }

    private let serverPort: Int
    private let patience: Duration
    private let pauseFor: @Sendable (Duration) -> Void
    private let listener: Int32
    private let state = Mutex(State())

    /// Starts a proxy for the server on `serverPort`. `patience` is how long its client waits for a
    /// whole answer: delays are made shorter or longer than that.
    public init(
        socketPath: String, serverPort: Int, script: NetworkFaultScript, patience: Duration
    ) throws {
        self.socketPath = socketPath
        self.serverPort = serverPort
        self.script = script
        self.patience = patience
        pauseFor = Self.sleep
        guard let listener = Self.listen(at: socketPath) else {
            throw ExchangeFailure.notListening
        }
        self.listener = listener
        let thread = Thread { [self] in acceptAll() }
        thread.start()
    }

    /// Starts a proxy on a free port of 127.0.0.1, which nothing goes wrong in until
    /// ``setCalm(_:)`` says so. `patience` and what is made of it are times of `clock`.
    public init(
        serverPort: Int, script: NetworkFaultScript, patience: Duration, clock: FastClock? = nil
    ) throws {
        let reservation = try PortReservation()
        self.serverPort = serverPort
        self.script = script
        self.patience = patience
        pauseFor = { duration in
            if let clock { clock.block(for: duration) } else { Self.sleep(duration) }
        }
        guard let listener = reservation.listen() else { throw ExchangeFailure.notListening }
        self.listener = listener
        socketPath = String(reservation.port)
        state.withLock { $0.isCalm = true }
        let thread = Thread { [self] in acceptAll() }
        thread.start()
    }

    /// While it is calm, connections are passed on as they are and the script waits.
    public func setCalm(_ isCalm: Bool) { state.withLock { $0.isCalm = isCalm } }

    deinit { close(listener) }

    /// Ends the thread, which holds on to the proxy until then.
    public func stop() {
        shutdown(listener, Int32(SHUT_RDWR))
    }

    /// While it is cut, connections break at once, and answers to those under way are lost.
    public func setCut(_ isCut: Bool) { state.withLock { $0.isCut = isCut } }

    /// Waits until every byte that was delayed has arrived, or never will.
    public func settle() async {
        while state.withLock({ $0.open }) > 0 {
            try? await Task.sleep(for: .milliseconds(2))
        }
    }

    // MARK: - One connection

    private func acceptAll() {
        while true {
            let descriptor = accept(listener, nil, nil)
            guard descriptor >= 0 else { return }
            let fault = state.withLock { state -> ConnectionFault? in
                state.open += 1
                guard !state.isCalm else { return nil }
                state.connections += 1
                let number = state.connections - 1
                return script.faults.indices.contains(number) ? script.faults[number] : nil
            }
            Thread.detachNewThread { [self] in
                let client = ProxySocket(descriptor)
                if !state.withLock({ $0.isCut }) { pass(client, fault) }
                client.close()
                state.withLock { $0.open -= 1 }
            }
        }
    }

    private func pass(_ client: ProxySocket, _ fault: ConnectionFault?) {
        let request = client.readRequest()
        let isOfRequest = fault?.direction == .request
        guard
            var answer = exchange(request, with: client, isOfRequest ? fault : nil)
        else { return }
        if isOfRequest, fault?.act == .duplicate {
            answer = exchange(request, with: client, nil) ?? answer
        }
        if state.withLock({ $0.isCut }) { return }
        guard !isOfRequest, let fault, let offset = fault.offset(in: answer) else {
            client.write(answer[...])
            return
        }
        switch fault.act {
        case .garble:
            answer[offset] = Self.garbled
            client.write(answer[...])
        case .duplicate:
            let half = (answer.count - offset) / 2
            client.write(answer[..<(offset + half)] + answer[offset..<(answer.count - half)])
        case .drop, .cut, .delay, .delayBeyondPatience:
            client.write(answer[..<offset])
            if fault.act == .drop { client.waitForClose() }
            guard let pause = pause(fault.act) else { return }
            pauseFor(pause)
            client.write(answer[offset...])
        }
    }

    /// Passes the request on; the answer, or nil when nothing is left to say to the client.
    private func exchange(
        _ request: [UInt8], with client: ProxySocket, _ fault: ConnectionFault?
    ) -> [UInt8]? {
        guard let server = ProxySocket(port: serverPort) else { return nil }
        defer { server.close() }
        guard let fault, fault.act != .duplicate, let offset = fault.offset(in: request) else {
            server.write(request[...])
            return server.readAll()
        }
        if fault.act == .garble {
            var request = request
            request[offset] = Self.garbled
            server.write(request[...])
            // The server may wait for the end of what is no request any more.
            return server.readAll(unlessCloses: client)
        }
        server.write(request[..<offset])
        if fault.act == .drop { client.waitForClose() }
        guard let pause = pause(fault.act) else { return nil }
        pauseFor(pause)
        server.write(request[offset...])
        return server.readAll()
    }

    private static let garbled: UInt8 = 0x01

    private func pause(_ act: ConnectionFault.Act) -> Duration? {
        switch act {
        case .delay: patience / 10
        case .delayBeyondPatience: patience * 1.2
        default: nil
        }
    }

    private static func sleep(_ time: Duration) {
        Thread.sleep(forTimeInterval: time / .seconds(1))
    }

    private static func listen(at path: String) -> Int32? {
        let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        guard descriptor >= 0 else { return nil }
        if UnixSocket.withAddress(path, { bind(descriptor, $0, $1) }) == 0,
            Glibc.listen(descriptor, 16) == 0
        {
            return descriptor
        }
        close(descriptor)
        return nil
    }
}
