import Foundation
import Glibc
import HTTPTypes
import HummingbirdCore
import NIOCore
import NIOHTTP1
import NIOHTTPTypes
import Synchronization

/// The limits that a server sets its clients.
struct ServerLimits: Sendable {
    /// Connections at a time, and how many of one user or address.
    var connectionsMax: Int
    var perPeerMax: Int
    /// From the connection to the end of its first request's head.
    var head = Duration.seconds(10)
    /// From the end of a request's head to the end of its body.
    var body = Duration.seconds(30)
    /// From an answer to the end of the next request's head.
    var idle = Duration.seconds(30)
    /// How long a client may take nothing of an answer.
    var stalled = Duration.seconds(10)
}

/// The connections of one server that are open, by all its threads.
final class ConnectionDoor: Sendable {
    private struct State {
        var table: ConnectionTable
        var next = 0
        var closing: [Int: @Sendable () -> Void] = [:]
    }

    let limits: ServerLimits
    private let state: Mutex<State>

    init(_ limits: ServerLimits) {
        self.limits = limits
        state = Mutex(
            State(
                table: ConnectionTable(
                    countMax: limits.connectionsMax, perPeerMax: limits.perPeerMax)))
    }

    /// Lets a connection in, and closes another one if there are too many.
    func enter(_ peer: ConnectionPeer, close: @escaping @Sendable () -> Void) -> Int {
        let (id, closing) = state.withLock { state in
            state.next += 1
            let id = state.next
            state.closing[id] = close
            let victim = state.table.add(id, of: peer)
            return (id, victim.flatMap { state.closing.removeValue(forKey: $0) })
        }
        closing?()
        return id
    }

    func note(_ id: Int, _ phase: ConnectionTable.Phase) {
        state.withLock { $0.table.note(id, phase) }
    }

    func leave(_ id: Int) {
        state.withLock { state in
            state.table.remove(id)
            state.closing[id] = nil
        }
    }
}

