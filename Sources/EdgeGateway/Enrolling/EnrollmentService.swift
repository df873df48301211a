import Logging
import OfflineQueue
import Uplink

/// Takes invitations, practitioners' keys and files to deliver into.
struct EnrollmentService: Sendable {
    let settings: Settings
    let queue: SampleQueue
    let enrollments: Enrollments
    let changes: EnrollmentChanges
    let clock: any GatewayClock
    let logger: Logger

    /// Takes an invitation or a practitioner's key, and begins its delivery.
    ///
    /// - Throws: ``ProblemReport``; then nothing was stored.
    func enroll(_ request: EnrollRequest) async throws -> EnrollmentReport {
        try Self.check(resolution: request.resolution)
        try GivenName.check(request.name)
        switch (request.link, request.practitionerKey) {
        case (let link?, nil): return try await store(try await redeem(link, request), request)
        case (nil, let key?): return try await enroll(key: Secret(key), request)
        default:
            throw ProblemReport(
                code: .badRequest, message: "a link or a key is needed",
                advice: "edge-gateway enroll --help")
        }
    }

    /// Refuses a new enrollment that cannot be made, before a person goes for a phone.
    func check(_ ask: WebEnrollRequest) throws {
        try Self.check(resolution: ask.resolution)
        try GivenName.check(ask.name)
    }

    static func check(resolution: String?) throws {
        guard let resolution, Resolution(rawValue: resolution) == nil else { return }
        throw ProblemReport(
            code: .badRequest, message: "unknown resolution",
            advice: "raw: a data point per frame; 10s or 60s: averages")
    }

    private func redeem(_ text: String, _ request: EnrollRequest) async throws -> Enrolled {
        let link: InvitationLink
        do {
            link = try InvitationLink(text)
        } catch {
            throw ProblemReport(code: .badLink, message: "\(error)", advice: error.advice)
        }
        var wishes = EnrollSettings()
        wishes.plainHTTP = settings.plainHTTP
        wishes.server = try exchange(of: request)
        wishes.clientID = request.clientID
        wishes.verifier = request.verifier.map { Secret($0) }
        wishes.device = request.device
        do {
            return try await enroller(wishes).enroll(link)
        } catch {
            throw notEnrolled(error, at: link.origin(plainHTTP: wishes.plainHTTP) ?? wishes.server)
        }
    }

    private func enroller(_ wishes: EnrollSettings) -> Enroller {
        Enroller(transport: CurlTransport(settings.curl), clock: clock, settings: wishes)
    }

    private func notEnrolled(_ fault: EnrollFault, at origin: Origin?) -> ProblemReport {
        logger.warning("enrollment failed: \(fault)")
        var words = "\(fault)"
        if case .transport(let cause) = fault, let origin {
            words = "the exchange could not be reached: \(cause.description(at: origin.host))"
        }
        return ProblemReport(
            code: .notEnrolled, message: "not enrolled: \(words)",
            advice: "nothing was stored; recording goes on")
    }

    /// The exchange a request names, with a scheme or without.
    private func exchange(of request: EnrollRequest) throws -> Origin? {
        guard let text = request.exchange else { return nil }
        let named =
            text.contains("://")
            ? Origin(text) : Origin(authority: text, plainHTTP: settings.plainHTTP)
        guard let named else {
            throw ProblemReport(
                code: .badRequest, message: "this is not the address of an exchange",
                advice: "such as https://exchange.example")
        }
        return named
    }

    private func store(
        _ enrolled: Enrolled, _ request: EnrollRequest
    ) async throws -> EnrollmentReport {
        guard let access = enrolled.access else {
            throw ProblemReport(
                code: .notEnrolled, message: "the exchange names no patient",
                advice: "ask for an invitation of the patient")
        }
        guard let device = enrolled.device else {
            let choices = access.devices.map { "\($0.id) (\($0.name))" }.joined(separator: ", ")
            throw ProblemReport(
                code: .chooseDevice,
                message: access.devices.isEmpty
                    ? "the patient's studies take heart rate from no personal device"
                    : "the patient's studies take heart rate from several devices: \(choices)",
                advice: access.devices.isEmpty
                    ? "ask the study's staff to add a data source of type personal device"
                    : "enroll again with --device ID")
        }
        let existing = try await queue.enrollments()
        let origin = "\(enrolled.tokens.origin)"
        let same = existing.first {
            $0.terms.kind == .invitation && $0.terms.origin == origin
                && $0.terms.patient == access.patient
        }
        var terms = EnrollmentTerms(
            name: try EnrollmentName.choose(
                asked: request.name, insteadOf: same, beside: existing),
            origin: origin, fhirBase: enrolled.fhirBase,
            clientID: enrolled.tokens.clientID, patient: access.patient, device: device.id,
            codeSystem: access.code.system, code: access.code.code,
            identifierSystem: settings.identifierSystem)
        terms.resolution =
            request.resolution ?? same?.terms.resolution ?? terms.resolution
        return try await begin(
            terms, insteadOf: same, .tokens(enrolled.tokens),
            hold: access.isConsented ? nil : .noConsent)
    }

    // MARK: - Without an invitation

    /// Takes a practitioner's key. With the name of an enrollment by key at the same exchange, or
    /// the same OAuth client, the key goes to that one.
    private func enroll(key: Secret, _ request: EnrollRequest) async throws -> EnrollmentReport {
        guard let origin = try exchange(of: request) else {
            throw ProblemReport(
                code: .badRequest, message: "the key does not name its exchange",
                advice: "enroll again with --exchange https://exchange.example")
        }
        var wishes = EnrollSettings()
        wishes.plainHTTP = settings.plainHTTP
        let enrolled: Enrolled
        do {
            enrolled = try await enroller(wishes).enroll(practitionerKey: key, at: origin)
        } catch {
            throw notEnrolled(error, at: origin)
        }
        let existing = try await queue.enrollments()
        let same = existing.first {
            $0.terms.kind == .practitionerKey && $0.terms.origin == "\(origin)"
                && (request.name == nil
                    ? $0.terms.clientID == enrolled.tokens.clientID
                    : $0.terms.name == request.name)
        }
        var terms = EnrollmentTerms(
            name: try EnrollmentName.choose(
                asked: request.name, insteadOf: same, beside: existing),
            kind: .practitionerKey, origin: "\(origin)", fhirBase: enrolled.fhirBase,
            clientID: enrolled.tokens.clientID, device: request.device ?? same?.terms.device,
            codeSystem: same?.terms.codeSystem, code: same?.terms.code,
            identifierSystem: settings.identifierSystem)
        terms.resolution = request.resolution ?? same?.terms.resolution ?? terms.resolution
        return try await begin(terms, insteadOf: same, .tokens(enrolled.tokens))
    }

    private func begin(
        _ terms: EnrollmentTerms, insteadOf known: Enrollment?, _ credentials: Credentials,
        hold: HoldReason? = nil
    ) async throws -> EnrollmentReport {
        let stored = try await changes.begin(terms, insteadOf: known, credentials, hold: hold)
        return try await enrollments.report(on: stored)
    }
}
