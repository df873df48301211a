import Foundation

// Health's part of the JSON contract (docs/api.yaml).

/// A condition that keeps the gateway from being well.
struct HealthItem: Codable, Equatable {
    /// Stable name, such as `radio-off`.
    var name: String
    /// `error`: heartbeats are lost or do not arrive; `warning`: a person acts before they stop.
    var severity: String
    /// By the wall clock, which may not be set: ``seconds`` is right all the same.
    var since: Date
    /// How long it has lasted, by the clock that runs since the machine started.
    var seconds: Double?
    /// The number of the sensor that it is about, if it is about one.
    var sensor: Int64?
    /// The names of the deliveries that it keeps from delivering, if it does: one cause may have stopped many.
    var deliveries: [String]?
    var message: String
    var advice: String
}

/// The present state of every frame, as counts. Two sums must hold: received = stored + undecodable + refused +
/// doubled, and stored = delivered + pending + held + dead + dropped.
struct BalanceReport: Codable, Equatable {
    var received: Int
    var stored: Int
    var undecodable: Int
    /// Frames that neither disk nor memory could take, by reason.
    var refused: [String: Int]
    /// Copies of frames, passed over: another program listens to the strap as well.
    var doubled = 0
    var delivered: Int
    var pending: Int
    /// By reason.
    var held: [String: Int]
    var dead: Int
    /// By policy that dropped them.
    var dropped: [String: Int]
    /// Frames in memory that the next commit writes; in none of the figures above.
    var buffered: Int
    var balanced: Bool
}

/// The whole state on one page.
struct StatusReport: Codable, Equatable {
    var gateway: GatewayIdentity
    var version: String
    var well: Bool
    var health: [HealthItem]
    var uptimeSeconds: Double
    var clockTrusted: Bool
    var sensors: [SensorReport]
    var enrollments: [EnrollmentReport]
    /// The destinations that a person has added.
    var destinations: [DestinationReport]
    var balance: BalanceReport
    var oldestUnsent: Date?
    /// The next thing to do on a gateway that is not set up yet.
    var nextStep: NextStep?
}
