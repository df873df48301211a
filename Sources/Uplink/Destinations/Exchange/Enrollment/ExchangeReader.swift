import Foundation

/// Asks an exchange who this gateway is there, and what it may deliver.
public struct ExchangeReader: Sendable {
    /// Why a question was not answered.
    public enum Fault: Error, Hashable, Sendable {
        /// The access token is not taken.
        case unauthorized
        /// There is no access token to ask with.
        case noToken(TokenFault)
        /// The exchange answered with this HTTP status.
        case status(Int)
        /// The exchange sends its clients elsewhere.
        case redirect(Redirect)
        /// A page for people, or nothing, with this HTTP status: of a proxy, or of the server software.
        case page(Int)
        /// The answer could not be understood.
        case unreadable
        /// No answer came.
        case transport(TransportFault)
    }

    /// The FHIR bases of the exchanges in the field, newest first.
    public static let fhirBases = ["/FHIR/R5/", "/fhir/r5/"]

    let transport: any HTTPTransport
    let origin: Origin

    /// A reader of `origin`.
    public init(transport: any HTTPTransport, origin: Origin) {
        self.transport = transport
        self.origin = origin
    }

    /// Finds the FHIR base by asking without a token: 404 means there is none at that path. Nil
    /// when neither is there.
    public func fhirBase() async throws(Fault) -> String? {
        for base in Self.fhirBases {
            let answer = try await ask(base, token: nil)
            switch answer.status {
            case 404: continue
            case _ where !answer.isDocument: throw .page(answer.status)
            case 200..<500: return base
            default: throw .status(answer.status)
            }
        }
        return nil
    }

    /// The patient's account behind `token`; nil when the account is no patient's.
    public func account(token: Secret) async throws(Fault) -> PatientAccount? {
        let profile = try await read(ProfileDocument.self, "/api/v1/users/profile", token)
        guard let patient = profile.patient else { return nil }
        let consents = try await read(
            ConsentsDocument.self, "/api/v1/patients/\(patient.id.text)/consents", token)
        return PatientAccount(patient: patient.id.text, consents, profile)
    }

    /// The access to deliver for `patient`; nil when no study of theirs asks for heart rate.
    ///
    /// Several devices are narrowed down to those registered for this gateway's own OAuth client,
    /// if any are.
    public func access(
        patient: String, clientID: String, token: Secret
    ) async throws(Fault) -> PatientAccess? {
        let consents = try await read(
            ConsentsDocument.self, "/api/v1/patients/\(patient)/consents", token)
        guard var access = PatientAccess(patient: patient, consents: consents) else { return nil }
        guard access.devices.count > 1 else { return access }
        // A courtesy to the technician only: without an answer all candidates are offered.
        if let own = try? await ownDevices(clientID: clientID, token: token) {
            let narrowed = access.devices.filter { own.contains($0.id) }
            if !narrowed.isEmpty { access.devices = narrowed }
        }
        return access
    }

    /// Why samples of a patient who has not consented are not taken: there may be nothing to consent to.
    func missingConsent(of patient: String, token: Secret) async throws(Fault) -> HoldReason {
        let consents = try await read(
            ConsentsDocument.self, "/api/v1/patients/\(patient)/consents", token)
        let studies = (consents.studies ?? []) + (consents.studiesPendingConsent ?? [])
        if studies.isEmpty { return .studyGone }
        return PatientAccess(patient: patient, consents: consents) == nil
            ? .heartRateNotAsked : .noConsent
    }

    /// Whether RR intervals may be sent for the patient.
    func intervals(of patient: String, token: Secret) async throws(Fault) -> IntervalAccess {
        IntervalAccess(
            try await read(
                ConsentsDocument.self, "/api/v1/patients/\(patient)/consents", token))
    }

    /// Throws unless the exchange and its database work, as far as can be seen from here. The profile needs
    /// the database; `/health` would answer without one.
    public func checkHealth(token: Secret) async throws(Fault) {
        _ = try await read(
            ProfileDocument.self, "/api/v1/users/profile", token,
            timeout: Self.healthTimeout)
    }

    /// Throws unless the exchange answers a question for which it reads observations: while their table is locked it
    /// answers all others. Any answer of its own will do, since a request that is answered is not under way.
    ///
    /// It is asked for an observation that nobody has, by its number: a glance into an index.
    func checkObservations(below base: String, token: Secret) async throws(Fault) {
        let answer = try await ask(
            base + "Observation?_id=0&_count=1", token: token, Self.healthTimeout)
        guard [502, 503, 504].contains(answer.status) else { return }
        throw answer.isDocument ? .status(answer.status) : .page(answer.status)
    }

    /// An exchange that takes longer to read one row is not healthy.
    private static let healthTimeout = Duration.seconds(10)

    private func ownDevices(clientID: String, token: Secret) async throws(Fault) -> Set<String> {
        let clients = try await read(ListDocument<ClientDocument>.self, "/api/v1/clients", token)
        guard let own = clients.elements.first(where: { $0.clientId == clientID }) else {
            return []
        }
        let sources = try await read(
            ListDocument<DataSourceDocument>.self, "/api/v1/clients/\(own.id.text)/data_sources",
            token)
        return Set(sources.elements.map(\.id.text))
    }

    private func read<Document: Decodable>(
        _ type: Document.Type, _ target: String, _ token: Secret, timeout: Duration? = nil
    ) async throws(Fault) -> Document {
        let answer = try await ask(target, token: token, timeout)
        switch answer.status {
        case 200: break
        case 401 where answer.isDocument: throw .unauthorized
        case _ where !answer.isDocument && answer.status >= 400: throw .page(answer.status)
        default: throw .status(answer.status)
        }
        guard let document = try? JSONDecoder().decode(type, from: Data(answer.body)) else {
            throw .unreadable
        }
        return document
    }

    private func ask(
        _ target: String, token: Secret?, _ timeout: Duration? = nil
    ) async throws(Fault) -> HTTPAnswer {
        var request = HTTPRequest(.get, origin, target)
        request.timeout = timeout
        let answer: HTTPAnswer
        do {
            answer = try await transport.send(token.map { request.authorized(by: $0) } ?? request)
        } catch {
            throw .transport(error)
        }
        if let redirect = Redirect(answer, of: origin) { throw .redirect(redirect) }
        return answer
    }
}