/// Watches over one connection: how long a request may take to arrive, how long an answer may not be taken, and
/// that what is no HTTP is answered with 400 and a problem.
final class ConnectionGuard: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPRequestPart
    typealias InboundOut = HTTPRequestPart
    typealias OutboundIn = HTTPResponsePart
    typealias OutboundOut = HTTPResponsePart

    /// The bytes that the kernel and this program each keep of an answer that is not read.
    private static let unsentBytesMax = 16 << 10

    private let door: ConnectionDoor
    private var id: Int?
    /// Requests whose head came, and answers that were written to their end.
    private var asked = 0
    private var answered = 0
    private var isReading = false
    private var isAnswering = false
    private var isEnding = false
    private var deadline: Scheduled<Void>?
    private var stall: Scheduled<Void>?

    init(_ door: ConnectionDoor) { self.door = door }

    func handlerAdded(context: ChannelHandlerContext) {
        if context.channel.isActive { begin(context) }
    }

    func handlerRemoved(context: ChannelHandlerContext) { end() }

    func channelActive(context: ChannelHandlerContext) {
        begin(context)
        context.fireChannelActive()
    }

    func channelInactive(context: ChannelHandlerContext) {
        end()
        context.fireChannelInactive()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        // After an error of the parser nothing of this connection is a request any more.
        guard !isEnding else { return }
        switch unwrapInboundIn(data) {
        case .head:
            asked += 1
            isReading = true
            schedule(context, door.limits.body)
            note(.reading)
        case .body: break
        case .end:
            isReading = false
            deadline?.cancel()
            deadline = nil
            note(.answering)
            if asked == answered { wait(context) }
        }
        context.fireChannelRead(data)
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        guard !isEnding else {
            promise?.fail(ChannelError.ioOnClosedChannel)
            return
        }
        switch unwrapOutboundIn(data) {
        case .head: isAnswering = true
        case .body: break
        case .end:
            isAnswering = false
            answered += 1
            if asked == answered, !isReading { wait(context) }
        }
        context.write(data, promise: promise)
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        stall?.cancel()
        stall = nil
        if !context.channel.isWritable {
            stall = context.eventLoop.assumeIsolated().scheduleTask(
                in: TimeAmount(door.limits.stalled)
            ) { context.close(promise: nil) }
        }
        context.fireChannelWritabilityChanged()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        // A connection that broke needs no answer. In the middle of a request its own answer says what is wrong.
        guard !(error is IOError), !(error is ChannelError), asked == answered, !isReading else {
            context.fireErrorCaught(error)
            return
        }
        let isOverflow = (error as? HTTPParserError) == .headerOverflow
        refuse(context, isOverflow ? .headersTooLarge : .malformedRequest)
    }

    private func begin(_ context: ChannelHandlerContext) {
        guard id == nil else { return }
        let channel = context.channel
        if let options = channel.syncOptions {
            let bytes = Self.unsentBytesMax
            try? options.setOption(.socketOption(.so_sndbuf), value: SocketOptionValue(bytes))
            try? options.setOption(
                .writeBufferWaterMark, value: .init(low: bytes / 4, high: bytes))
        }
        id = door.enter(Self.peer(of: channel)) { channel.close(promise: nil) }
        schedule(context, door.limits.head)
    }

    private func end() {
        if let id { door.leave(id) }
        deadline?.cancel()
        stall?.cancel()
        (deadline, stall) = (nil, nil)
    }

    /// Everything is answered; something else may be asked.
    private func wait(_ context: ChannelHandlerContext) {
        note(.waiting)
        schedule(context, door.limits.idle)
    }

    private func note(_ phase: ConnectionTable.Phase) {
        if let id { door.note(id, phase) }
    }

    private func schedule(_ context: ChannelHandlerContext, _ time: Duration) {
        deadline?.cancel()
        deadline = context.eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(time)) {
            if self.isReading, !self.isAnswering, self.asked == self.answered + 1 {
                self.refuse(context, .tooSlow)
            } else {
                context.close(promise: nil)
            }
        }
    }

    /// Answers with a problem and closes.
    private func refuse(_ context: ChannelHandlerContext, _ problem: ProblemReport) {
        guard !isEnding else { return }
        isEnding = true
        let body = (try? ReportCoding.encoder().encode(problem)) ?? Data()
        let head = HTTPResponse(
            status: problem.httpStatus,
            headerFields: [
                .contentType: "application/json", .contentLength: "\(body.count)",
                .connection: "close",
            ])
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        context.write(wrapOutboundOut(.body(ByteBuffer(bytes: body))), promise: nil)
        let written = context.eventLoop.makePromise(of: Void.self)
        written.futureResult.assumeIsolated().whenComplete { _ in context.close(promise: nil) }
        context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: written)
    }

    /// The user of a Unix socket, the address of another one.
    private static func peer(of channel: any Channel) -> ConnectionPeer {
        switch channel.remoteAddress {
        case nil, .unixDomainSocket:
            return Peer.ofSocket(channel).map { .user($0.user) } ?? .unknown
        case .v4: return .address(channel.remoteAddress?.ipAddress ?? "")
        case .v6(let v6):
            var network = v6.address.sin6_addr
            return .address(
                withUnsafeBytes(of: &network) { bytes in
                    // ::ffff:1.2.3.4 is an IPv4 address.
                    let isMapped = bytes.prefix(10).allSatisfy { $0 == 0 } && bytes[10] == 0xFF
                    return bytes.prefix(isMapped ? 16 : 8).map { String($0, radix: 16) }
                        .joined(separator: ":")
                })
        }
    }
}

extension ProblemReport {
    fileprivate static let tooSlow = ProblemReport(
        code: .tooSlow, message: "the request did not arrive in time",
        advice: "send the whole request at once")
    fileprivate static let headersTooLarge = ProblemReport(
        code: .headersTooLarge, message: "the request's headers are too large",
        advice: "send fewer headers; cookies of other programs may be among them")
    /// The bytes of the request are no HTTP.
    static let malformedRequest = ProblemReport(
        code: .badRequest, message: "the request is not valid HTTP",
        advice: "look for a proxy between the client and the gateway")
}
