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
    /// Where a person says that they do.
    let endpoint: BaseURL?
    let scope: String

    /// Assumed when the server does not say: the longest that SMART advises.
    static let lifetimeDefault = Duration.seconds(300)
    /// How long a signed token is good: the longest that SMART allows.
    private static let assertionSeconds: Int64 = 300

    /// There are no refresh tokens.
    func refresh(_ token: Secret, clientID: String) async -> GrantOutcome {
        .refused(.invalidGrant)
    }

    func mint(clientID: String, secret: Secret) async -> GrantOutcome {
        do {
            guard let endpoint = try await place(),
                let assertion = assertion(of: clientID, for: endpoint, secret)
            else { return .unclear }
            let form = [
                ("grant_type", "client_credentials"), ("scope", scope),
                (
                    "client_assertion_type",
                    "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
                ), ("client_assertion", assertion.revealed),
            ]
            let body = form.map { "\($0.0)=\(GrantClient.formEncoded($0.1))" }
                .joined(separator: "&")
            let answer = try await transport.send(
                HTTPRequest(
                    .post, endpoint.origin, endpoint.path.isEmpty ? "/" : endpoint.path,
                    contentType: "application/x-www-form-urlencoded", body: Array(body.utf8)))
            let outcome = GrantOutcome(
                answer, granted: clock.read().wall, lifetimeDefault: Self.lifetimeDefault)
            guard case .granted(var pair) = outcome else { return outcome }
            pair.refresh = nil
            return .granted(pair)
        } catch {
            return error.certainlyNotSent ? .notSent(error) : .unclear
        }
    }

    private struct Configuration: Decodable { @IfAny var tokenEndpoint: String? }

    /// Where the gateway signs in; nil if the server does not say it.
    private func place() async throws(TransportFault) -> BaseURL? {
        if let endpoint { return endpoint }
        let answer = try await transport.send(
            HTTPRequest(
                .get, server.origin, "\(server.path)/.well-known/smart-configuration"))
        guard answer.status == 200 else { return nil }
        return (try? Configuration(json: answer.body))?.tokenEndpoint.flatMap { BaseURL($0) }
    }

    private func assertion(
        of clientID: String, for endpoint: BaseURL, _ key: Secret
    ) -> Secret? {
        var claims = JSONBytes()
        claims.raw(#"{"iss":"#)
        claims.string(clientID)
        claims.raw(#","sub":"#)
        claims.string(clientID)
        claims.raw(#","aud":"#)
        claims.string("\(endpoint.origin)\(endpoint.path)")
        claims.raw(#","exp":"#)
        let seconds = clock.read().wall.microseconds / 1_000_000
        claims.integer(Int(clamping: seconds) + Int(Self.assertionSeconds))
        claims.raw(#","jti":"#)
        claims.string(UUID().uuidString)
        claims.raw("}")
        return SigningKey(key.revealed)?.token(claims.bytes)
    }
}
