import Basics
import Foundation

/// Reads the gateways' states at a broker: first what it has retained, then what comes.
public actor BrokerWatch {
    private let thread = TaskThread(label: "broker-watch")
    public nonisolated var unownedExecutor: UnownedSerialExecutor {
        thread.asUnownedSerialExecutor()
    }

    /// The broker without secrets, such as `mqtts://broker.example:8883`.
    public nonisolated let place: String
    /// The beginning of the topics.
    public nonisolated let prefix: String

    private let kind: MQTTKind
    private let settings: BrokerSettings
    private let topic: BrokerTopic
    private let now: @Sendable () -> Date
    private var client: MosquittoClient?
    private var states: BrokerStates
    private var lastMessage = ContinuousClock.now
    private var isNew = false

    /// A broker hands on what it retains in one go. Nothing marks its end; after such a silence it is over.
    static let quietTime = Duration.seconds(1)
    /// For all that it retains, however slow the network.
    static let readTimeout = Duration.seconds(30)
    /// Beside a report a packet has a topic, 64 KiB at most, and properties.
    private static let packetBytesMax = UInt32(BrokerStates.reportBytesMax + 128 << 10)
    /// Packets read at a time while nothing is waited for: two of each gateway.
    private static let lookMax = 2 * BrokerStates.gatewaysMax

    /// - Parameters:
    ///   - values: settings of a destination of the kind `mqtt`: `url`, `prefix`, `user`, `password`.
    ///   - topic: what of each gateway is read.
    ///   - network: authorities, client certificate, timeouts, and whether plain text is acceptable.
    ///   - now: the wall clock, by which each report has the time at which it was read.
    /// - Throws: ``DestinationProblem`` with what is wrong with them.
    public init(
        _ values: [String: String], reads topic: BrokerTopic = .health, network: CurlSettings,
        now: @escaping @Sendable () -> Date = { Date() }
    ) throws(DestinationProblem) {
        var values = values
        // Two clients of one name send each other away.
        let name = "fleet-" + String(UInt64.random(in: 0 ... .max), radix: 36)
        values["gateway"] = name
        values["version"] = MQTTVersion.five.rawValue
        kind = try MQTTKind(SettingValues(values, for: MQTTKind.fields))
        place = kind.place
        prefix = kind.topics.prefix
        settings = kind.settings(network)
        guard settings.address.isAllowed(network.plainHTTP) else {
            throw DestinationProblem(
                kind.problem(.fault(.plainHTTPRefused)).message,
                "use mqtts://; --allow-plain-http permits mqtt:// where it is safe")
        }
        self.topic = topic
        states = BrokerStates(prefix: prefix, reads: topic)
        self.now = now
    }

    /// The present reports of the broker. Connects if there is no connection.
    ///
    /// - Throws: ``DestinationProblem`` while the broker does not answer or refuses.
    public func read() throws(DestinationProblem) -> BrokerStates {
        if let client {
            for _ in 0..<Self.lookMax where client.session.end == nil {
                let before = lastMessage
                client.look()
                if lastMessage == before { break }
            }
            if client.session.end == nil { return states }
            self.client = nil
        }
        try connect()
        return states
    }

    /// Reads what comes until a person would see something new, or for this long.
    public func wait(for limit: Duration) async {
        let end = ContinuousClock.now + limit
        guard let client else {
            await UptimeClock.system.sleep(limit, tolerance: .zero)
            return
        }
        isNew = false
        // Many gateways publish at any time: what comes within a moment is one change.
        let soon = min(end, .now + Self.quietTime)
        client.listen { ContinuousClock.now >= (isNew ? soon : end) }
        if client.session.end != nil {
            self.client = nil
            // Not again at once: the broker may be one that sends us away.
            await UptimeClock.system.sleep(min(limit, .seconds(2)))
        }
    }

    private func connect() throws(DestinationProblem) {
        let trial = MosquittoClient.connect(settings)
        if let end = trial.session.end { throw problem(end) }
        trial.leave()
        var settings = settings
        settings.packetBytesMax = Self.packetBytesMax
        let client = MosquittoClient(settings, isIPv4: trial.isIPv4)
        client.run(for: settings.network.connectTimeout) { $0.state != .opening }
        states = BrokerStates(prefix: prefix, reads: topic)
        client.received = { [weak self] message in self?.assumeIsolated { $0.note(message) } }
        // One after the other: a broker drops what does not fit its queue for a client.
        for topic in ["status", topic.rawValue] where client.session.end == nil {
            client.subscribe("\(prefix)/+/\(topic)", for: settings.network.connectTimeout)
            lastMessage = .now
            let end = lastMessage + Self.readTimeout
            client.listen {
                ContinuousClock.now >= min(end, lastMessage + Self.quietTime)
            }
        }
        if let end = client.session.end { throw problem(end) }
        self.client = client
    }

    /// The remedy, for a person at the screen.
    private func problem(_ end: MQTTSession.End) -> DestinationProblem {
        var problem = kind.problem(end)
        switch end {
        case .refused(let reason) where reason.meaning == .unauthorized:
            problem.advice = "give --user and --password-file as the broker knows them"
        case .refused(let reason) where reason.meaning == .held(.forbidden):
            problem.advice =
                "the broker's rules let this user read \(prefix)/+/status and "
                + "\(prefix)/+/\(topic.rawValue)"
        case .refused(let reason) where reason.code == 132:
            problem.advice = "use a broker that knows MQTT 5"
        case .fault(.dns): problem.advice = "check the host in --mqtt, and the name server"
        case .fault(.tls(.unknownIssuer)), .fault(.tls(.selfSigned)), .fault(.tls(.authorityFile)):
            problem.advice = "name the certificate of the broker's authority with --ca-file"
        case .fault(.tls(.wrongHost)):
            problem.advice = "give in --mqtt the name that the certificate is for"
        case .fault(.tls(.clientCertificate)):
            problem.advice = "check --client-certificate-file and --client-key-file"
        default: break
        }
        return problem
    }

    private func note(_ message: MQTTMessage) {
        lastMessage = .now
        if states.note(message, at: now()) { isNew = true }
    }
}
