import Foundation
import Glibc
import HTTPTypes
import Hummingbird
import Logging
import NIOCore
import NIOPosix
import Synchronization

/// A port of 127.0.0.1 that stays ours while the server is down.
///
/// A bound socket that does not listen refuses connections, and keeps the kernel from giving the
/// port to another program's outgoing connection meanwhile; with SO_REUSEADDR on both, the server
/// can listen on it beside this one.
final class PortReservation: Sendable {
    let port: Int
    private let descriptor: Int32

    init() throws {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        guard descriptor >= 0 else { throw ExchangeFailure.noPort(errno: errno) }
        var yes: Int32 = 1
        setsockopt(
            descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, socklen_t(MemoryLayout<Int32>.size))
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let bound = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, length) == 0 && getsockname(descriptor, $0, &length) == 0
            }
        }
        guard bound else {
            let code = errno
            close(descriptor)
            throw ExchangeFailure.noPort(errno: code)
        }
        port = Int(UInt16(bigEndian: address.sin_port))
        self.descriptor = descriptor
    }

    /// Listens on it; the descriptor is the caller's.
    func listen() -> Int32? {
        let copy = dup(descriptor)
        guard copy >= 0 else { return nil }
        if Glibc.listen(copy, 64) == 0 { return copy }
        close(copy)
        return nil
    }

    deinit { close(descriptor) }
}

/// Why the stand-in could not start.
public enum ExchangeFailure: Error, Hashable {
    /// No port of 127.0.0.1 could be had.
    case noPort(errno: Int32)
    /// The listener ended before it was ready.
    case notListening
}

/// The open connections, so that a network cut can break them.
private final class ExchangeConnections: Sendable {
    private struct State {
        var open: [ObjectIdentifier: any Channel] = [:]
        var isCut = false
    }
    private let state = Mutex(State())

    func add(_ channel: any Channel) {
        let refuse = state.withLock { state in
            if !state.isCut { state.open[ObjectIdentifier(channel)] = channel }
            return state.isCut
        }
        if refuse { channel.close(promise: nil) }
    }

    func remove(_ channel: any Channel) {
        state.withLock { _ = $0.open.removeValue(forKey: ObjectIdentifier(channel)) }
    }

    func cut() {
        let open = state.withLock { state in
            defer { state.open = [:] }
            state.isCut = true
            return Array(state.open.values)
        }
        for channel in open { channel.close(promise: nil) }
    }
}

private final class ConnectionWatch: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = NIOAny
    let connections: ExchangeConnections

    init(_ connections: ExchangeConnections) { self.connections = connections }

    /// Not sooner: a connection that is closed before the server has taken it ends the process.
    func channelActive(context: ChannelHandlerContext) {
        context.fireChannelActive()
        connections.add(context.channel)
    }

    func channelInactive(context: ChannelHandlerContext) {
        connections.remove(context.channel)
        context.fireChannelInactive()
    }
}

/// One life of the listener: from ``start(port:handler:)`` to ``stop()``.
struct ExchangeListener: Sendable {
    typealias Handler =
        @Sendable (ExchangeRequest) async -> (answer: ExchangeAnswer, delivery: ExchangeDelivery)

    /// The largest body the listener reads; the real server was seen to take 40 MB.
    static let bodyLimitBytes = 64 << 20

    private let connections: ExchangeConnections
    private let socket: any Channel

    static func start(port: Int, handler: @escaping Handler) async throws -> ExchangeListener {
        let connections = ExchangeConnections()
        let (ready, signal) = AsyncStream<any Channel>.makeStream()
        let application = Application(
            responder: CallbackResponder<ExchangeContext> { request, context in
                await respond(to: request, on: context.channel, handler: handler)
            },
            server: .http1(
                configuration: .init(additionalChannelHandlers: [ConnectionWatch(connections)])),
            configuration: .init(address: .hostname("127.0.0.1", port: port)),
            onServerRunning: { signal.yield($0) },
            logger: Logger(label: "exchange", factory: { _ in SwiftLogNoOpLogHandler() }))
        let running = Task {
            defer { signal.finish() }
            try await application.run()
        }
        for await socket in ready {
            return ExchangeListener(connections: connections, socket: socket)
        }
        try await running.value
        throw ExchangeFailure.notListening
    }

    /// Closes the listener and breaks every connection. Workers go on; their answers reach no client.
    ///
    /// The server ends by itself when its socket is closed. Cancelled, it would drop connections that it
    /// has accepted and not taken, which NIO answers with a trap.
    func stop() async {
        // So it does with one that is just being accepted when the socket is closed: accepting ends first, and what is
        // on its way from one event loop to another gets there.
        try? await socket.setOption(.autoRead, value: false).get()
        for _ in 0..<2 {
            for loop in MultiThreadedEventLoopGroup.singleton.makeIterator() {
                try? await loop.submit {}.get()
            }
        }
        connections.cut()
        try? await socket.close()
    }

    private static func respond(
        to request: Request, on channel: any Channel, handler: @escaping Handler
    ) async -> Response {
        let named = request.headers[.contentLength] != nil
        var body: [UInt8] = []
        if let buffer = try? await request.body.collect(upTo: bodyLimitBytes), named {
            body = Array(buffer.readableBytesView)
        }
        let question = ExchangeRequest(
            method: request.method.rawValue, host: request.head.authority ?? "",
            target: request.head.path ?? "/",
            headers: request.headers.map { ($0.name.canonicalName, $0.value) }, body: body)
        // A task of its own: the server's worker goes on when the client hangs up.
        let worker = Task { await handler(question) }
        let (answer, delivery) = await worker.value
        return await deliver(answer, delivery, on: channel)
    }

    private static func deliver(
        _ answer: ExchangeAnswer, _ delivery: ExchangeDelivery, on channel: any Channel
    ) async -> Response {
        var fields = HTTPFields()
        for (name, value) in answer.headers {
            if let name = HTTPField.Name(name) { fields[name] = value }
        }
        fields[.connection] = "close"
        fields[.contentLength] = String(answer.body.count)
        let status = HTTPResponse.Status(code: answer.status)
        switch delivery {
        case .none:
            channel.close(promise: nil)
        case .silence:
            try? await channel.closeFuture.get()
        case .whole, .partial:
            break
        }
        let sent: [UInt8] =
            switch delivery {
            case .partial(let share):
                Array(answer.body.prefix(Int(Double(answer.body.count) * share)))
            default: answer.body
            }
        return Response(
            status: status, headers: fields,
            body: ResponseBody { writer in
                try await writer.write(ByteBuffer(bytes: sent))
                if sent.count == answer.body.count { try await writer.finish(nil) }
                // The real server keeps no connection alive.
                channel.close(mode: .output, promise: nil)
            })
    }
}

/// The request context: the channel, so that a fault can break the connection.
struct ExchangeContext: InitializableFromSource {
    let channel: any Channel

    init(source: ApplicationRequestContextSource) { channel = source.channel }
}
