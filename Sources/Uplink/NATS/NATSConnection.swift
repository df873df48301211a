import Basics
import CNATS
import Foundation
import Synchronization

/// How NATS servers are reached.
struct NATSSettings: Sendable {
    /// The servers of one cluster; any of them will do.
    var servers: [NATSAddress]
    /// What the server's operator sees of this client.
    var name: String
    /// Who it is.
    var key: NKey
    /// What the subjects of answers begin with; the server has to let this client hear what is below it.
    var inbox: String
    /// Authorities, client certificate, timeouts, and whether plain text is acceptable.
    var network: CurlSettings
}

/// A message that came.
struct NATSMessage: Sendable {
    var subject: String
    /// Where an answer goes; nil if none is waited for.
    var reply: String?
    var payload: [UInt8]
}

/// What became of a request.
enum NATSOutcome: Hashable, Sendable {
    case answered([UInt8])
    /// Nobody listens, says the server: nobody has it.
    case noResponders
    /// It was not sent.
    case notSent(NATSFault)
    /// It was sent, and no answer came in time, or the connection ended before.
    case unanswered(TransportFault)
}

/// A connection to a NATS server, through libnats: opened when it is needed, and opened anew after it ended.
///
/// The library itself never opens it again: what it keeps for later while it is away would be sent when its
/// sender has given up. Its calls wait for the network, so it has a thread of its own.
actor NATSConnection {
    private let thread = SerialThread(label: "edge-gateway.nats")
    nonisolated var unownedExecutor: UnownedSerialExecutor {
        thread.asUnownedSerialExecutor()
    }

    private let settings: NATSSettings
    private var client: NATSClient?

    /// The server is asked for a sign of life so often; after two without one the connection is over.
    static let pingPause = Duration.seconds(20)
    static let pingsOutMax: Int32 = 2

    init(_ settings: NATSSettings) { self.settings = settings }

    /// Connects to one of the servers, unless a connection is open.
    ///
    /// - Returns: why it could not connect; nil when it is connected.
    func open() async -> NATSFault? {
        if let client, client.isConnected { return nil }
        client = nil
        guard NATSClient.isLoaded else { return .noLibrary }
        guard settings.servers.allSatisfy({ $0.isAllowed(settings.network.plainHTTP) }) else {
            return .plainRefused
        }
        var last = NATSFault.connect
        // In any order, so that clients spread over the cluster.
        for server in settings.servers.shuffled() {
            switch NATSClient.connect(to: server, settings) {
            case .success(let client):
                self.client = client
                return nil
            case .failure(let fault): if last == .connect { last = fault }
            }
        }
        return last
    }

    /// Publishes a request over the open connection and waits for its answer.
    func request(
        _ subject: String, _ payload: [UInt8], patience: Duration
    ) async -> NATSOutcome {
        guard let client, client.isConnected else { return .notSent(.connect) }
        if let fault = client.hearAnswers(settings.network.connectTimeout) {
            // The next connection may be allowed to.
            self.client = nil
            return .notSent(fault)
        }
        let events = client.events
        let number = events.nextNumber()
        let timer = Task {
            try? await Task.sleep(for: patience)
            if !Task.isCancelled { events.end(number, .unanswered(.timeout)) }
        }
        defer { timer.cancel() }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                events.wait(for: number, continuation)
                let reply = "\(client.inbox).\(number)"
                if let fault = client.publish(payload, to: subject, reply: reply) {
                    events.end(number, .notSent(fault))
                }
                if Task.isCancelled { events.end(number, .unanswered(.cancelled)) }
            }
        } onCancel: {
            events.end(number, .unanswered(.cancelled))
        }
    }

    /// Takes the messages of a subject that come to a queue group; each goes to one of its members.
    ///
    /// - Returns: why it cannot.
    func serve(
        _ subject: String, queue: String, _ handler: @escaping @Sendable (NATSMessage) -> Void
    ) async -> NATSFault? {
        guard let client, client.isConnected else { return .connect }
        client.events.serve(handler)
        guard client.subscribe(to: subject, queue: queue) else { return .cut }
        return client.refusal(settings.network.connectTimeout)
    }

    /// Whether the server answers a question in time; its answer comes after all that it sent before.
    func answers(within patience: Duration) async -> Bool {
        guard let client, client.isConnected else { return false }
        return client.flush(patience)
    }

    /// Publishes a message.
    ///
    /// - Returns: why it was not sent.
    func publish(_ payload: [UInt8], to subject: String) async -> NATSFault? {
        guard let client, client.isConnected else { return .connect }
        return client.publish(payload, to: subject, reply: nil)
    }

    /// Returns when the connection has ended, or the task is cancelled.
    func ended() async {
        // The client itself must not live on because somebody waits for its end.
        guard let events = client?.events else { return }
        await withTaskCancellationHandler {
            await withCheckedContinuation { events.waitForEnd($0) }
        } onCancel: {
            events.forgetEnd()
        }
    }

    /// Takes no more messages; what was published is sent.
    func stopServing() async {
        client?.unsubscribe()
        _ = client?.flush(settings.network.connectTimeout)
    }

    /// Ends the connection, if there is one, when all that was published is sent.
    func close() async {
        _ = client?.flush(settings.network.connectTimeout)
        client = nil
    }
}

