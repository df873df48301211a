import Basics

/// An address that is called while all flows, at somebody who tells people when the calls stay away.
public struct SignOfLife: AlertKind {
    private let alive: SecretAddress
    private let failure: SecretAddress?
    /// From one call to the next.
    public let every: Duration

    /// Each minute to once a day.
    private static let range = Duration.seconds(60)...Duration.seconds(86_400)

    public static let name = "sign-of-life"
    public static let summary =
        "an address that is called while heartbeats flow (healthchecks.io and the like)"
    public static let fields = [
        SettingField(
            "url", isSecret: true,
            "the address that is called (GET) while heartbeats flow, such as https://hc-ping.com/UUID"
        ),
        SettingField(
            "failure", .optional, isSecret: true,
            "the address that is called while no heartbeats flow, such as https://hc-ping.com/UUID/fail"
        ),
        SettingField("every", .standard("5m"), "the time between two calls: 1m to 1d"),
    ]

    public init(_ values: SettingValues) throws(DestinationProblem) {
        alive = try values.secretAddress("url")
        failure = try values.secretAddressIfAny("failure")
        guard let every = values.text("every").flatMap({ Duration(written: $0) }),
            Self.range.contains(every)
        else {
            throw DestinationProblem("every is not a time from 1m to 1d", "such as every=5m")
        }
        self.every = every
    }

    public var place: String { alive.shown }

    /// Whether there is an address to call while heartbeats do not flow.
    public var hasFailureAddress: Bool { failure != nil }

    /// Says that heartbeats flow.
    public func callAlive(_ parts: AlertParts) async throws(AlertFault) {
        try await parts.send(alive.request())
    }

    /// Says that they do not.
    public func callFailure(_ parts: AlertParts) async throws(AlertFault) {
        guard let failure else { return }
        try await parts.send(failure.request())
    }
}
