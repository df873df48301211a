/// What the exchange's token endpoint granted, and when.
public struct TokenPair: Sendable, Hashable, Codable {
    /// The bearer token for requests. Opaque.
    public var access: Secret
    /// The token for the next pair, absent for a practitioner key.
    public var refresh: Secret?
    /// When it was granted, UTC microseconds by this machine's clock.
    public var grantedMicroseconds: Int64
    /// How long the access token lives, in seconds, as the exchange said.
    public var lifetimeSeconds: Int64

    public init(
        access: Secret, refresh: Secret?, grantedMicroseconds: Int64, lifetimeSeconds: Int64
    ) {
        self.access = access
        self.refresh = refresh
        self.grantedMicroseconds = grantedMicroseconds
        self.lifetimeSeconds = lifetimeSeconds
    }

    /// When the access token ends, UTC microseconds by this machine's clock.
    public var expiresMicroseconds: Int64 {
        let (life, overflow) = max(0, lifetimeSeconds).multipliedReportingOverflow(by: 1_000_000)
        let (end, isTooFar) = grantedMicroseconds.addingReportingOverflow(life)
        return overflow || isTooFar ? .max : end
    }

    /// Assumed when the exchange does not say: the 14 days of its default settings.
    public static let lifetimeSecondsDefault: Int64 = 1_209_600
}

/// What can bring a new pair when the refresh token no longer does.
public enum Credential: Sendable, Hashable, Codable {
    /// The invitation's token: redeeming it again works within 12 h of the last time.
    case invitation(Secret)
    /// A practitioner's API key, which mints tokens for as long as it exists.
    case practitionerKey(clientID: String, secret: Secret)
    /// Nothing: the link worked once.
    case none
}

/// All that is secret about one enrollment: what its token file holds.
public struct TokenRecord: Sendable, Hashable, Codable {
    /// The exchange the tokens belong to. They are sent nowhere else.
    public var origin: Origin
    /// The OAuth client the tokens were granted to.
    public var clientID: String
    /// What can bring a new pair.
    public var credential: Credential
    /// The current pair.
    public var pair: TokenPair
    /// Whether a person chose the device that data are attributed to; nil in files of earlier versions.
    public var isDeviceChosen: Bool?

    public init(origin: Origin, clientID: String, credential: Credential, pair: TokenPair) {
        self.origin = origin
        self.clientID = clientID
        self.credential = credential
        self.pair = pair
    }
}
