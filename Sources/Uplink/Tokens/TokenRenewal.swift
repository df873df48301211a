import Basics
import OfflineQueue

/// Decides when an enrollment's tokens are renewed, and how. A value: no clock, no file, no network.
///
/// A server kills the old pair at the moment it grants a new one, so a refresh whose answer is
/// lost locks the gateway out unless the stored invitation can be redeemed again. Hence: refresh
/// rarely, one at a time, and put the new pair on the disk before its first use.
///
/// Ask ``next(_:)`` what to do, do it, and report what came of it.
public struct TokenRenewal: Sendable {
    /// The next step.
    public enum Action: Hashable, Sendable {
        /// The token is good as far as is known.
        case use(AccessToken)
        /// Write the record to the disk and report ``TokenRenewal/saved(_:_:)``.
        case save(TokenRecord)
        /// Refresh the pair and report ``TokenRenewal/answered(_:_:)``.
        case refresh(Secret, clientID: String)
        /// Mint a token with the key or the password and report ``TokenRenewal/answered(_:_:)``.
        case mint(clientID: String, secret: Secret)
        /// Redeem the invitation again and report ``TokenRenewal/redeemed(_:_:)``.
        case redeem(Secret)
        /// No usable token; ask again at this uptime. The cause, if it is known, is for a person.
        case wait(until: Uptime, cause: String?)
        /// No usable token, and only a person can bring a new one. An attempt is still made at this
        /// uptime, in case the exchange was mended.
        case enrollAgain(retryAt: Uptime)
    }

    /// The pair that is on the disk, or about to be.
    public private(set) var record: TokenRecord
    /// Whether a person has to enroll again.
    public private(set) var isLost = false

    private var generation = 1
    private var acceptedGeneration = 0
    private var isUnsaved = false
    private var isRefused = false
    private var refreshIsDead = false
    private var failures = 0
    /// Why the last attempt brought no token, for a person; nil if it brought one.
    private var cause: String?
    private var youngRefusals = 0
    private var nextAttempt = Uptime.zero

    /// A refresh with an unknown outcome is repeated no sooner than the first of these pauses.
    static let unclear = Backoff(first: .seconds(30), longest: .seconds(900))
    /// Nothing was sent, so nothing can have been used up: try again soon.
    static let notSent = Backoff(first: .seconds(5), longest: .seconds(900))
    /// A new pair that is refused at once is no matter of age: the next one waits.
    static let youngRefusal = Backoff(first: .seconds(300), longest: .seconds(3_600))
    /// Between attempts after a final refusal.
    static let finalPause = Duration.seconds(3_600)

    /// A renewal of a record that is on the disk.
    public init(record: TokenRecord) {
        self.record = record
        isRefused = record.pair == .spent
    }

    /// The next step at `now`.
    public mutating func next(_ now: ClockReading) -> Action {
        if isUnsaved {
            return now.uptime >= nextAttempt
                ? .save(record) : .wait(until: nextAttempt, cause: cause)
        }
        let age = now.trustedWall.map { $0 - record.pair.granted } ?? .zero
        let lifetime = record.pair.lifetime
        guard isRefused || age >= lifetime / 2 else { return .use(token) }
        if now.uptime < nextAttempt {
            if !isRefused, age < lifetime { return .use(token) }
            return isLost
                ? .enrollAgain(retryAt: nextAttempt) : .wait(until: nextAttempt, cause: cause)
        }
        return attempt(now.uptime)
    }

    private var token: AccessToken {
        AccessToken(secret: record.pair.access, generation: generation)
    }

    private mutating func attempt(_ uptime: Uptime) -> Action {
        if case .practitionerKey(let clientID, let secret) = record.credential {
            return .mint(clientID: clientID, secret: secret)
        }
        if let refresh = record.pair.refresh, !refreshIsDead {
            return .refresh(refresh, clientID: record.clientID)
        }
        switch record.credential {
        case .invitation(let token): return .redeem(token)
        case .password(let account, let password):
            return .mint(clientID: account, secret: password)
        case .practitionerKey, .none: break
        }
        lose(uptime)
        return .enrollAgain(retryAt: nextAttempt)
    }

    /// Whether the current pair is not taken any more, whatever its age.
    var isTokenRefused: Bool { isRefused || isLost }

    /// Whether `token` is of a pair granted since the start, and nothing has shown yet that it works.
    func isFirstUse(of token: AccessToken) -> Bool {
        token.generation > 1 && token.generation != acceptedGeneration
    }

    /// A request with `token` was answered 401.
    public mutating func refused(_ token: AccessToken, _ now: ClockReading) {
        guard token.generation == generation, !isRefused else { return }
        isRefused = true
        if acceptedGeneration != generation, generation > 1 {
            youngRefusals += 1
            let pause = Self.youngRefusal.pause(after: youngRefusals)
            nextAttempt = max(nextAttempt, now.uptime + pause)
        }
    }

    /// A request with `token` was answered with anything that shows the token was taken.
    public mutating func accepted(_ token: AccessToken) {
        guard token.generation == generation else { return }
        acceptedGeneration = generation
        youngRefusals = 0
    }

    /// The token endpoint answered a refresh or a mint.
    public mutating func answered(_ outcome: GrantOutcome, _ now: ClockReading) {
        switch outcome {
        case .granted(let pair):
            var renewed = record
            renewed.pair = pair
            // A server that does not rotate sends none: the old one stays good (RFC 6749 §6).
            renewed.pair.refresh = pair.refresh ?? record.pair.refresh
            install(renewed)
        case .refused:
            switch record.credential {
            case .invitation,
                .password where record.pair.refresh != nil && !refreshIsDead:
                refreshIsDead = true
                nextAttempt = now.uptime
            default: lose(now.uptime)
            }
        case .unclear(let words): postpone(Self.unclear, words, now)
        case .notSent(let fault): postpone(Self.notSent, "\(fault)", now)
        }
    }

    /// The invitation was redeemed again and its code exchanged, or not.
    public mutating func redeemed(
        _ outcome: Result<TokenRecord, EnrollFault>, _ now: ClockReading
    ) {
        switch outcome {
        case .success(let record): install(record)
        case .failure(.unknown), .failure(.cancelled), .failure(.expired), .failure(.superseded),
            .failure(.refused):
            lose(now.uptime)
        case .failure(let fault): postpone(Self.unclear, "\(fault)", now)
        }
    }

    /// The record was written to the disk, or could not be.
    public mutating func saved(_ isOnDisk: Bool, _ now: ClockReading) {
        if isOnDisk {
            isUnsaved = false
            failures = 0
            nextAttempt = .zero
        } else {
            postpone(Self.unclear, "it cannot be stored", now)
        }
    }

    private mutating func install(_ record: TokenRecord) {
        self.record = record
        generation += 1
        isUnsaved = true
        isRefused = false
        isLost = false
        refreshIsDead = false
        failures = 0
        cause = nil
        nextAttempt = .zero
    }

    private mutating func lose(_ uptime: Uptime) {
        isLost = true
        // The hourly attempt starts from the top.
        refreshIsDead = false
        failures = 0
        nextAttempt = uptime + Self.finalPause
    }

    private mutating func postpone(_ backoff: Backoff, _ cause: String, _ now: ClockReading) {
        failures += 1
        self.cause = cause
        nextAttempt = now.uptime + backoff.pause(after: failures)
    }
}

/// An access token and which pair of the enrollment it belongs to.
public struct AccessToken: Hashable, Sendable {
    /// The bearer token.
    public var secret: Secret
    /// Grows with every pair, so that a late 401 does not condemn a newer one.
    public var generation: Int
}
