import Basics
import Foundation
import OfflineQueue

/// Signs in at a server of health data with a key, as SMART Backend Services has it: a token for a signed one
/// (RFC 7523).
struct BackendServices: TokenIssuer {
    let transport: any HTTPTransport
    let clock: any GatewayClock
    /// The FHIR server, which says where it wants its clients to sign in.
    let server: BaseURL
    /// The place to sign in that a person has set; nil: the server says it.
    let endpoint: TokenEndpoint?
    let scope: String

    /// Assumed when the server does not say: the longest that SMART advises.
    static let lifetimeDefault = Duration.seconds(300)
    /// How long a signed token is good: the longest that SMART allows.
    private static let assertionSeconds: Int64 = 300
    /// Clocks that differ by more may be why a server takes no signed token.
    private static let clocksDifferMax = Duration.seconds(60)

    /// There are no refresh tokens.
    func refresh(_ token: Secret, clientID: String) async -> GrantOutcome {
        .refused(.invalidGrant)
    }

    func mint(clientID: String, secret: Secret) async -> GrantOutcome {
        // A signed token of a wrong clock has ended already, and the server would say that it does not know the key.
        guard let now = clock.read().trustedWall else {
            return .unclear("this machine's clock is not set, and a key needs it (timedatectl)")
        }
        do {
            guard let endpoint = try await place() else {
                return .unclear("the server does not say where clients sign in: set token-url")
            }
            guard let assertion = assertion(of: clientID, for: endpoint, secret, now) else {
                return .unclear("the key cannot sign")
            }
            let form = [
                ("grant_type", "client_credentials"), ("scope", scope),
                (
                    "client_assertion_type",
                    "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
                ), ("client_assertion", assertion.revealed),
            ]
            let answer = try await transport.send(
                .form(form, to: endpoint.origin, endpoint.target))
            let outcome = GrantOutcome(
                answer, granted: clock.read().wall, lifetimeDefault: Self.lifetimeDefault,
                hiding: [assertion.revealed])
            switch outcome {
            case .granted(var pair):
                pair.refresh = nil
                return .granted(pair)
            case .refused where clocksDiffer(answer):
                return .unclear("the server's clock differs from this machine's (timedatectl)")
            case .refused, .unclear, .notSent: return outcome
            }
        } catch {
            return GrantOutcome(error)
        }
    }

    /// Whether the server's clock may be why it refused: then the key is good, and goes again.
    private func clocksDiffer(_ answer: HTTPAnswer) -> Bool {
        guard let there = answer.date.flatMap(HTTPDate.utc), let here = clock.read().trustedWall
        else { return false }
        return there - here > Self.clocksDifferMax || here - there > Self.clocksDifferMax
    }

    private struct Configuration: Decodable { @IfAny var tokenEndpoint: String? }

    /// Where the gateway signs in; nil if the server does not say it.
    private func place() async throws(TransportFault) -> TokenEndpoint? {
        if let endpoint { return endpoint }
        let answer = try await transport.send(
            HTTPRequest(
                .get, server.origin, "\(server.path)/.well-known/smart-configuration"))
        guard answer.status == 200 else { return nil }
        return (try? Configuration(json: answer.body))?.tokenEndpoint.flatMap { TokenEndpoint($0) }
    }

    private func assertion(
        of clientID: String, for endpoint: TokenEndpoint, _ key: Secret, _ now: UTC
    ) -> Secret? {
        var claims = JSONBytes()
        claims.raw(#"{"iss":"#)
        claims.string(clientID)
        claims.raw(#","sub":"#)
        claims.string(clientID)
        claims.raw(#","aud":"#)
        claims.string(endpoint.text)
        claims.raw(#","exp":"#)
        claims.integer(Int(clamping: now.microseconds / 1_000_000) + Int(Self.assertionSeconds))
        claims.raw(#","jti":"#)
        claims.string(UUID().uuidString)
        claims.raw("}")
        return SigningKey(key.revealed)?.token(claims.bytes)
    }
}

/// A token endpoint to the letter: a slash at its end is part of it, and a signed token names it as it stands.
struct TokenEndpoint: Sendable {
    let text: String
    let origin: Origin
    let target: String

    init?(_ text: String) {
        guard let origin = BaseURL(text)?.origin else { return nil }
        let path = text.dropFirst(origin.scheme.rawValue.count + 3).drop { $0 != "/" }
        self.text = text
        self.origin = origin
        target = path.isEmpty ? "/" : String(path)
    }
}
