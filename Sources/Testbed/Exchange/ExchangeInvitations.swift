import Foundation

extension StandInExchange {
    /// An authorization code lives this long from v0.0.11 on; before, the link carried it.
    static let codeLife = Duration.seconds(60)
    /// The life of a code that comes in a link (v0.0.10).
    static let linkedCodeLife = Duration.seconds(14 * 86_400)
    /// An invitation that was not redeemed expires after this time.
    static let invitationLife = Duration.seconds(7 * 86_400)
    /// A redeemed invitation can be redeemed again so long after the last time.
    static let redemptionWindow = Duration.seconds(12 * 3600)

    /// Invites a patient and returns the link, as the server would mail it. An invitation of the
    /// same patient and client that was not redeemed yet is superseded.
    ///
    /// - Parameters:
    ///   - patient: the patient's id.
    ///   - client: the client's row id; the first client of the seed unless given.
    public func invite(patient: Int, client: Int? = nil) -> String {
        let app = seed.clients.first { $0.id == client } ?? seed.clients[0]
        for (token, invitation) in invitations
        where invitation.patient == patient && invitation.client == app.id
            && invitation.state == .issued
        {
            invitations[token]?.state = .superseded
        }
        let secret = randomText(length: 32)
        invitations[secret] = ExchangeInvitation(patient: patient, client: app.id, updatedAt: now)
        guard version == .v0010 else { return link(of: app, carrying: "\(host)_\(secret)") }
        let code = issueCode(
            patient: patient, client: app.id, verifier: Self.staticVerifier,
            life: Self.linkedCodeLife)
        return link(of: app, carrying: "\(host)~\(app.clientID)~\(code)~\(Self.staticVerifier)")
    }

    /// The verifier every link of one client carries on v0.0.10.
    static let staticVerifier = "standInStaticVerifier00000000000000000000000"

    /// Cancels every invitation of a patient.
    public func cancelInvitations(patient: Int) {
        for (token, invitation) in invitations where invitation.patient == patient {
            invitations[token]?.state = .cancelled
        }
    }

    /// The `token_endpoint` that redeeming names; nil for the truth. A real server behind a proxy
    /// may name `http:` here.
    public func advertiseTokenEndpoint(_ url: String?) { advertisedTokenEndpoint = url }

    private func link(of app: ExchangeClientApp, carrying code: String) -> String {
        var safe = CharacterSet.alphanumerics
        safe.insert(charactersIn: "-._~")
        let quoted = code.addingPercentEncoding(withAllowedCharacters: safe) ?? code
        return app.invitationURL.replacing("CODE", with: quoted)
    }

    func redeem(
        _ token: String, _ request: ExchangeRequest, _ work: ExchangeWork
    ) -> ExchangeAnswer {
        guard request.accepts(oneOf: ["application/json", "text/html"]) else {
            return .detail(406, "Could not satisfy the request Accept header.")
        }
        if work.databaseIsDown { return .serverError }
        // Only POST redeems; any other method falls into the route that wants a login.
        guard request.method == "POST" else {
            return apiDoor(request, work, methods: ["POST"]) { _ in .detail(404, "Not found.") }
        }
        guard let invitation = invitations[token] else {
            return .detail(404, "Invitation not found or already used.")
        }
        let age = Duration.seconds(now.timeIntervalSince(invitation.updatedAt))
        switch invitation.state {
        case .issued where age >= Self.invitationLife:
            invitations[token]?.state = .expired
            return .detail(410, "Invitation has expired.")
        case .expired: return .detail(410, "Invitation has expired.")
        case .cancelled: return .detail(403, "Invitation has been cancelled.")
        case .redeemed where age > Self.redemptionWindow:
            return .detail(409, "Invitation has already been used.")
        case .superseded: return .detail(409, "Invitation has already been used.")
        case .issued, .redeemed: break
        }
        invitations[token]?.state = .redeemed
        invitations[token]?.updatedAt = now
        let code = issueCode(
            patient: invitation.patient, client: invitation.client,
            verifier: Self.verifier(for: token), life: Self.codeLife)
        return .json(
            200,
            [
                "grant": [
                    "grant_type": "authorization_code", "redirect_uri": .string(redirectURI),
                    "client_id": .string(clientID(of: invitation.client)), "code": .string(code),
                ],
                "token_endpoint": .string(advertisedTokenEndpoint ?? baseURL + "/o/token/"),
                "expires": .string(
                    Self.timestamp(now.addingTimeInterval(Self.codeLife / .seconds(1)))),
            ])
    }

    /// Where the browser would be sent; the token exchange must name the same or nothing.
    var redirectURI: String { baseURL + "/auth/callback" }

    func clientID(of client: Int) -> String {
        seed.clients.first { $0.id == client }?.clientID ?? ""
    }

    /// Issues a code; the patient's unused code for that client is gone.
    private func issueCode(
        patient: Int, client: Int, verifier: String, life: Duration
    ) -> String {
        codes = codes.filter { $0.value.patient != patient || $0.value.client != client }
        let code = randomText(length: 30)
        codes[code] = ExchangeGrantCode(
            patient: patient, client: client, verifier: verifier, redirectURI: redirectURI,
            expiresAt: now.addingTimeInterval(life / .seconds(1)))
        return code
    }

    /// The PKCE verifier of an invitation: its token in base64url without padding.
    static func verifier(for token: String) -> String {
        Data(token.utf8).base64EncodedString().replacing("+", with: "-").replacing("/", with: "_")
            .replacing("=", with: "")
    }

    func randomText(length: Int) -> String {
        let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789")
        let digits = (0..<length).map { _ in
            alphabet[Int.random(in: 0..<alphabet.count, using: &random)]
        }
        return String(digits)
    }

    /// A time as the server writes it: RFC 3339, UTC, microseconds.
    static func timestamp(_ date: Date) -> String {
        let microseconds = Int64((date.timeIntervalSince1970 * 1_000_000).rounded())
        let (seconds, rest) = microseconds.quotientAndRemainder(dividingBy: 1_000_000)
        let whole = Date(timeIntervalSince1970: TimeInterval(seconds)).formatted(
            .iso8601.dateSeparator(.dash).timeSeparator(.colon))
        let digits = String(rest)
        return whole.dropLast() + "." + String(repeating: "0", count: max(0, 6 - digits.count))
            + digits + "Z"
    }
}
