import Foundation

extension StandInExchange {
    static let scope = "openid email"

    func token(_ request: ExchangeRequest, _ work: ExchangeWork) -> ExchangeAnswer {
        guard request.method == "POST" else { return .html(405, "Method Not Allowed") }
        if work.databaseIsDown {
            return .oauth(500, "server_error", "An unexpected error occurred.")
        }
        let fields = form(of: request)
        let answer =
            switch fields["grant_type"] {
            case "authorization_code": exchangeCode(fields)
            case "refresh_token": refresh(fields)
            case "client_credentials": clientCredentials(fields, request)
            default: ExchangeAnswer.oauth(400, "unsupported_grant_type")
            }
        return answer.with("Cache-Control", "no-store").with("Pragma", "no-cache")
    }

    /// The form fields; a body of another type has none, whatever is in it.
    private func form(of request: ExchangeRequest) -> [String: String] {
        guard request.mediaType == "application/x-www-form-urlencoded" else { return [:] }
        return formFields(String(decoding: request.body, as: UTF8.self))
            .compactMapValues { $0.count == 1 ? $0[0] : nil }
    }

    private static let invalidClient = ExchangeAnswer.oauth(401, "invalid_client")
        .with("WWW-Authenticate", "Bearer error=\"invalid_client\"")
    private static let invalidGrant = ExchangeAnswer.oauth(400, "invalid_grant")

    private func exchangeCode(_ fields: [String: String]) -> ExchangeAnswer {
        guard let code = fields["code"] else {
            return .oauth(400, "invalid_request", "Missing code parameter.")
        }
        guard let app = seed.clients.first(where: { $0.clientID == fields["client_id"] }) else {
            return Self.invalidClient
        }
        guard let grant = codes[code], grant.client == app.id, now < grant.expiresAt else {
            return Self.invalidGrant
        }
        // Neither a missing nor a wrong verifier burns the code.
        guard let verifier = fields["code_verifier"] else {
            return .oauth(400, "invalid_request", "Code verifier required.")
        }
        guard verifier == grant.verifier else { return Self.invalidGrant }
        if let refusal = redirectRefusal(fields["redirect_uri"], grant) { return refusal }
        codes[code] = nil
        return issueTokens(
            for: .patient(grant.patient), clientID: app.clientID, scope: Self.scope)
    }

    private func redirectRefusal(
        _ given: String?, _ grant: ExchangeGrantCode
    ) -> ExchangeAnswer? {
        if version == .v0010 {
            return given == grant.redirectURI
                ? nil : .oauth(400, "invalid_request", "Mismatching redirect URI.")
        }
        return given == nil || given == grant.redirectURI ? nil : Self.invalidGrant
    }

    private func refresh(_ fields: [String: String]) -> ExchangeAnswer {
        guard let given = fields["refresh_token"] else {
            return .oauth(400, "invalid_request", "Missing refresh token parameter.")
        }
        let knownClients = seed.clients.map(\.clientID) + seed.practitionerKeys.map(\.clientID)
        guard let clientID = fields["client_id"], knownClients.contains(clientID) else {
            return Self.invalidClient
        }
        guard let old = refreshTokens[given], old.clientID == clientID else {
            return Self.invalidGrant
        }
        var scope = old.scope
        if let asked = fields["scope"] {
            // Scopes can be given up and never come back.
            guard
                Set(asked.split(separator: " ")).isSubset(of: Set(old.scope.split(separator: " ")))
            else { return .oauth(400, "invalid_scope") }
            scope = asked
        }
        // Rotation without grace: both old tokens are dead before the answer is on its way.
        refreshTokens[given] = nil
        accessTokens[old.access] = nil
        return issueTokens(for: old.caller, clientID: clientID, scope: scope)
    }

    private func clientCredentials(
        _ fields: [String: String], _ request: ExchangeRequest
    ) -> ExchangeAnswer {
        var clientID = fields["client_id"]
        var secret = fields["client_secret"]
        let parts = (request.header("Authorization") ?? "").split(separator: " ")
        if parts.count == 2, parts[0].lowercased() == "basic",
            let data = Data(base64Encoded: String(parts[1]))
        {
            let pair = String(decoding: data, as: UTF8.self)
                .split(separator: ":", maxSplits: 1).map(String.init)
            clientID = pair.first
            secret = pair.last
        }
        guard
            let key = seed.practitionerKeys.first(where: {
                $0.clientID == clientID && $0.secret == secret
            })
        else { return Self.invalidClient }
        let access = randomText(length: 30)
        accessTokens[access] = ExchangeAccessToken(
            caller: .practitioner(organizations: key.organizations), expiresAt: accessExpiry)
        return .json(
            200,
            [
                "access_token": .string(access), "expires_in": .integer(accessTokenLifetimeSeconds),
                "token_type": "Bearer", "scope": .string(Self.scope),
            ])
    }

    private var accessExpiry: Date {
        now.addingTimeInterval(TimeInterval(accessTokenLifetimeSeconds))
    }

    private func issueTokens(
        for caller: ExchangeCaller, clientID: String, scope: String
    ) -> ExchangeAnswer {
        let access = randomText(length: 30)
        let refresh = randomText(length: 30)
        accessTokens[access] = ExchangeAccessToken(caller: caller, expiresAt: accessExpiry)
        refreshTokens[refresh] = ExchangeRefreshToken(
            caller: caller, clientID: clientID, scope: scope, access: access)
        return .json(
            200,
            [
                "access_token": .string(access), "expires_in": .integer(accessTokenLifetimeSeconds),
                "token_type": "Bearer", "scope": .string(scope), "refresh_token": .string(refresh),
                // Shaped like a JWT, with a meaningless signature: no client here has a use for it.
                "id_token": .string("eyJhbGciOiJSUzI1NiJ9.e30." + randomText(length: 43)),
            ])
    }

    func revoke(_ request: ExchangeRequest, _ work: ExchangeWork) -> ExchangeAnswer {
        guard request.method == "POST" else { return .html(405, "Method Not Allowed") }
        if work.databaseIsDown { return .serverError }
        let fields = form(of: request)
        guard seed.clients.contains(where: { $0.clientID == fields["client_id"] }) else {
            return Self.invalidClient
        }
        if let token = fields["token"] {
            accessTokens[token] = nil
            if let refresh = refreshTokens.removeValue(forKey: token) {
                accessTokens[refresh.access] = nil
            }
        }
        return ExchangeAnswer(status: 200, body: [])
    }

    func openIDConfiguration() -> ExchangeAnswer {
        .json(
            200,
            [
                "issuer": .string(baseURL + "/o"), "token_endpoint": .string(baseURL + "/o/token/"),
                "userinfo_endpoint": .string(baseURL + "/o/userinfo/"),
            ])
    }

    // MARK: Knobs

    /// Every access token is past its time; refresh tokens stay good.
    public func expireAccessTokens() {
        for token in accessTokens.keys { accessTokens[token]?.expiresAt = .distantPast }
    }

    /// Every access token is revoked, and every refresh token too unless told otherwise.
    public func revokeTokens(alsoRefreshTokens: Bool = true) {
        accessTokens = [:]
        if alsoRefreshTokens { refreshTokens = [:] }
    }
}