/// libnats's client of one connection.
final class NATSClient {
    let events: NATSEvents
    /// What the subjects of this connection's answers begin with: no other one's answer comes there.
    let inbox: String
    private let pointer: OpaquePointer
    private let token: UInt
    private var subscriptions: [OpaquePointer] = []
    private var hearsAnswers = false

    static let isLoaded = cnats_load()
    private static let wordsMax = 120

    private init(_ pointer: OpaquePointer, _ events: NATSEvents, token: UInt, inbox: String) {
        self.pointer = pointer
        self.events = events
        self.token = token
        self.inbox = inbox
    }

    deinit {
        NATSRegistry.remove(token)
        unsubscribe()
        cnats_close(pointer)
        events.closed()
    }

    /// Connects.
    static func connect(
        to server: NATSAddress, _ settings: NATSSettings
    ) -> Result<NATSClient, NATSFault> {
        let events = NATSEvents(key: settings.key)
        let token = NATSRegistry.add(events)
        switch connect(to: server, settings, token) {
        case .failure(let fault):
            NATSRegistry.remove(token)
            return .failure(fault)
        case .success(let pointer):
            let session = String(UInt64.random(in: 0 ... .max), radix: 36)
            return .success(
                NATSClient(pointer, events, token: token, inbox: "\(settings.inbox).\(session)"))
        }
    }

    private static func connect(
        to server: NATSAddress, _ settings: NATSSettings, _ token: UInt
    ) -> Result<OpaquePointer, NATSFault> {
        var options: OpaquePointer?
        guard cnats_options_create(&options) == NATS_OK, let options else {
            return .failure(.connect)
        }
        defer { cnats_options_destroy(options) }
        let context = UnsafeMutableRawPointer(bitPattern: token)
        let network = settings.network
        var status = [
            cnats_options_set_server(options, server.description),
            cnats_options_set_name(options, settings.name),
            cnats_options_set_nkey(options, settings.key.publicKey, sign, context),
            cnats_options_set_patience(
                options, network.connectTimeout.microseconds / 1000,
                NATSConnection.pingPause.microseconds / 1000, NATSConnection.pingsOutMax),
            cnats_options_set_handlers(options, ended, failed, context),
        ]
        if server.isSecure {
            status.append(cnats_options_set_tls(options, server.host, network.authorityFile))
            if let file = network.clientCertificateFile {
                status.append(
                    cnats_options_set_client_certificate(
                        options, file, network.clientKeyFile ?? file))
            }
        }
        guard status.allSatisfy({ $0 == NATS_OK }) else { return .failure(.certificateFile) }
        var pointer: OpaquePointer?
        let code = withoutBrokenPipe { cnats_connect(&pointer, options) }
        guard code == NATS_OK, let pointer else { return .failure(fault(code)) }
        return .success(pointer)
    }

