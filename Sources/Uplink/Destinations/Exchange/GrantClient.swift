import Basics
import Foundation
import OfflineQueue

/// An invitation, redeemed: a code that can be exchanged for tokens within 60 s.
public struct InvitationGrant: Sendable, Hashable {
    /// The OAuth client the invitation was made for.
    public var clientID: String
    /// The authorization code.
    public var code: Secret
    /// Copied into the exchange request when the exchange names one.
    public var redirectURI: String?
    /// Path of the token endpoint at the server the invitation was redeemed at.
    public var tokenTarget: String
}

/// Speaks to one exchange's invitation and token endpoints.
public struct GrantClient: TokenIssuer {
    let transport: any HTTPTransport
    let origin: Origin
    let clock: any GatewayClock

    /// The token endpoint's path; without the trailing slash the exchange redirects, and a POST
    /// becomes a GET.
    public static let tokenTarget = "/o/token/"

    /// A client of `origin`.
    public init(transport: any HTTPTransport, origin: Origin, clock: any GatewayClock) {
        self.transport = transport
        self.origin = origin
        self.clock = clock
    }

    /// Redeems an invitation. Redeeming again is possible for 12 h after the last time.
    public func redeem(_ token: Secret) async throws(EnrollFault) -> InvitationGrant {
        let request = HTTPRequest(.post, origin, "/api/v1/invitation/\(token.revealed)")
        let answer: HTTPAnswer
        do {
            answer = try await transport.send(request)
        } catch {
            throw .transport(error)
        }
        if let redirect = Redirect(answer, of: origin) { throw .redirected(redirect) }
        // With these a page comes from a proxy, and says nothing about the invitation.
        if [401, 403, 409, 410].contains(answer.status), !answer.isDocument {
            throw .serverTrouble(status: answer.status)
        }
        switch answer.status {
        case 200: return try grant(answer)
        case 400 where !answer.isDocument: throw .hostNotAccepted
        case 401: throw .unknown
        case 403: throw .cancelled
        // A page instead of a document: this server has no invitations at that path.
        case 404: throw answer.isJSON ? .unknown : .notAnExchange
        case 409: throw .superseded
        case 410: throw .expired
        case 429, 500...: throw .serverTrouble(status: answer.status)
        default: throw .notAnExchange
        }
    }

    private func grant(_ answer: HTTPAnswer) throws(EnrollFault) -> InvitationGrant {
        guard
            let document = try? JSONDecoder().decode(
                RedeemedDocument.self, from: Data(answer.body))
        else { throw answer.isJSON ? .unreadable : .notAnExchange }
        // Behind a proxy the exchange may announce its endpoint with plain http. Only the path is
        // taken from it: code and verifier go where the invitation was redeemed, or nowhere.
        var target = Self.tokenTarget
        if let announced = document.tokenEndpoint, Origin(announced) != nil,
            let path = URLComponents(string: announced)?.percentEncodedPath, path.hasPrefix("/")
        {
            target = path
        }
        return InvitationGrant(
            clientID: document.grant.clientID, code: Secret(document.grant.code),
            redirectURI: document.grant.redirectURI, tokenTarget: target)
    }

    /// Exchanges an authorization code for the first pair (RFC 6749 §4.1.3, RFC 7636 §4.5).
    public func exchange(_ grant: InvitationGrant, verifier: Secret) async -> GrantOutcome {
        var form = [
            ("grant_type", "authorization_code"), ("code", grant.code.revealed),
            ("client_id", grant.clientID), ("code_verifier", verifier.revealed),
        ]
        if let redirectURI = grant.redirectURI { form.append(("redirect_uri", redirectURI)) }
        return await ask(form, target: grant.tokenTarget)
    }

    /// Exchanges a refresh token for the next pair (RFC 6749 §6). Without `scope`: a narrowed scope
    /// can never be widened again.
    public func refresh(_ token: Secret, clientID: String) async -> GrantOutcome {
        await ask([
            ("grant_type", "refresh_token"), ("refresh_token", token.revealed),
            ("client_id", clientID),
        ])
    }

    /// Mints a token with a practitioner's key (RFC 6749 §4.4). There is no refresh token.
    public func mint(clientID: String, secret: Secret) async -> GrantOutcome {
        await ask([
            ("grant_type", "client_credentials"), ("client_id", clientID),
            ("client_secret", secret.revealed),
        ])
    }

    /// The code verifier that belongs to an invitation token: its base64url without padding.
    public static func verifier(of token: Secret) -> Secret {
        Secret(Digests.base64URL(Array(token.revealed.utf8)))
    }

    private func ask(
        _ form: [(String, String)], target: String = GrantClient.tokenTarget
    ) async -> GrantOutcome {
        await transport.grant(.form(form, to: origin, target)) {
            GrantOutcome(
                $0, granted: clock.read().wall, lifetimeDefault: TokenPair.lifetimeDefault,
                hiding: form.filter { $0.0 != "grant_type" }.map(\.1))
        }
    }

    /// `application/x-www-form-urlencoded`, everything but unreserved characters escaped.
    static func formEncoded(_ text: String) -> String {
        let digits = Array("0123456789ABCDEF".utf8)
        var bytes: [UInt8] = []
        for byte in text.utf8 {
            bytes +=
                byte.isUnreserved ? [byte] : [0x25, digits[Int(byte >> 4)], digits[Int(byte & 15)]]
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}

extension HTTPRequest {
    /// A form that is posted.
    static func form(
        _ members: [(String, String)], to origin: Origin, _ target: String
    ) -> HTTPRequest {
        let body = members.map { "\($0.0)=\(GrantClient.formEncoded($0.1))" }
            .joined(separator: "&")
        return HTTPRequest(
            .post, origin, target, contentType: "application/x-www-form-urlencoded",
            body: Array(body.utf8))
    }
}

extension GrantOutcome {
    /// The content of a token endpoint's answer (RFC 6749 §5).
    ///
    /// - Parameters:
    ///   - lifetimeDefault: assumed when the server does not say.
    ///   - secrets: what was sent, which the server may quote.
    init(
        _ answer: HTTPAnswer, granted: UTC, lifetimeDefault: Duration, hiding secrets: [String]
    ) {
        if let pair = TokenDocument.pair(
            in: answer, granted: granted, lifetimeDefault: lifetimeDefault)
        {
            self = .granted(pair)
            return
        }
        guard answer.status == 400 || answer.status == 401,
            let document = try? JSONDecoder().decode(
                TokenErrorDocument.self, from: Data(answer.body))
        else {
            self = .unclear(answer, hiding: secrets)
            return
        }
        self =
            switch document.error {
            case "invalid_grant": .refused(.invalidGrant)
            case "invalid_client", "unauthorized_client": .refused(.invalidClient)
            default: .unclear(answer, hiding: secrets)
            }
    }
}

extension HTTPAnswer {
    /// Whether the server says the body is JSON.
    var isJSON: Bool {
        (contentType ?? "").lowercased().hasPrefix("application/json")
    }
}
