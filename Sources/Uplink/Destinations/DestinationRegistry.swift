import Basics

/// The kinds of destinations that a person can add. An exchange is not among them: it is enrolled at.
public enum DestinationRegistry {
    /// One line a kind.
    public static let kinds: [any DestinationKind.Type] = [
        CloudCareKind.self,
        FHIRKind.self,
        FileKind.self,
        FirebaseKind.self,
        InfluxKind.self,
        MQTTKind.self,
        NATSKind.self,
        PostgRESTKind.self,
        WebhookKind.self,
    ]

    /// The places for a person to look at while deliveries to an HTTP server fail, an exchange's too.
    public static let faultRemedy = "check network, DNS, proxy and firewall"

    /// The kind of this name.
    public static func kind(_ name: String) throws(DestinationProblem) -> any DestinationKind.Type {
        if let kind = kinds.first(where: { $0.name == name }) { return kind }
        throw DestinationProblem(
            "there is no such kind of destination"
                + Nearest.guess(name, among: kinds.map { $0.name }),
            "the kinds are \(kinds.map { $0.name }.joined(separator: ", "))")
    }

    /// A destination of this kind with these settings, secrets included.
    public static func destination(
        _ kind: String, _ settings: [String: String]
    ) throws(DestinationProblem) -> any DestinationKind {
        let type = try Self.kind(kind)
        return try type.init(SettingValues(settings, for: type.fields))
    }
}
