import Basics
import Logging
import OfflineQueue

/// Takes gateways' requests, sends them to the exchange in full bundles, and gives each gateway the exchange's
/// own answer. It stores nothing: what it holds when it dies is sent again by its gateways.
public actor Relay {
    /// A message that came.
    struct Incoming: Sendable {
        var message: NATSMessage
        /// When it was read.
        var read: Uptime
        /// The earliest time at which it can have left the NATS server.
        var departure: Uptime
    }

    /// A request with what its answer takes.
    struct Pending {
        /// The patients for whom its gateway may write.
        var points: [OutgoingPoint]
        /// The answers that are known already, in the order of the request; nil for a point above.
        var known: [EntryAnswer?]
        var reply: String
    }

    private let connection: NATSConnection
    private let table: @Sendable () async -> RelayTable
    let clock: any GatewayClock
    let logger: Logger
    private let tokens: RenewingTokens
    var batcher: RelayBatcher
    /// A worker each: an exchange's client with a connection of its own.
    let workers: [ExchangeDestination]
    var idle: [Int]
    /// One more, which no bundle waits for: it asks for the exchange's health.
    private let asker: ExchangeDestination?
    var pending: [Int: Pending] = [:]
    private var lastJob = 0
    var numbers: RelayFacts
    var straps: [StrapDatasheet: Int64] = [:]
    var alarm: Task<Void, Never>?
    var isEnding = false
    var emptied: CheckedContinuation<Void, Never>?
    private var health: (isWell: Bool, at: Uptime)?
    /// The question about it that is under way.
    private var question: Task<Void, Never>?
    /// Where its answer goes.
    private var askers: [String] = []

    /// The subject that gateways send to: this and their name.
    static let subject = "heart-rate"
    /// The subject below which answers to a gateway come: this and its name.
    static let inbox = "_INBOX"
    /// The queue group of all relays of a clinic: each request goes to one of them.
    static let queue = "relay"
    /// Messages that wait to be looked at. Beyond them the newest is lost, and its gateway sends it again.
    private static let inflowMax = 4_096
    /// How old an answer about the exchange's health may be that a gateway gets.
    private static let healthAge = Duration.seconds(5)
    /// Between two attempts to connect.
    private static let connectPause = (
        first: Duration.milliseconds(200), longest: Duration.seconds(5)
    )
    /// Between two questions to the NATS server that show how old what it sends can be.
    private static let askPause = Duration.milliseconds(250)
    /// A gateway that was not served asks again after this.
    static let soon = Duration.seconds(1)

    /// A relay that is not running yet; `table` gives who may write for whom, as it is when it is called.
    public init(
        _ settings: RelaySettings, clock: any GatewayClock, logger: Logger,
        table: @escaping @Sendable () async -> RelayTable
    ) {
        self.table = table
        self.clock = clock
        self.logger = logger
        numbers = RelayFacts()
        batcher = RelayBatcher(workers: settings.workers)
        connection = NATSConnection(
            NATSSettings(
                servers: settings.servers, name: "edge-gateway relay", key: settings.key,
                inbox: "\(Self.inbox).relay", network: settings.network))
        let key = settings.practitionerKey
        let record = TokenRecord(
            origin: settings.origin, clientID: key.clientID,
            credential: .practitionerKey(clientID: key.clientID, secret: key.clientSecret),
            pair: .spent)
        let transport = CurlTransport(settings.curl)
        let tokens = RenewingTokens(record: record, clock: clock, logger: logger) { _ in
            // Nothing to keep: the key brings the next token.
        } issuer: {
            GrantClient(transport: transport, origin: $0.origin, clock: clock)
        }
        let terms = Self.terms(settings)
        func worker() -> ExchangeDestination? {
            ExchangeDestination(
                terms: terms, tokens: tokens, transport: CurlTransport(settings.curl), clock: clock,
                logger: logger)
        }
        self.tokens = tokens
        workers = (0..<max(1, settings.workers)).compactMap { _ in worker() }
        idle = Array(workers.indices)
        asker = worker()
    }

    private static func terms(_ settings: RelaySettings) -> EnrollmentTerms {
        var terms = EnrollmentTerms(
            name: "relay", kind: .practitionerKey, origin: settings.origin.description,
            fhirBase: settings.origin.description + String(ExchangeReader.fhirBases[0].dropLast()),
            device: settings.device, codeSystem: settings.code?.system, code: settings.code?.code,
            identifierSystem: settings.identifierSystem)
        terms.isDeviceChosen = settings.device != nil
        return terms
    }

    /// How it is.
    public var facts: RelayFacts {
        var facts = numbers
        facts.waiting = batcher.waitingCount
        facts.busyWorkers = batcher.busyCount
        return facts
    }

    // MARK: - Running

    /// Serves until the task is cancelled; then answers what it has begun.
    ///
    /// - Parameter listening: called whenever it begins to listen.
    public func run(listening: @escaping @Sendable () -> Void = {}) async {
        let (messages, sink) = AsyncStream<Incoming>.makeStream(
            bufferingPolicy: .bufferingOldest(Self.inflowMax))
        let reading = Task { for await message in messages { await receive(message) } }
        var backoff = Backoff(first: Self.connectPause.first, longest: Self.connectPause.longest)
        var random = SystemRandomNumberGenerator()
        while !Task.isCancelled {
            let watch: SharedStallWatch
            do throws(NATSFault) {
                watch = try await listen { sink.yield($0) }
            } catch {
                if numbers.connectionFault != error.description {
                    logger.warning("connect", metadata: ["fault": "\(error)"])
                }
                numbers.connectionFault = error.description
                await clock.sleep(backoff.next(using: &random))
                continue
            }
            let watching = Task { await endConnection(whenStalled: watch) }
            backoff.reset()
            numbers.connectionFault = nil
            numbers.isListening = true
            logger.notice("listening")
            listening()
            await connection.ended()
            watching.cancel()
            numbers.isListening = false
            if !Task.isCancelled { logger.warning("the connection to the NATS server ended") }
        }
        await connection.stopServing()
        sink.finish()
        await reading.value
        await end()
        await connection.close()
        await tokens.finish()
    }

    /// Ends the connection when what it brings can be of any age. What the next one brings is younger than itself.
    private func endConnection(whenStalled watch: SharedStallWatch) async {
        while !Task.isCancelled {
            let asked = clock.read().uptime
            let isAnswered = await connection.answers(within: StallWatch.gapMax)
            let now = clock.read().uptime
            let since = watch.with { watch in
                isAnswered ? watch.answered(askedAt: asked, now) : watch.look(now)
                return watch.stalledSince
            }
            guard !Task.isCancelled else { return }
            if let since {
                numbers.stalls += 1
                logger.warning(
                    "this relay or its network stood still; connecting anew",
                    metadata: ["seconds": "\((now - since).components.seconds)"])
                return await connection.close()
            }
            await clock.sleep(Self.askPause)
        }
    }

    /// Listens to the gateways.
    ///
    /// - Returns: what tells how old it can be what they send.
    private func listen(
        _ handler: @escaping @Sendable (Incoming) -> Void
    ) async throws(NATSFault) -> SharedStallWatch {
        if let fault = await connection.open() { throw fault }
        let watch = SharedStallWatch(clock.read().uptime)
        let fault = await connection.serve("\(Self.subject).*", queue: Self.queue) {
            [clock] message in
            let now = clock.read().uptime
            let departure = watch.with { $0.departure(ofWhatIsReadAt: now) }
            handler(Incoming(message: message, read: now, departure: departure))
        }
        if let fault {
            await connection.close()
            throw fault
        }
        return watch
    }

    /// Turns away what waits, and returns when all that is under way has its answer.
    private func end() async {
        isEnding = true
        alarm?.cancel()
        for job in batcher.drain() { await turnAway(job.id) }
        await question?.value
        guard !pending.isEmpty else { return }
        await withCheckedContinuation { emptied = $0 }
    }

    // MARK: - Requests

    /// Takes a request of a gateway: whose it is says the subject, which the server lets nobody else use. An answer
    /// goes to this gateway or nowhere: another one would believe it.
    func receive(_ incoming: Incoming) async {
        let message = incoming.message
        guard let reply = message.reply,
            let name = message.subject.split(separator: ".").last.map({ String($0) }),
            RelayTable.isGateway(name), reply.hasPrefix("\(Self.inbox).\(name).")
        else { return }
        numbers.requests += 1
        let request: RelayRequest
        do throws(RelayRequest.Fault) {
            request = try RelayRequest(reading: message.payload)
        } catch {
            numbers.malformed += 1
            logger.warning("unreadable request", metadata: ["gateway": "\(name)"])
            let isOther = error == .version
            return await answer(
                reply, isOther ? .held(.requestRefused, retryAt: nil) : .malformed)
        }
        guard !request.points.isEmpty else { return await answerHealth(reply) }
        numbers.points += request.points.count
        let table = await table()
        var mine = Pending(points: [], known: [], reply: reply)
        for point in request.points {
            if let patient = point.patient, table.allows(name, patient) {
                mine.points.append(point)
                mine.known.append(nil)
            } else {
                mine.known.append(
                    EntryAnswer(
                        .held(.wrongPatient), status: 403,
                        diagnostics:
                            "the relay's table does not let this gateway write for this patient"
                    ))
            }
        }
        let refused = request.points.count - mine.points.count
        if refused > 0 {
            numbers.forbidden += refused
            logger.warning(
                "a gateway wants to write for a patient that the table does not give it",
                metadata: ["gateway": "\(name)"])
        }
        guard !mine.points.isEmpty else {
            return await answer(reply, .entries(mine.known.compactMap(\.self)))
        }
        lastJob += 1
        let job = RelayBatcher.Job(
            id: lastJob, gateway: name, points: mine.points.count, isAlone: request.isAlone,
            received: incoming.read,
            latest: RelayPatience.latestBegin(incoming.departure, patience: request.patience))
        switch batcher.admit(job, clock.read().uptime) {
        case .busy(let pause):
            numbers.busy += 1
            await answer(reply, .throttled(retryAfter: pause))
        case .waits:
            pending[job.id] = mine
            await schedule()
        }
    }

    /// Says whether the exchange works. It is asked in a task of its own, so that no request waits for that; who wants to
    /// know meanwhile gets the same answer. An older one may be from before the exchange fell silent, and a gateway would
    /// send again what is still under way.
    private func answerHealth(_ reply: String) async {
        if let health, clock.read().uptime - health.at < Self.healthAge {
            return await answer(reply, Self.answer(health.isWell))
        }
        guard askers.count < Self.inflowMax else {
            return await answer(reply, .throttled(retryAfter: Self.soon))
        }
        askers.append(reply)
        guard question == nil else { return }
        question = Task {
            while !askers.isEmpty {
                let isWell = await asker?.isHealthy() ?? false
                health = (isWell, clock.read().uptime)
                let replies = askers
                askers = []
                for reply in replies { await answer(reply, Self.answer(isWell)) }
            }
            question = nil
        }
    }

    private static func answer(_ isWell: Bool) -> DeliveryAnswer {
        isWell ? .entries([]) : .unclear("exchange")
    }

    func answer(_ reply: String, _ answer: DeliveryAnswer) async {
        let bytes = RelayAnswer(answer, clock.read().uptime).bytes
        var fault = await connection.publish(bytes, to: reply)
        // The connection that the request came by has ended: any other one reaches its gateway as well.
        if fault == .connect, numbers.connectionFault == nil {
            fault = await connection.open()
            numbers.connectionFault = fault?.description
            if fault == nil { fault = await connection.publish(bytes, to: reply) }
        }
        if let fault {
            logger.info("answer a gateway", metadata: ["fault": "\(fault)"])
        }
    }

    func turnAway(_ id: Int) async {
        guard let pending = pending.removeValue(forKey: id) else { return }
        await answer(pending.reply, .throttled(retryAfter: Self.soon))
    }
}