    private static func fault(_ code: natsStatus) -> NATSFault {
        switch code {
        case NATS_CONNECTION_AUTH_FAILED: .refused
        case NATS_SSL_ERROR:
            .tls(
                cnats_last_error().map {
                    String(
                        String.UnicodeScalarView(
                            String(cString: $0).unicodeScalars.prefix(wordsMax).map {
                                0x20...0x7E ~= $0.value ? $0 : "?"
                            }))
                } ?? "handshake")
        case NATS_SECURE_CONNECTION_WANTED: .tls("the server speaks no TLS")
        case NATS_SECURE_CONNECTION_REQUIRED: .tls("the server wants TLS: write tls://")
        case NATS_NOT_PERMITTED: .forbidden
        case NATS_MAX_PAYLOAD: .tooLarge
        default: .connect
        }
    }

    var isConnected: Bool { cnats_is_connected(pointer) && !events.hasEnded }

    func publish(_ payload: [UInt8], to subject: String, reply: String?) -> NATSFault? {
        let code = withoutBrokenPipe {
            cnats_publish(pointer, subject, reply, payload, Int32(clamping: payload.count))
        }
        return code == NATS_OK ? nil : Self.fault(code)
    }

    func subscribe(to subject: String, queue: String) -> Bool {
        hear(subject, queue: queue, Self.requests)
    }

    /// Hears the answers to requests from now on. A relay makes none.
    ///
    /// - Returns: why it cannot.
    func hearAnswers(_ patience: Duration) -> NATSFault? {
        guard !hearsAnswers else { return nil }
        guard hear("\(inbox).*", queue: nil, Self.answers) else { return .cut }
        if let fault = refusal(patience) { return fault }
        hearsAnswers = true
        return nil
    }

    /// Why the server does not let this client do what it asked for so far; nil if it does.
    ///
    /// The server complains before it answers a ping. ``failed`` may be called later than that.
    func refusal(_ patience: Duration) -> NATSFault? {
        guard flush(patience) else { return .cut }
        return cnats_is_forbidden(pointer) ? .forbidden : nil
    }

    func unsubscribe() {
        for subscription in subscriptions { cnats_unsubscribe(subscription) }
        subscriptions = []
    }

    func flush(_ patience: Duration) -> Bool {
        withoutBrokenPipe { cnats_flush(pointer, max(1, patience.microseconds / 1000)) } == NATS_OK
    }

    private func hear(
        _ subject: String, queue: String?, _ handler: @escaping natsMsgHandler
    ) -> Bool {
        var subscription: OpaquePointer?
        let code = cnats_subscribe(
            &subscription, pointer, subject, queue, handler,
            UnsafeMutableRawPointer(bitPattern: token))
        guard code == NATS_OK, let subscription else { return false }
        subscriptions.append(subscription)
        return true
    }

    // MARK: - What the library calls, on threads of its own

    private static var sign: natsSignatureHandler {
        { _, signature, count, nonce, context in
            guard let nonce, let signature, let count,
                let signed = NATSRegistry.at(context)?.key.signature(
                    of: Array(String(cString: nonce).utf8)),
                let memory = malloc(signed.count)
            else { return NATS_ERR }
            // The library frees it.
            memory.copyMemory(from: signed, byteCount: signed.count)
            signature.pointee = memory.assumingMemoryBound(to: UInt8.self)
            count.pointee = Int32(signed.count)
            return NATS_OK
        }
    }

    private static var ended: natsConnectionHandler {
        { _, context in
            NATSRegistry.at(context)?.closed()
        }
    }

    private static var failed: natsErrHandler {
        { _, _, code, context in
            if code == NATS_NOT_PERMITTED { NATSRegistry.at(context)?.forbidden() }
        }
    }

    private static var answers: natsMsgHandler {
        { _, _, message, context in
            defer { cnats_message_destroy(message) }
            guard let message, let events = NATSRegistry.at(context),
                let subject = cnats_subject(message),
                let number = String(cString: subject).split(separator: ".").last.flatMap({
                    UInt64($0)
                })
            else { return }
            events.end(
                number,
                cnats_is_no_responders(message) ? .noResponders : .answered(payload(message)))
        }
    }

