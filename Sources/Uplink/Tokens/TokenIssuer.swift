/// One system's token endpoint.
protocol TokenIssuer: Sendable {
    /// Exchanges a refresh token for the next pair.
    func refresh(_ token: Secret, clientID: String) async -> GrantOutcome
    /// Grants a pair for a key, or for an account (`clientID`) and its password.
    func mint(clientID: String, secret: Secret) async -> GrantOutcome
    /// Redeems an invitation again, where there are any.
    func redeemAgain(_ invitation: Secret) async -> Result<TokenRecord, EnrollFault>
}

extension TokenIssuer {
    /// There are no invitations.
    func redeemAgain(_ invitation: Secret) async -> Result<TokenRecord, EnrollFault> {
        .failure(.refused)
    }
}

/// The answer of a token endpoint.
public enum GrantOutcome: Sendable, Hashable {
    /// A new pair. The refresh token that was used is dead from now on.
    case granted(TokenPair)
    /// The code, refresh token or key is no longer taken; the OAuth error says which way.
    case refused(GrantRefusal)
    /// Nothing can be concluded: the server failed, or no whole answer came. If the request
    /// arrived, the refresh token or code may be used up. Carries what was seen, for a person.
    case unclear(String)
    /// Certainly not sent.
    case notSent(TransportFault)
}

extension HTTPTransport {
    /// Asks a token endpoint once.
    ///
    /// - Parameter judge: what its answer says.
    func grant(
        _ request: HTTPRequest, _ judge: (HTTPAnswer) -> GrantOutcome
    ) async -> GrantOutcome {
        do {
            return judge(try await send(request))
        } catch {
            return GrantOutcome(error)
        }
    }
}

/// The two final answers of a token endpoint (RFC 6749 §5.2).
public enum GrantRefusal: Sendable, Hashable {
    /// `invalid_grant`: used up, revoked, expired or mismatched.
    case invalidGrant
    /// `invalid_client`: the server no longer knows this client.
    case invalidClient
}

extension GrantOutcome {
    /// No answer came.
    init(_ fault: TransportFault) {
        self = fault.certainlyNotSent ? .notSent(fault) : .unclear("\(fault)")
    }

    /// An answer that tells nothing about the token or the key, which it may quote.
    static func unclear(_ answer: HTTPAnswer, hiding secrets: [String]) -> GrantOutcome {
        .unclear(answer.shown(hiding: Set(secrets)))
    }

    /// The outcome without what it carries, for logs.
    var word: String {
        switch self {
        case .granted: "granted"
        case .refused(.invalidGrant): "invalid_grant"
        case .refused(.invalidClient): "invalid_client"
        case .unclear: "unclear"
        case .notSent(let fault): "not sent: \(fault)"
        }
    }
}
