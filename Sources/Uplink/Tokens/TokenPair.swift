import Basics

/// The tokens that an endpoint granted, and when.
public struct TokenPair: Sendable, Hashable {
    /// The bearer token for requests. Opaque.
    public var access: Secret
    /// The token for the next pair, absent for a practitioner key.
    public var refresh: Secret?
    /// When it was granted by this machine's clock.
    public var granted: UTC
    /// How long the access token lives, as the exchange said: whole seconds.
    public var lifetime: Duration

    /// A pair that was granted at a time, for so long.
    public init(access: Secret, refresh: Secret?, granted: UTC, lifetime: Duration) {
        self.access = access
        self.refresh = refresh
        self.granted = granted
        self.lifetime = lifetime
    }

    /// When the access token ends by this machine's clock.
    public var expires: UTC { granted + max(lifetime, .zero) }

    /// No pair yet: the first use asks for one.
    static let spent = TokenPair(
        access: Secret(""), refresh: nil, granted: .epoch, lifetime: .zero)

    /// Assumed when the exchange does not say: the 14 days of its default settings.
    public static let lifetimeDefault = Duration.seconds(14 * 86_400)
}

/// Token files hold times as numbers, named after their units.
extension TokenPair: Codable {
    private enum CodingKeys: String, CodingKey {
        case access, refresh, grantedMicroseconds, lifetimeSeconds
    }

    /// Reads a pair of a token file.
    public init(from decoder: any Decoder) throws {
        let values = try decoder.container(keyedBy: CodingKeys.self)
        access = try values.decode(Secret.self, forKey: .access)
        refresh = try values.decodeIfPresent(Secret.self, forKey: .refresh)
        granted = UTC(microseconds: try values.decode(Int64.self, forKey: .grantedMicroseconds))
        lifetime = .seconds(try values.decode(Int64.self, forKey: .lifetimeSeconds))
    }

    /// Writes a pair of a token file.
    public func encode(to encoder: any Encoder) throws {
        var values = encoder.container(keyedBy: CodingKeys.self)
        try values.encode(access, forKey: .access)
        try values.encodeIfPresent(refresh, forKey: .refresh)
        try values.encode(granted.microseconds, forKey: .grantedMicroseconds)
        try values.encode(lifetime.components.seconds, forKey: .lifetimeSeconds)
    }
}

/// The credential that can bring a new pair when the refresh token no longer does.
public enum Credential: Sendable, Hashable, Codable {
    /// The invitation's token: redeeming it again works within 12 h of the last time.
    case invitation(Secret)
    /// A practitioner's API key, which mints tokens for as long as it exists.
    case practitionerKey(clientID: String, secret: Secret)
    /// An account and its password, which sign in again.
    case password(account: String, Secret)
    /// Nothing: the link worked once.
    case none
}

/// The tokens of one delivery and what can bring new ones: what a token file holds.
public struct TokenRecord: Sendable, Hashable, Codable {
    /// The server the tokens belong to. They are sent nowhere else.
    public var origin: Origin
    /// The OAuth client the tokens were granted to.
    public var clientID: String
    /// The credential that can bring a new pair.
    public var credential: Credential
    /// The current pair.
    public var pair: TokenPair

    /// The tokens of a client at an exchange.
    public init(origin: Origin, clientID: String, credential: Credential, pair: TokenPair) {
        self.origin = origin
        self.clientID = clientID
        self.credential = credential
        self.pair = pair
    }
}
