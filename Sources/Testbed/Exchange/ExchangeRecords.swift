import Foundation

/// A business identifier: unique over the whole exchange.
public struct ExchangeIdentifier: Sendable, Hashable {
    /// The identifier's system; null counts as a system of its own.
    public var system: String?
    /// The identifier's value.
    public var value: String?

    /// An identifier.
    public init(system: String?, value: String?) {
        self.system = system
        self.value = value
    }
}

/// A stored observation.
public struct StoredObservation: Sendable, Hashable {
    /// The server's id.
    public var id: Int
    /// The patient it belongs to.
    public var patient: Int
    /// The data source it came from.
    public var device: Int
    /// The code: `omh:heart-rate:2.0`.
    public var code: String
    /// Its identifiers; empty for an orphan and for an entry that had none.
    public var identifiers: [ExchangeIdentifier]
    /// The decoded data point: `header` and `body`.
    public var dataPoint: ExchangeJSON
    /// When it was stored, by the exchange's clock.
    public var storedAt: Date
    /// A row whose identifier was lost in the race of two requests: a duplicate for ever.
    public var isOrphan: Bool

    /// Beats per minute, when this is a heart rate.
    public var beatsPerMinute: Double? { dataPoint["body"]?["heart_rate"]?["value"]?.double }

    /// The effective `date_time`, or the start of the effective interval, as it was written.
    public var effectiveTime: String? {
        let frame = dataPoint["body"]?["effective_time_frame"]
        return frame?["date_time"]?.string ?? frame?["time_interval"]?["start_date_time"]?.string
    }
}

/// A request the exchange has seen. It holds no secret: the path has no token and no patient id.
public struct ExchangeRequestRecord: Sendable, Hashable {
    /// 0, 1, 2, … in the order of arrival.
    public var number: Int
    /// When it arrived, by the exchange's clock.
    public var at: Date
    /// GET, POST, …
    public var method: String
    /// The path without query; tokens and ids are replaced by `*`.
    public var path: String
    /// The purpose of the endpoint.
    public var route: ExchangeRoute
    /// The entries of a bundle that could be read.
    public var entries: Int?
    /// The status of the answer; nil while under way and when the answer did not get through.
    public var status: Int?
}

struct ExchangeConsentKey: Hashable {
    var patient: Int
    var study: Int
    var code: String
}

struct ExchangeConsent {
    var isGiven: Bool
    var at: Date
}

struct ExchangeInvitation {
    enum State { case issued, superseded, redeemed, cancelled, expired }
    var patient: Int
    var client: Int
    var state = State.issued
    var updatedAt: Date
}

struct ExchangeGrantCode {
    var patient: Int
    var client: Int
    var verifier: String
    var redirectURI: String
    var expiresAt: Date
}

/// Whose token it is.
enum ExchangeCaller: Hashable {
    case patient(Int)
    case practitioner(organizations: [Int])
}

struct ExchangeAccessToken {
    var caller: ExchangeCaller
    var expiresAt: Date
}

struct ExchangeRefreshToken {
    var caller: ExchangeCaller
    var clientID: String
    var scope: String
    var access: String
}
