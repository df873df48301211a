import Basics
import OfflineQueue

/// A relay behind NATS servers, which delivers to the exchange: the gateway holds no token (docs/operate/relay.md).
public struct NATSKind: DestinationKind {
    let servers: [ServerAddress]
    let gateway: String
    let key: NKey
    let ownPatient: String?

    public static let name = "nats"
    public static let isUnderName = true
    public static let summary =
        "a relay that delivers to the exchange, so that the gateway holds no token"
    public static let fields = [
        SettingField(
            "url", "the NATS servers, with commas between, such as tls://nats-1.example:4222"),
        SettingField("gateway", "the name that the servers and the relay know this gateway by"),
        SettingField(
            "seed", isSecret: true, "its NKEY seed, as edge-gateway relay key makes it: seed=@FILE"),
        SettingField(
            "patient", .optional,
            "the patient of straps that are paired without one, by the exchange's identifier"),
    ]
    public static let promise = DeliveryPromise(
        level: .durable, mayRepeat: false, mayRace: true,
        words: "the exchange has the sample: the relay hands its answer back")

    /// As to the exchange itself. After an unclear outcome the samples rest until nothing of the request can be
    /// at the relay or at the exchange any more.
    public static let pace = DestinationPace(
        shortestInterval: DeliverySettings.exchangeInterval,
        resendPause: RelayPatience.resendPause)
    public static let leadsToExchange = true

    /// The relay answers, through servers that may be there without it.
    public static var faultRemedy: String {
        "see that the relay and the NATS servers run, and check network, DNS and firewall on the way to them"
    }

    public static func remedy(_ reason: HoldReason) -> String? {
        switch reason {
        case .credentialsRefused:
            "the servers' operator lists this gateway's public key (edge-gateway relay key --show FILE)"
        case .forbidden:
            "the servers' operator lets this key publish heart-rate.GATEWAY and subscribe "
                + "_INBOX.GATEWAY.>"
        case .wrongPatient:
            "at the relay: edge-gateway relay allow GATEWAY PATIENT; and the patient and the relay's "
                + "practitioner share an organization"
        case .patientUnknown:
            "pair the strap with --patient ID, the patient's number at the exchange; what waits without one goes "
                + "out when the destination is added again with --replace and patient=ID; if the number is "
                + "right, ask the exchange's operator"
        case .deviceUnknown, .deviceNotChosen:
            "the relay's operator sets exchange.device to one that the exchange knows, or the study's "
                + "staff give the study such a personal device"
        case .enrollAgain:
            "the relay's practitioner key is no longer taken: its operator replaces it"
        case .requestRefused: "the relay is of another version: update it or this gateway"
        default: nil
        }
    }

    public init(_ values: SettingValues) throws(DestinationProblem) {
        let url = values.text("url") ?? ""
        guard !url.contains("@") else {
            throw DestinationProblem(
                "url holds more than addresses", "the seed has its own setting")
        }
        guard let servers = ServerAddress.list(url, .nats) else {
            throw DestinationProblem(
                "url is no list of NATS servers",
                "such as tls://nats-1.example:4222,tls://nats-2.example:4222")
        }
        guard let key = values.secret("seed").flatMap({ NKey($0.revealed) }) else {
            throw DestinationProblem(
                "seed is no user's NKEY seed",
                "make one: edge-gateway relay key FILE; then seed=@FILE")
        }
        self.servers = servers
        self.key = key
        gateway = try values.name("gateway", and: "-_")
        ownPatient = values.text("patient")
        if let ownPatient, !PatientAccess.isExchangeID(ownPatient) {
            throw DestinationProblem(
                "patient is no identifier", "the exchange's are numbers, such as 40001")
        }
    }

    public var place: String { servers.map(\.description).joined(separator: ",") }

    public var patientIdentity: PatientIdentity { .id }

    public var example: String {
        let bytes = RelayRequest([.example]).bytes ?? []
        return "\(subject)\n    " + String(decoding: bytes, as: UTF8.self)
    }

    public func make(_ parts: DestinationParts) -> any Destination { destination(parts) }

    var subject: String { "\(Relay.subject).\(gateway)" }

    private func destination(_ parts: DestinationParts) -> NATSDestination {
        NATSDestination(self, patient: ownPatient ?? parts.patient, parts)
    }

    func settings(_ network: CurlSettings) -> NATSSettings {
        NATSSettings(
            servers: servers, name: "edge-gateway \(gateway)", key: key,
            inbox: "\(Relay.inbox).\(gateway)", network: network)
    }

    public func probe(
        _ parts: DestinationParts
    ) async throws(DestinationProblem) -> ProbeReport {
        var parts = parts
        // A person waits.
        parts.network.totalTimeout = parts.network.connectTimeout
        let destination = destination(parts)
        let answer = await destination.deliver([], alone: false)
        let fault = await destination.fault
        await destination.finish()
        guard answer == .entries([]) else {
            throw DestinationProblem(fault ?? "the relay answers: \(answer.word)", advice(answer))
        }
        let trust = servers.allSatisfy(\.isSecure) ? ", which has a trusted certificate" : ""
        return ProbeReport(
            checked: [
                "a NATS server takes this gateway's key\(trust)",
                "a relay answers, and the exchange behind it works",
            ],
            unchecked: ["whether the relay's table lets this gateway write for its patients"])
    }

    private func advice(_ answer: DeliveryAnswer) -> String {
        switch answer {
        case .held(let reason, _): Self.remedy(reason) ?? reason.remedy
        case .notSent:
            "check url, the network, the certificate's authority (uplink.ca_file), and that a relay runs"
        case .unclear: "look at the relay's health page: the exchange does not answer it"
        default: "look at the relay's log, and that this key may subscribe _INBOX.\(gateway).>"
        }
    }
}
