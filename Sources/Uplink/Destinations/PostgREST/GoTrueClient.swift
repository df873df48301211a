import Basics
import OfflineQueue

/// Signs an account in at GoTrue, Supabase's server of accounts, and renews its tokens. The refresh token
/// changes with every use.
struct GoTrueClient: TokenIssuer {
    let transport: any HTTPTransport
    let clock: any GatewayClock
    let url: BaseURL
    let key: Secret?

    /// Assumed when the server does not say: its default.
    static let lifetimeDefault = Duration.seconds(3600)

    private struct Refused: Decodable {
        /// The word, or in the older form a number.
        @IfAny var code: String?
        @IfAny var errorCode: String?
        /// The word of OAuth, in versions that have no code.
        @IfAny var error: String?
    }

    func refresh(_ token: Secret, clientID: String) async -> GrantOutcome {
        await ask("refresh_token", [("refresh_token", token.revealed)])
    }

    func mint(clientID: String, secret: Secret) async -> GrantOutcome {
        await ask("password", [("email", clientID), ("password", secret.revealed)])
    }

    private func ask(_ grant: String, _ members: [(StaticString, String)]) async -> GrantOutcome {
        var body = JSONBytes()
        for (index, (name, value)) in members.enumerated() {
            body.raw(index == 0 ? "{\"" : ",\"")
            body.raw(name)
            body.raw("\":")
            body.string(value)
        }
        body.raw("}")
        var request = HTTPRequest(
            .post, url.origin, "\(url.path)/token?grant_type=\(grant)",
            contentType: "application/json", body: body.bytes)
        if let key { request.headers.append(("apikey", key.revealed)) }
        let secrets = members.map(\.1) + [key?.revealed].compactMap(\.self)
        return await transport.grant(request) { judge($0, hiding: secrets) }
    }

    private func judge(_ answer: HTTPAnswer, hiding secrets: [String]) -> GrantOutcome {
        if let pair = TokenDocument.pair(
            in: answer, granted: clock.read().wall, lifetimeDefault: Self.lifetimeDefault)
        {
            return .granted(pair)
        }
        guard [400, 401, 403, 422].contains(answer.status), answer.content == .document else {
            return .unclear(answer, hiding: secrets)
        }
        let refused = try? Refused(json: answer.body)
        let words = [
            answer.fields["x-sb-error-code"], refused?.errorCode, refused?.code, refused?.error,
        ]
        return words.contains { $0.map(Self.final.contains) ?? false }
            ? .refused(.invalidGrant) : .unclear(answer, hiding: secrets)
    }

    /// Words after which the same question has the same answer until a person acts
    /// (supabase/auth, internal/api/apierrors; RFC 6749 §5.2).
    static let final: Set<String> = [
        "invalid_grant",
        "invalid_credentials", "refresh_token_not_found", "refresh_token_already_used",
        "session_not_found", "session_expired", "user_banned", "email_not_confirmed", "bad_jwt",
        "user_not_found", "signup_disabled", "email_provider_disabled", "validation_failed",
    ]
}
