import Basics

/// Where a destination gets the token that its requests carry.
public protocol TokenSource: Sendable {
    /// A token to use now.
    func token() async throws(TokenFault) -> AccessToken
    /// Reports that a request with `token` was answered 401.
    func refused(_ token: AccessToken) async
    /// Reports that a request with `token` got past the token check.
    func accepted(_ token: AccessToken) async
    /// Waits for a renewal under way, since a new pair that is never stored locks the gateway out; gives no token after it.
    func finish() async
}

/// Why there is no token now.
public enum TokenFault: Error, Hashable, Sendable {
    /// There may be one later; ask again at this uptime. The cause, if it is known, is for a person.
    case notNow(until: Uptime, cause: String?)
    /// Only a person can bring one; an attempt is still made at this uptime.
    case enrollAgain(retryAt: Uptime)
}

extension TokenFault {
    /// The consequence for the samples. `reason` is why they are held where only a person can bring a token.
    func answer(_ reason: HoldReason = .enrollAgain) -> DeliveryAnswer {
        switch self {
        case .notNow(let until, _): .notSent(retryAt: until)
        case .enrollAgain(let retry): .held(reason, retryAt: retry)
        }
    }

    /// Such as ": HTTP 503 with a web page"; empty where nothing is known.
    var cause: String {
        guard case .notNow(_, let cause?) = self else { return "" }
        return ": \(cause)"
    }
}

/// A key that a person stored, and only a person replaces.
struct FixedToken: TokenSource {
    let secret: Secret

    func token() async throws(TokenFault) -> AccessToken {
        AccessToken(secret: secret, generation: 1)
    }

    func refused(_ token: AccessToken) async {}
    func accepted(_ token: AccessToken) async {}
    func finish() async {}
}