    private static var requests: natsMsgHandler {
        { _, _, message, context in
            defer { cnats_message_destroy(message) }
            guard let message, let events = NATSRegistry.at(context),
                let subject = cnats_subject(message)
            else { return }
            events.came(
                NATSMessage(
                    subject: String(cString: subject),
                    reply: cnats_reply(message).map { String(cString: $0) },
                    payload: payload(message)))
        }
    }
}

/// A message's own bytes.
private func payload(_ message: OpaquePointer) -> [UInt8] {
    var count: Int32 = 0
    let bytes = cnats_bytes(message, &count)
    return Array(UnsafeRawBufferPointer(start: bytes, count: max(0, Int(count))))
}

/// What the library's threads know a connection by: a number, so that one that calls late finds nothing
/// instead of freed memory.
private enum NATSRegistry {
    private struct State {
        var next: UInt = 1
        var known: [UInt: NATSEvents] = [:]
    }

    private static let state = Mutex(State())

    static func add(_ events: NATSEvents) -> UInt {
        state.withLock { state in
            defer { state.next += 1 }
            state.known[state.next] = events
            return state.next
        }
    }

    static func remove(_ token: UInt) { _ = state.withLock { $0.known.removeValue(forKey: token) } }

    static func at(_ context: UnsafeMutableRawPointer?) -> NATSEvents? {
        let token = UInt(bitPattern: context)
        return state.withLock { $0.known[token] }
    }
}

/// What happens on one connection, and who waits for it.
final class NATSEvents: Sendable {
    private struct State {
        var number: UInt64 = 0
        var waiting: [UInt64: CheckedContinuation<NATSOutcome, Never>] = [:]
        var handler: (@Sendable (NATSMessage) -> Void)?
        var ending: CheckedContinuation<Void, Never>?
        var isCancelled = false
        var hasEnded = false
    }

    let key: NKey
    private let state = Mutex(State())

    init(key: NKey) { self.key = key }

    var hasEnded: Bool { state.withLock { $0.hasEnded } }

    func nextNumber() -> UInt64 {
        state.withLock {
            $0.number += 1
            return $0.number
        }
    }

    func wait(for number: UInt64, _ continuation: CheckedContinuation<NATSOutcome, Never>) {
        let isOver = state.withLock { state in
            if !state.hasEnded { state.waiting[number] = continuation }
            return state.hasEnded
        }
        if isOver { continuation.resume(returning: .notSent(.cut)) }
    }

    /// Ends a request, unless it has ended.
    func end(_ number: UInt64, _ outcome: NATSOutcome) {
        let waiting = state.withLock { $0.waiting.removeValue(forKey: number) }
        waiting?.resume(returning: outcome)
    }

    func serve(_ handler: @escaping @Sendable (NATSMessage) -> Void) {
        state.withLock { $0.handler = handler }
    }

    func came(_ message: NATSMessage) {
        let handler = state.withLock { $0.handler }
        handler?(message)
    }

    /// The server has taken no request that waits now: it says at once what it does not let through.
    func forbidden() {
        let waiting = state.withLock { state in
            defer { state.waiting = [:] }
            return state.waiting.values.map(\.self)
        }
        for continuation in waiting { continuation.resume(returning: .notSent(.forbidden)) }
    }

    /// The connection is over: what was sent may have arrived.
    func closed() {
        let (waiting, ending) = state.withLock { state in
            defer { (state.waiting, state.ending) = ([:], nil) }
            state.hasEnded = true
            return (state.waiting.values.map(\.self), state.ending)
        }
        for continuation in waiting { continuation.resume(returning: .unanswered(.cut)) }
        ending?.resume()
    }

    func waitForEnd(_ continuation: CheckedContinuation<Void, Never>) {
        let isOver = state.withLock { state in
            let isOver = state.hasEnded || state.isCancelled || state.ending != nil
            if !isOver { state.ending = continuation }
            return isOver
        }
        if isOver { continuation.resume() }
    }

    /// Whoever waits for the end does so no longer.
    func forgetEnd() {
        let ending = state.withLock { state in
            defer { state.ending = nil }
            state.isCancelled = true
            return state.ending
        }
        ending?.resume()
    }
}
