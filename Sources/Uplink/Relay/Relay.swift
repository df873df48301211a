import Basics
import Foundation
import Logging
import OfflineQueue

/// How a relay is set up.
public struct RelaySettings: Sendable {
    /// The servers of the cluster, one to which it connects.
    public var servers: [NATSAddress]
    /// Who it is there.
    public var key: NKey
    /// How these servers are reached.
    public var network: CurlSettings
    /// The exchange.
    public var origin: Origin
    /// The practitioner's key there, the base64 of `client id:client secret`.
    public var practitionerKey: Secret
    /// How the exchange is reached.
    public var curl: CurlSettings
    /// The device that data are attributed to; nil where the exchange leaves no choice.
    public var device: String?
    /// The code of heart rates; nil to ask the exchange about each patient.
    public var code: ObservationCode?
    /// The system of the identifiers: that of the gateways, so that what one has delivered itself is known.
    public var identifierSystem: String
    /// Requests to the exchange at a time.
    public var workers: Int

    /// Does not check the keys: a wrong one shows when it is used.
    public init(
        servers: [NATSAddress], key: NKey, network: CurlSettings, origin: Origin,
        practitionerKey: Secret, curl: CurlSettings, device: String?, code: ObservationCode?,
        identifierSystem: String, workers: Int
    ) {
        self.servers = servers
        self.key = key
        self.network = network
        self.origin = origin
        self.practitionerKey = practitionerKey
        self.curl = curl
        self.device = device
        self.code = code
        self.identifierSystem = identifierSystem
        self.workers = workers
    }
}

/// What a relay has done since it started, and how it is.
public struct RelayFacts: Sendable, Hashable {
    /// Requests that came.
    public var requests = 0
    /// Data points in them.
    public var points = 0
    /// Requests that could not be read.
    public var malformed = 0
    /// Data points that their gateway may not write.
    public var forbidden = 0
    /// Requests that were turned away because there was too much work.
    public var busy = 0
    /// Requests that were too old when a worker was free, or before they were whole at the exchange.
    public var expired = 0
    /// How often this process or its network stood still, and it connected anew because of that.
    public var stalls = 0
    /// Requests to the exchange.
    public var bundles = 0
    /// Of them, those that were halved.
    public var halved = 0
    /// Data points that the exchange has stored.
    public var stored = 0
    /// Data points that it had already.
    public var storedBefore = 0
    /// Data points that were not taken, for any reason.
    public var notTaken = 0
    /// Requests that wait.
    public var waiting = 0
    /// Workers that send.
    public var busyWorkers = 0
    /// Whether it listens at a NATS server.
    public var isListening = false
    /// Why it does not; nil while it does.
    public var connectionFault: String?
    /// Why the last request to the exchange stored nothing; nil after one that did.
    public var exchangeFault: String?

    /// Nothing done.
    public init() {}

