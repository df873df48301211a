import Basics

/// How NATS servers are reached.
struct NATSSettings: Sendable {
    /// The servers of one cluster; any of them will do.
    var servers: [ServerAddress]
    /// The name of this client for the server's operator.
    var name: String
    /// The key that identifies this client.
    var key: NKey
    /// The beginning of the subjects of answers; the server has to let this client hear what is below it.
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

/// The outcome of a request.
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
    private let thread = TaskThread(label: "nats")
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
        for server in settings.servers.shuffled() where !Task.isCancelled {
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
            await UptimeClock.system.sleep(patience)
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
