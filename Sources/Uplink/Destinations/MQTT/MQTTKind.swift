import Basics
import OfflineQueue

/// A broker of MQTT 5 or 3.1.1: Home Assistant, ThingsBoard, Node-RED and whatever else subscribes.
public struct MQTTKind: DestinationKind {
    /// Whether the straps are described to Home Assistant.
    enum Discovery: String, CaseIterable {
        case on, off
    }

    /// Whether the gateway's state is published.
    enum Status: String, CaseIterable {
        case on, off
    }

    let address: ServerAddress
    let topics: MQTTTopics
    let format: MQTTFormat
    let version: MQTTVersion
    let discovery: Discovery
    let status: Status
    let clientID: String
    let user: String?
    let password: Secret?
    public let patientIdentity: PatientIdentity

    public static let name = "mqtt"
    public static let isUnderName = true
    public static let summary = "an MQTT broker: Home Assistant, ThingsBoard, Node-RED"
    public static let fields = [
        SettingField("url", "the broker, such as mqtt://127.0.0.1:1883 or mqtts://host.example"),
        SettingField(
            "gateway", "a name that no other gateway has at this broker; it is part of the topics"),
        SettingField("user", .optional, "the user at the broker; ThingsBoard's access token"),
        SettingField("password", .optional, isSecret: true, "that user's password"),
        SettingField("prefix", .standard("edge-gateway"), "what the topics begin with"),
        SettingField(
            "format", .standard("json"),
            "json (a message a sample), array (a message a batch) or thingsboard"),
        SettingField(
            "discovery", .standard("off"),
            "on: describe the gateway and its straps to Home Assistant below homeassistant/"),
        SettingField(
            "status", .standard("on"),
            "on: publish the gateway's health and the names of its straps, each minute and at "
                + "changes; not with format=thingsboard"),
        SettingField("version", .standard("5"), "5 or 3.1.1"),
        SettingField("client-id", .optional, "by default edge-gateway- and the gateway's name"),
        .patient,
    ]
    public static let promise = DeliveryPromise(
        level: .handedOver, mayRepeat: true, mayRace: false,
        words: "the broker acknowledged the message, also when nobody listens; a sample may come "
            + "twice: its id tells")

    /// A value in Home Assistant is as old as the last delivery.
    public static let pace = DestinationPace(interval: .seconds(5))

    /// A proxy for HTTP is not on the way.
    public static var faultRemedy: String {
        "see that the broker runs, and check network, DNS and firewall on the way to it"
    }

    public static func remedy(_ reason: HoldReason) -> String? {
        switch reason {
        case .credentialsRefused:
            "give the user and password that the broker knows; then add the destination again"
        case .forbidden:
            "the broker's rules let this user publish below PREFIX/GATEWAY/, and below homeassistant/ "
                + "with discovery=on; or the broker has banned it"
        case .notFound:
            "the broker refuses the topic, or has moved: add the destination with another prefix or url"
        case .planExceeded: "the broker's operator raises the quota of this user"
        case .requestRefused:
            "the broker does not take this client id, or knows no such version, retained messages or "
                + "message size: try another client-id, or version=3.1.1"
        case .nameTaken:
            "two gateways publish as one, as after a memory card was copied: on one of them add the "
                + "destination again with --replace and another gateway=NAME, and without the client-id of the other"
        default: nil
        }
    }

    public init(_ values: SettingValues) throws(DestinationProblem) {
        let url = values.text("url") ?? ""
        guard !url.contains("@") else {
            throw DestinationProblem(
                "url holds more than an address", "user and password have settings of their own")
        }
        guard let address = ServerAddress(url, .mqtt) else {
            throw DestinationProblem(
                "url is no address of a broker",
                "such as mqtt://127.0.0.1:1883 or mqtts://host.example")
        }
        self.address = address
        topics = MQTTTopics(
            prefix: try values.name("prefix", and: "_-./", lengthMax: 128),
            gateway: try values.name("gateway", and: "_-"))
        format = try values.choice("format")
        version = try values.choice("version")
        discovery = try values.choice("discovery")
        status = try values.choice("status")
        patientIdentity = try values.choice("patient")
        user = values.text("user")
        password = values.secret("password")
        clientID =
            values.text("client-id") == nil
            ? "edge-gateway-\(topics.gateway)"
            : try values.name("client-id", and: "_-.:@/", lengthMax: 128)
        if password != nil, user == nil {
            throw DestinationProblem(
                "there is a password and no user", "give the user that it belongs to")
        }
        if discovery == .on, format == .thingsboard {
            throw DestinationProblem(
                "ThingsBoard does not read Home Assistant's descriptions",
                "use discovery=off, or format=json for Home Assistant")
        }
    }