    /// Whether it is well: it listens, and the exchange takes what comes.
    public var isWell: Bool { isListening && exchangeFault == nil }
}

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
    private struct Pending {
        /// What its gateway may write.
        var points: [OutgoingPoint]
        /// The answers that are known already, in the order of the request; nil for a point above.
        var known: [EntryAnswer?]
        var reply: String
    }

    private let settings: RelaySettings
    private let connection: NATSConnection
    private let table: @Sendable () async -> RelayTable
    private let clock: any GatewayClock
    private let logger: Logger
    private let tokens: RenewingTokens?
    private var batcher: RelayBatcher
    /// A worker each: an exchange's client with a connection of its own.
    private var workers: [ExchangeDestination] = []
    private var idle: [Int] = []
    private var pending: [Int: Pending] = [:]
    private var lastJob = 0
    private var numbers: RelayFacts
    private var straps: [StrapDatasheet: Int64] = [:]
    private var alarm: Task<Void, Never>?
    private var isEnding = false
    private var emptied: CheckedContinuation<Void, Never>?
    private var health: (isWell: Bool, at: Uptime)?

    /// What gateways send to: this and their name.
    static let subject = "heart-rate"
    /// What the answers to a gateway come below: this and its name.
    static let inbox = "_INBOX"
    /// The queue group of all relays of a clinic: each request goes to one of them.
    static let queue = "relay"
    /// How many different strap datasheets are remembered at a time.
    private static let strapsMax = 64
    /// Messages that wait to be looked at. Beyond them the newest is lost, and its gateway sends it again.
    private static let inflowMax = 4_096
    /// How old an answer about the exchange's health may be that a gateway gets.
    private static let healthAge = Duration.seconds(5)
    /// An answer of 500 that comes sooner is about what was sent: a worker that is killed takes 30 s.
    private static let poisonMax = Duration.seconds(5)
    /// Between two attempts to connect.
    private static let connectPause = (
        first: Duration.milliseconds(200), longest: Duration.seconds(5)
    )
    /// Between two questions to the NATS server that show how old what it sends can be.
    private static let askPause = Duration.milliseconds(250)
    /// A gateway that was not served asks again after this.
    private static let soon = Duration.seconds(1)

    /// A relay that is not running yet; `table` gives who may write for whom, as it is when it is called.
    public init(
        _ settings: RelaySettings, clock: any GatewayClock, logger: Logger,
        table: @escaping @Sendable () async -> RelayTable
    ) {
        self.settings = settings
        self.table = table
        self.clock = clock
        self.logger = logger
        numbers = RelayFacts()
        batcher = RelayBatcher(workers: settings.workers)
        connection = NATSConnection(
            NATSSettings(
                servers: settings.servers, name: "edge-gateway relay", key: settings.key,
                inbox: "\(Self.inbox).relay", network: settings.network))
        tokens = Self.record(settings).map { record in
            let transport = CurlTransport(settings.curl)
            return RenewingTokens(record: record, clock: clock, logger: logger) { _ in
                // Nothing to keep: the key brings the next token.
            } issuer: {
                GrantClient(transport: transport, origin: $0.origin, clock: clock)
            }
        }
        guard let tokens else { return }
        let terms = Self.terms(settings)
        for _ in 0..<max(1, settings.workers) {
            guard
                let worker = ExchangeDestination(
                    terms: terms, tokens: tokens, transport: CurlTransport(settings.curl),
                    clock: clock, logger: logger, isDeviceChosen: settings.device != nil)
            else { continue }
            idle.append(workers.count)
            workers.append(worker)
        }
    }

    /// Nil if the key is malformed.
    private static func record(_ settings: RelaySettings) -> TokenRecord? {
        guard let data = Data(base64Encoded: settings.practitionerKey.revealed),
            let text = String(data: data, encoding: .utf8), let colon = text.firstIndex(of: ":")
        else { return nil }
        let clientID = String(text[..<colon])
        return TokenRecord(
            origin: settings.origin, clientID: clientID,
            credential: .practitionerKey(
                clientID: clientID, secret: Secret(String(text[text.index(after: colon)...]))),
            pair: .spent)
    }

    private static func terms(_ settings: RelaySettings) -> EnrollmentTerms {
        EnrollmentTerms(
            name: "relay", kind: .practitionerKey, origin: settings.origin.description,
            fhirBase: settings.origin.description + String(ExchangeReader.fhirBases[0].dropLast()),
            device: settings.device, codeSystem: settings.code?.system, code: settings.code?.code,
            identifierSystem: settings.identifierSystem)
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
                try? await Task.sleep(for: backoff.next(using: &random))
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
        await tokens?.finish()
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
            try? await Task.sleep(for: Self.askPause)
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
        guard !isEnding else { return await answer(reply, .throttled(retryAfter: Self.soon)) }
        guard !request.points.isEmpty else { return await answer(reply, healthAnswer()) }
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

    private func healthAnswer() async -> DeliveryAnswer {
        guard let worker = workers.first else { return .held(.enrollAgain, retryAt: nil) }
        let now = clock.read().uptime
        if let health, now - health.at < Self.healthAge {
            return health.isWell ? .entries([]) : .unclear("exchange")
        }
        // Others that ask meanwhile get the old answer.
        health = (health?.isWell ?? true, now)
        let isWell = await worker.isHealthy()
        health = (isWell, clock.read().uptime)
        return isWell ? .entries([]) : .unclear("exchange")
    }

    private func answer(_ reply: String, _ answer: DeliveryAnswer) async {
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

    private func turnAway(_ id: Int) async {
        guard let pending = pending.removeValue(forKey: id) else { return }
        await answer(pending.reply, .throttled(retryAfter: Self.soon))
    }

    // MARK: - Bundles

    /// Gives work to the workers that have none, and turns away what is too old.
    private func schedule() async {
        let now = clock.read().uptime
        for job in batcher.expired(now) {
            numbers.expired += 1
            await turnAway(job.id)
        }
        alarm?.cancel()
        alarm = nil
        while true {
            switch batcher.next(clock.read().uptime) {
            case .wait(let until):
                if let until, !isEnding { wake(at: until) }
                return
            case .send(let jobs):
                guard let worker = idle.popLast() else {
                    // There are as many workers as the batcher counts, unless the key is malformed.
                    batcher.finished(jobs, took: nil)
                    for job in jobs {
                        guard let one = pending.removeValue(forKey: job.id) else { continue }
                        await answer(one.reply, .held(.enrollAgain, retryAt: nil))
                    }
                    continue
                }
                Task {
                    let took = await send(jobs, by: workers[worker])
                    idle.append(worker)
                    batcher.finished(jobs, took: took)
                    await schedule()
                    if isEnding, pending.isEmpty {
                        emptied?.resume()
                        emptied = nil
                    }
                }
            }
        }
    }

    private func wake(at time: Uptime) {
        let pause = max(.milliseconds(1), time - clock.read().uptime)
        alarm = Task {
            try? await Task.sleep(for: pause)
            if !Task.isCancelled { await schedule() }
        }
    }

    /// Sends a bundle, in halves if it fails as a whole, and answers all of its requests.
    ///
    /// - Returns: how long the exchange took for one, at most.
    private func send(
        _ jobs: [RelayBatcher.Job], by worker: ExchangeDestination
    ) async -> Duration? {
        var bisection = RelayBisection(jobs)
        var failure: DeliveryAnswer?
        var longest: Duration?
        while true {
            let now = clock.read().uptime
            for job in bisection.drop({ $0.latest < now }) {
                numbers.expired += 1
                await conclude(job, failure ?? .throttled(retryAfter: Self.soon), from: 0)
            }
            guard let part = bisection.next else { return longest }
            let points = part.flatMap { pending[$0.id]?.points ?? [] }.map(told)
            let began = clock.read().uptime
            let latest = part.map(\.latest).min() ?? now
            let answer = await worker.deliver(
                points, alone: part[0].isAlone && points.count == 1
            ) { [clock] in clock.read().uptime <= latest }
            // The time above is some time ago: a token was fetched, a connection made, or this process stood still.
            guard let answer else { continue }
            let took = clock.read().uptime - began
            longest = max(longest ?? .zero, took)
            numbers.bundles += 1
            numbers.exchangeFault = await worker.fault
            var isToBeHalved = part.count > 1
            if isToBeHalved { isToBeHalved = await isAboutContent(answer, took, worker) }
            if isToBeHalved {
                numbers.halved += 1
                failure = answer
            }
            var first = 0
            for job in bisection.answered(isToBeHalved: isToBeHalved) {
                let count = pending[job.id]?.points.count ?? 0
                await conclude(job, answer, from: first)
                first += count
            }
        }
    }

    /// Whether the answer is about what was sent, and nothing of it is under way: then each request is better
    /// off by itself. An exchange that does not work at all says 500 too.
    private func isAboutContent(
        _ answer: DeliveryAnswer, _ took: Duration, _ worker: ExchangeDestination
    ) async -> Bool {
        switch answer {
        case .malformed, .tooLarge, .held(.requestRefused, _): true
        case .unclear("500"): took < Self.poisonMax ? await worker.isHealthy() : false
        default: false
        }
    }

    /// Answers one request of a bundle.
    ///
    /// - Parameter first: where its entries begin in the answer.
    private func conclude(
        _ job: RelayBatcher.Job, _ whole: DeliveryAnswer, from first: Int
    ) async {
        guard let one = pending.removeValue(forKey: job.id) else { return }
        guard case .entries(let all) = whole, all.count >= first + one.points.count else {
            numbers.notTaken += one.points.count
            return await answer(one.reply, whole)
        }
        var entries = all[first..<first + one.points.count].makeIterator()
        let mine = one.known.compactMap { $0 ?? entries.next() }
        for entry in mine {
            switch entry.verdict {
            case .stored: numbers.stored += 1
            case .storedBefore: numbers.storedBefore += 1
            case .held, .refused, .notWanted, .unclear: numbers.notTaken += 1
            }
        }
        await answer(one.reply, .entries(mine))
    }

    /// The point with a number for its strap that means the same in requests of all gateways: what is the same in
    /// all data points of a kind of strap is then written once.
    private func told(_ point: OutgoingPoint) -> OutgoingPoint {
        if straps.count >= Self.strapsMax, straps[point.strap] == nil { straps = [:] }
        let number = straps[point.strap] ?? Int64(straps.count + 1)
        straps[point.strap] = number
        var told = point
        told.sensorID = number
        return told
    }
}
