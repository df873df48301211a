import Basics
import OfflineQueue

/// Signs a user in at Firebase Authentication, and renews the tokens, by its REST interface.
struct FirebaseAccounts: TokenIssuer {
    let transport: any HTTPTransport
    let clock: any GatewayClock
    /// Where both services are; nil: at Google. An emulator has them below one address.
    let emulator: BaseURL?
    /// The project's web API key.
    let key: Secret

    /// Assumed when the server does not say: its default.
    static let lifetimeDefault = Duration.seconds(3600)

    func refresh(_ token: Secret, clientID: String) async -> GrantOutcome {
        let form =
            "grant_type=refresh_token&refresh_token=\(GrantClient.formEncoded(token.revealed))"
        return await ask(
            "securetoken.googleapis.com", "/v1/token", "application/x-www-form-urlencoded",
            Array(form.utf8))
    }

    func mint(clientID: String, secret: Secret) async -> GrantOutcome {
        var body = JSONBytes()
        body.raw(#"{"email":"#)
        body.string(clientID)
        body.raw(#","password":"#)
        body.string(secret.revealed)
        body.raw(#","returnSecureToken":true}"#)
        return await account("signInWithPassword", body)
    }

    /// Makes a new anonymous user.
    func signUp() async -> GrantOutcome {
        var body = JSONBytes()
        body.raw(#"{"returnSecureToken":true}"#)
        return await account("signUp", body)
    }

    private func account(_ call: String, _ body: JSONBytes) async -> GrantOutcome {
        await ask(
            "identitytoolkit.googleapis.com", "/v1/accounts:\(call)", "application/json",
            body.bytes)
    }

    private func ask(
        _ service: String, _ path: String, _ type: String, _ body: [UInt8]
    ) async -> GrantOutcome {
        guard
            let place = emulator.map({ ($0.origin, "\($0.path)/\(service)") })
                ?? Origin("https://\(service)").map({ ($0, "") })
        else { return .unclear("\(service) is no host") }
        let request = HTTPRequest(
            .post, place.0, "\(place.1)\(path)?key=\(GrantClient.formEncoded(key.revealed))",
            contentType: type, body: body)
        return await transport.grant(request, judge)
    }

    private struct Refused: Decodable {
        struct Fault: Decodable { @IfAny var message: String? }
        @IfAny var error: Fault?
    }

    private func judge(_ answer: HTTPAnswer) -> GrantOutcome {
        // A user that the token does not name has no place in the database.
        if let pair = TokenDocument.pair(
            in: answer, \.idToken, granted: clock.read().wall,
            lifetimeDefault: Self.lifetimeDefault), FirebaseUser.id(ofToken: pair.access) != nil
        {
            return .granted(pair)
        }
        guard [400, 403].contains(answer.status), answer.content == .document else {
            return .unclear(answer, hiding: [key.revealed])
        }
        let refused = try? Refused(json: answer.body)
        let message = refused?.error?.message ?? ""
        return Self.isFinal(message)
            ? .refused(.invalidGrant) : .unclear(answer, hiding: [key.revealed])
    }

    /// Whether the same question has the same answer until a person acts. The word stands alone or before a
    /// colon.
    static func isFinal(_ message: String) -> Bool {
        let word = message.prefix { $0 != ":" && $0 != " " }
        return final.contains(String(word)) || message.hasPrefix("API key not valid")
    }

    private static let final: Set<String> = [
        "ADMIN_ONLY_OPERATION", "OPERATION_NOT_ALLOWED", "PROJECT_DISABLED", "USER_DISABLED",
        "INVALID_REFRESH_TOKEN", "TOKEN_EXPIRED", "USER_NOT_FOUND", "MISSING_REFRESH_TOKEN",
        "INVALID_GRANT_TYPE", "EMAIL_NOT_FOUND", "INVALID_PASSWORD", "INVALID_EMAIL",
        "INVALID_LOGIN_CREDENTIALS", "MISSING_PASSWORD", "MISSING_EMAIL",
    ]
}

/// The claims of a Firebase token about its user.
enum FirebaseUser {
    private struct Claims: Decodable { var sub: String? }

    /// The user's identifier; nil if the token has none that could stand in a path. The token is not verified:
    /// it came from the server it is sent to.
    static func id(ofToken token: Secret) -> String? {
        guard let id = token.claims(Claims.self)?.sub, 1...128 ~= id.utf8.count,
            id.utf8.allSatisfy({ $0.isAlphanumeric || $0 == 0x2D || $0 == 0x5F })
        else { return nil }
        return id
    }
}
