import Foundation
import OfflineQueue

/// The options that an operator may add to an enrollment.
public struct EnrollSettings: Sendable {
    /// When plain http is acceptable.
    public var plainHTTP: Origin.PlainHTTP = .loopback
    /// The exchange, for links that name none.
    public var server: Origin?
    /// For links of older exchanges: the OAuth client, its verifier and its redirect address.
    public var clientID: String?
    /// See `clientID`.
    public var verifier: Secret?
    /// See `clientID`. When nil, the address the exchange registers by itself is used.
    public var redirectURI: String?

    /// No additions.
    public init() {}
}

/// A finished enrollment, not stored yet.
public struct Enrolled: Sendable {
    /// The secret part, for the token file.
    public var tokens: TokenRecord
    /// Path of the exchange's FHIR base, with both slashes.
    public var fhirBase: String
    /// The patient with code and devices; nil for a practitioner key, which serves many patients.
    public var access: PatientAccess?
    /// The patient's account; nil for a practitioner key.
    public var account: PatientAccount?
}

/// Turns an invitation link or a practitioner key into an enrollment.
public struct Enroller: Sendable {
    let transport: any HTTPTransport
    let clock: any GatewayClock
    let settings: EnrollSettings

    /// How often an invitation is redeemed in one enrollment: its codes live 60 s, and an answer
    /// may be lost after the code was used up.
    static let redemptionsMax = 3

    /// Enrolls over this transport, by this clock.
    public init(
        transport: any HTTPTransport, clock: any GatewayClock,
        settings: EnrollSettings = EnrollSettings()
    ) {
        self.transport = transport
        self.clock = clock
        self.settings = settings
    }

    /// Enrolls with an invitation. Nothing is stored; on a fault nothing needs undoing, and a link
    /// of the current kind can be tried again.
    public func enroll(_ link: InvitationLink) async throws(EnrollFault) -> Enrolled {
        guard let origin = link.origin(plainHTTP: settings.plainHTTP) ?? settings.server else {
            throw .noServer
        }
        let client = GrantClient(transport: transport, origin: origin, clock: clock)
        let reader = ExchangeReader(transport: transport, origin: origin)
        // Before anything is used up: is this an exchange at all?
        guard
            let fhirBase = try await translating({ () throws(ExchangeReader.Fault) in
                try await reader.fhirBase()
            })
        else { throw .notAnExchange }

        let tokens = try await firstTokens(link, client)
        let token = tokens.pair.access
        let account = try await translating { () throws(ExchangeReader.Fault) in
            try await reader.account(token: token)
        }
        guard let account else { throw .notAPatient }
        let access = try await translating { () throws(ExchangeReader.Fault) in
            try await reader.access(
                patient: account.patient, clientID: tokens.clientID, token: token)
        }
        guard let access else { throw .heartRateNotAsked }
        return Enrolled(tokens: tokens, fhirBase: fhirBase, access: access, account: account)
    }

    /// Enrolls with a practitioner's API key, the base64 of `client id:client secret`.
    public func enroll(
        practitionerKey: Secret, at origin: Origin
    ) async throws(EnrollFault) -> Enrolled {
        let text = practitionerKey.revealed.trimmingCharacters(in: .whitespacesAndNewlines)
        guard let (clientID, secret) = PractitionerKeyFile.parts(text) else { throw .keyRefused }
        let reader = ExchangeReader(transport: transport, origin: origin)
        guard
            let fhirBase = try await translating({ () throws(ExchangeReader.Fault) in
                try await reader.fhirBase()
            })
        else { throw .notAnExchange }
        let client = GrantClient(transport: transport, origin: origin, clock: clock)
        switch await client.mint(clientID: clientID, secret: secret) {
        case .granted(let pair):
            return Enrolled(
                tokens: TokenRecord(
                    origin: origin, clientID: clientID,
                    credential: .practitionerKey(clientID: clientID, secret: secret), pair: pair),
                fhirBase: fhirBase, access: nil, account: nil)
        case .refused: throw .keyRefused
        case .unclear: throw .serverTrouble(status: nil)
        case .notSent(let fault): throw .transport(fault)
        }
    }

    private func firstTokens(
        _ link: InvitationLink, _ client: GrantClient
    ) async throws(EnrollFault) -> TokenRecord {
        switch link {
        case .token(_, let token):
            return try await client.redeemAndExchange(token, attemptsMax: Self.redemptionsMax)
        case .prefilled(_, let clientID, let code, let verifier):
            return try await once(client, clientID: clientID, code: code, verifier: verifier)
        case .bare(_, let code):
            guard let clientID = settings.clientID, let verifier = settings.verifier else {
                throw .needsClient
            }
            return try await once(client, clientID: clientID, code: code, verifier: verifier)
        }
    }

    /// The single attempt a link of an older exchange is good for.
    private func once(
        _ client: GrantClient, clientID: String, code: Secret, verifier: Secret
    ) async throws(EnrollFault) -> TokenRecord {
        let grant = InvitationGrant(
            clientID: clientID, code: code,
            redirectURI: settings.redirectURI ?? "\(client.origin)/auth/callback",
            tokenTarget: GrantClient.tokenTarget)
        switch await client.exchange(grant, verifier: verifier) {
        case .granted(let pair):
            return TokenRecord(
                origin: client.origin, clientID: clientID, credential: .none, pair: pair)
        case .refused: throw .refused
        case .unclear: throw .serverTrouble(status: nil)
        case .notSent(let fault): throw .transport(fault)
        }
    }

    private func translating<Value: Sendable>(
        _ question: () async throws(ExchangeReader.Fault) -> Value
    ) async throws(EnrollFault) -> Value {
        do {
            return try await question()
        } catch {
            switch error {
            case .unauthorized, .noToken: throw .refused
            case .status(let status) where status >= 500: throw .serverTrouble(status: status)
            case .redirect(let redirect): throw .redirected(redirect)
            case .status: throw .notAnExchange
            case .page(400): throw .hostNotAccepted
            case .page(let status) where status >= 500 || [401, 403, 429].contains(status):
                throw .serverTrouble(status: status)
            case .page: throw .notAnExchange
            case .unreadable: throw .unreadable
            case .transport(let fault): throw .transport(fault)
            }
        }
    }
}

extension GrantClient {
    /// Redeems the invitation that brought the first tokens once more.
    func redeemAgain(_ invitation: Secret) async -> Result<TokenRecord, EnrollFault> {
        do {
            return .success(
                try await redeemAndExchange(invitation, attemptsMax: Enroller.redemptionsMax))
        } catch {
            return .failure(error)
        }
    }

    /// Redeems an invitation and exchanges its code, again from the start when the code was too old
    /// or the answer to the exchange was lost.
    func redeemAndExchange(
        _ token: Secret, attemptsMax: Int
    ) async throws(EnrollFault) -> TokenRecord {
        var fault = EnrollFault.refused
        for _ in 0..<attemptsMax {
            let grant = try await redeem(token)
            switch await exchange(grant, verifier: Self.verifier(of: token)) {
            case .granted(let pair):
                return TokenRecord(
                    origin: origin, clientID: grant.clientID, credential: .invitation(token),
                    pair: pair)
            case .refused(.invalidGrant): fault = .refused
            case .refused(.invalidClient): throw .refused
            case .unclear: fault = .serverTrouble(status: nil)
            case .notSent(let cause): fault = .transport(cause)
            }
        }
        throw fault
    }
}