    public var place: String { "\(address)" }

    public var example: String {
        var writer = writer(patient: nil)
        let reading = ClockReading(
            uptime: .zero, wall: UTC(microseconds: 1_795_334_400_000_000), isTrusted: true)
        var messages = stateMessages
        let state = showsState ? messages.messages(.example) : []
        return (writer.greeting() + state + writer.messages([.example], reading)).map { message in
            "\(message.topic)\(message.isRetained ? " (retained)" : "")\n    "
                + String(decoding: message.payload, as: UTF8.self)
        }.joined(separator: "\n")
    }

    public func make(_ parts: DestinationParts) -> any Destination {
        let writer = writer(patient: parts.patient)
        return MQTTDestination(
            self, settings(parts.network), writer, state: showsState ? stateMessages : nil,
            parts.clock)
    }

    /// Where the broker retains something of this gateway and of these sensors.
    func retained(_ sensors: [Int64]) -> Set<String> {
        guard format != .thingsboard else { return [] }
        let describes = discovery == .on
        var all: Set = [topics.status]
        if showsState {
            all.formUnion([topics.health, topics.coverage])
            if describes { all.insert(topics.gatewayDiscovery) }
        }
        for sensor in sensors {
            all.formUnion(
                topics.retained(of: sensor, describes: describes, showsState: showsState))
        }
        return all
    }

    /// ThingsBoard keeps no messages.
    private var showsState: Bool { status == .on && format != .thingsboard }

    private var stateMessages: MQTTStateMessages {
        MQTTStateMessages(topics: topics, describes: discovery == .on)
    }

    private func writer(patient: String?) -> MQTTWriter {
        let identity = patientIdentity
        return MQTTWriter(
            topics: topics, format: format, describesSensors: discovery == .on
        ) { point in identity == .id ? point.patient ?? patient : nil }
    }

    func settings(_ network: CurlSettings) -> BrokerSettings {
        BrokerSettings(
            address: address, version: version, clientID: clientID, user: user, password: password,
            network: network)
    }

    public func probe(
        _ parts: DestinationParts
    ) async throws(DestinationProblem) -> ProbeReport {
        var settings = settings(parts.network)
        // With the identifier of a gateway that runs, the broker would send that one away.
        settings.clientID += "-probe"
        // A person waits.
        settings.network.totalTimeout = settings.network.connectTimeout
        let connection = MQTTConnection(settings)
        if case .failure(let failure) = await connection.open() {
            throw problem(failure.end)
        }
        let probes = writer(patient: nil).probes
        if let end = await connection.publish(probes).firstRefusal { throw problem(end) }
        await connection.close()
        let trust = address.isSecure ? " and has a trusted certificate" : ""
        return ProbeReport(
            checked: ["\(address) takes this client\(trust)"]
                + probes.map { "a message to \($0.topic) is acknowledged" },
            unchecked: version == .five
                ? []
                : [
                    "whether the broker's rules let this user publish: MQTT 3.1.1 has no answer for it"
                ])
    }

    func problem(_ end: MQTTSession.End) -> DestinationProblem {
        DestinationProblem(end.words(at: address), advice(end))
    }

    private func advice(_ end: MQTTSession.End) -> String {
        switch end {
        case .refused(let answer):
            switch answer.meaning {
            case .unauthorized: Self.remedy(.credentialsRefused) ?? ""
            case .held(let reason): Self.remedy(reason) ?? reason.remedy
            default: "look into the broker's log, and try again later"
            }
        case .nameTaken: Self.remedy(.nameTaken) ?? ""
        case .fault(.dns): "check the host in url, and this machine's name server"
        case .fault(.connect):
            "check host and port in url, the broker's listener and the firewall between"
        case .fault(.plainHTTPRefused):
            "use mqtts://, or set uplink.allow_plain_http where the network can be trusted"
        case .fault(.tls(.handshake)):
            "check the port: usually 8883 for mqtts://, 1883 for mqtt://"
        case .fault(.tls(.unknownIssuer)), .fault(.tls(.selfSigned)), .fault(.tls(.authorityFile)):
            "put the certificate of the broker's authority into the file that uplink.ca_file names"
        case .fault(.tls(.wrongHost)): "give in url the name that the certificate is for"
        case .fault(.tls(.clientCertificate)):
            "check uplink.client_certificate_file and uplink.client_key_file"
        case .fault(.tls): "ask the broker's operator for a valid certificate"
        case .fault:
            "check the port: another program may answer there, or the broker expects mqtts://"
        }
    }
}
