import Basics
import OfflineQueue

/// Delivery to a broker: one connection that stays, a round of messages a batch, each acknowledged.
actor MQTTDestination: Destination {
    private let kind: MQTTKind
    private let connection: MQTTConnection
    private let clock: any GatewayClock
    private let settings: BrokerSettings
    private var stateMessages: MQTTStateMessages?
    /// The gateway's state as it was last to be shown.
    private var state: GatewayState?
    /// Whether the last connection ended while the state was shown: a broker may end one for a topic that its
    /// rules forbid.
    private var showingBroke = false
    private var writer: MQTTWriter
    /// The number of the connection over which the gateway said that it is online.
    private var greeted = 0
    private var upkeep: Task<Void, Never>?
    private var rivalry = NameRivalry()
    /// When the connection began; nil after its end was noted.
    private var opened: Uptime?
    /// Whether the broker itself refused or ended the last connection.
    private var isDismissed = false
    /// Why the last attempt delivered nothing; nil after one that did.
    private(set) var fault: String?
    /// Why the gateway's state is not shown; nil while it is.
    private(set) var partialFault: String?

    /// Well below ``MosquittoClient/keepAlive``, which the library looks at only when it is called.
    static let tendPause = Duration.seconds(20)

    /// - Parameter state: the messages of the gateway's state; nil if it is not shown.
    init(
        _ kind: MQTTKind, _ settings: BrokerSettings, _ writer: MQTTWriter,
        state: MQTTStateMessages?, _ clock: any GatewayClock
    ) {
        self.kind = kind
        showsState = state != nil
        stateMessages = state
        var settings = settings
        settings.will = writer.will
        self.settings = settings
        connection = MQTTConnection(settings)
        self.clock = clock
        self.writer = writer
        self.writer.begin(clock.read())
    }

    deinit { upkeep?.cancel() }

    nonisolated let showsState: Bool

    nonisolated var mayRace: Bool { MQTTKind.promise.mayRace }

    func mayTakeIntervals() async -> Bool { true }

    func deliver(_ points: [OutgoingPoint], alone: Bool) async -> DeliveryAnswer {
        if let end = await openOrSay() {
            return MQTTOutcome(codes: [], wasSent: false, end: end)
                .answer(count: points.count, isAlone: alone)
        }
        let outcome = await publish(writer.messages(points, clock.read()))
        note(outcome.firstRefusal)
        return outcome.answer(count: points.count, isAlone: alone && points.count == 1)
    }

    func finish() async {
        upkeep?.cancel()
        await connection.close()
    }

    // MARK: - The connection

    /// Opens the connection, if there is none, and says that the gateway is online.
    private func open() async -> MQTTSession.End? {
        if let end = await connection.tend() { connectionEnded(end) }
        guard await isNameFree() else { return .nameTaken }
        switch await connection.open() {
        case .failure(let failure): return failure.end
        case .success(greeted): return nil
        case .success(let number):
            opened = clock.read().uptime
            if let end = await publish(writer.greeting()).firstRefusal { return end }
            greeted = number
            stateMessages?.begin()
            keep()
            // Samples must not wait for what the broker may not like.
            if !showingBroke { await publishState() }
            return nil
        }
    }

    /// Publishes messages, and notes what the broker took and why the connection ended.
    private func publish(
        _ messages: [MQTTMessage], isState: Bool = false
    ) async -> MQTTOutcome {
        let outcome = await connection.publish(messages)
        writer.note(messages, outcome.codes)
        // A broker may cut a connection for a topic of the state that its rules forbid.
        if let end = outcome.end, !isState || end != .fault(.cut) { connectionEnded(end) }
        return outcome
    }

    /// Notes why and after how long a connection ended.
    private func connectionEnded(_ end: MQTTSession.End) {
        guard let began = opened else { return }
        opened = nil
        let now = clock.read().uptime
        switch end {
        case .refused(let reason) where reason.code == MQTTReason.takenOver:
            rivalry.ended(after: now - began, isTakenOver: true, now)
        // Without a status at the broker there is nothing to ask for.
        case .fault(.cut) where writer.will != nil:
            rivalry.ended(after: now - began, isTakenOver: false, now)
        case .refused, .fault, .nameTaken: break
        }
    }

    /// Whether no other client has the gateway's name at the broker, as far as is known.
    private func isNameFree() async -> Bool {
        guard rivalry.isSuspected else { return true }
        let now = clock.read().uptime
        guard now >= rivalry.nextLook else { return false }
        rivalry.looked(await look() ?? .offline, now)
        return !rivalry.isSuspected
    }

    /// Asks the broker whether a gateway of this name is online; nil if the broker does not answer. It asks under
    /// another identifier: with its own it would send away whom it asks about.
    private func look() async -> NameRivalry.Look? {
        guard let status = writer.will?.topic else { return .unknown }
        var settings = settings
        settings.will = nil
        settings.clientID += "-probe"
        let other = MQTTConnection(settings)
        switch await other.open() {
        case .success: break
        case .failure(let failure):
            guard case .fault = failure.end else { return .unknown }
            return nil
        }
        // The will of a connection that has just ended may be published only now.
        let online = Array("online".utf8)
        let said = await other.retained(status) { $0 != online }
        await other.close()
        return said.map { $0 == online ? .online : .offline } ?? .unknown
    }

    private func openOrSay() async -> MQTTSession.End? {
        let end = await open()
        note(end)
        return end
    }

    private func note(_ end: MQTTSession.End?) {
        fault = end?.words(at: kind.address)
        switch end {
        case .refused, .nameTaken: isDismissed = true
        case .fault, nil: isDismissed = false
        }
    }

    /// Keeps the connection, and with it the gateway's availability, between deliveries.
    private func keep() {
        guard upkeep == nil else { return }
        upkeep = Task { [weak self, clock] in
            while !Task.isCancelled {
                await clock.sleep(Self.tendPause)
                await self?.tend()
            }
        }
    }

    private func tend() async {
        if let end = await connection.tend() {
            connectionEnded(end)
            if case .refused = end { isDismissed = true }
        }
        // Whom the broker has sent away it does not want back before the next delivery.
        guard !isDismissed, !Task.isCancelled else { return }
        _ = await open()
    }

    // MARK: - The gateway's state

    func show(_ state: GatewayState) async {
        guard showsState else { return }
        self.state = state
        writer.names = Dictionary(state.straps.map { ($0.id, $0.name) }) { one, _ in one }
        let (connected, isLeftOut) = (greeted, showingBroke)
        if let end = await openOrSay() {
            partialFault = "the gateway's state is not shown: \(end.words(at: kind.address))"
        } else if greeted == connected || isLeftOut {
            await publishState()
        }
    }

    private func publishState() async {
        guard let state, let messages = stateMessages?.messages(state) else { return }
        let outcome = await publish(messages, isState: true)
        stateMessages?.note(messages, outcome.codes)
        showingBroke = outcome.end != nil
        let refused = zip(messages, outcome.codes).first { _, code in
            code.map { MQTTReason(.puback, $0).meaning != .stored } ?? false
        }
        partialFault = outcome.firstRefusal.map { end in
            "the gateway's state is not shown: "
                + (refused.map { "\($0.0.topic): " } ?? "") + end.words(at: kind.address)
        }
    }

    /// Takes away what the broker retains. Where it does not answer there are no words: what stays says that the gateway
    /// is gone.
    func withdraw(sensors: [Int64], for next: (any DestinationKind)?) async -> String? {
        var topics = kind.retained(sensors)
        if let next = next as? MQTTKind, next.address == kind.address {
            topics.subtract(next.retained(sensors))
        }
        guard !topics.isEmpty else { return nil }
        await connection.close()
        guard let other = await look() else { return nil }
        guard other != .online else {
            // Another one; or this one itself, until the broker notices that a connection broke.
            return
                "a gateway is online under this name at \(kind.address.shownHost), and what the broker "
                + "retains is taken to be its own"
        }
        // The same client without a will: the broker publishes that of the connection before first.
        var settings = settings
        settings.will = nil
        let last = MQTTConnection(settings)
        if case .success = await last.open() {
            _ = await last.publish(MQTTStateMessages.removals(topics))
        }
        await last.close()
        return nil
    }

    // MARK: - Looking around

    func isHealthy() async -> Bool { await openOrSay() == nil }

    func isMended(_ reason: HoldReason) async -> Bool {
        guard await openOrSay() == nil else { return false }
        let refusal = await publish(writer.probes).firstRefusal
        if refusal != nil { note(refusal) }
        return refusal == nil
    }
}

extension MQTTOutcome {
    /// The first refusal of a message, or the end of the connection; nil if all is well.
    var firstRefusal: MQTTSession.End? {
        for case let code? in codes {
            let reason = MQTTReason(.puback, code)
            if reason.meaning != .stored { return .refused(reason) }
        }
        return end
    }
}

extension MQTTSession.End {
    /// A description of the event for a person.
    func words(at address: ServerAddress) -> String {
        switch self {
        case .refused(let reason): "the broker answers \(reason)"
        case .nameTaken:
            "another client has this gateway's name at \(address.shownHost), and nothing is published"
        case .fault(.plainHTTPRefused):
            "a connection without TLS is refused to any host but this one"
        case .fault(.cut):
            "the server at \(address.shownHost):\(address.port) broke the connection"
        case .fault(let fault): fault.description(at: address.shownHost)
        }
    }
}
