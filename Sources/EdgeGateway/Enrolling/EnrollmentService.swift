import Logging
import OfflineQueue
import Uplink

/// Takes invitations, practitioners' keys and files to deliver into.
struct EnrollmentService: Sendable {
    let settings: Settings
    let queue: SampleQueue
    let enrollments: Enrollments
    let changes: EnrollmentChanges
    let transport: Gateway.Transport
    let clock: any GatewayClock
    let logger: Logger

    /// Takes an invitation or a practitioner's key, and begins its delivery.
    ///
    /// - Throws: ``ProblemReport``; then nothing was stored.
    func enroll(_ request: EnrollRequest) async throws -> EnrollmentReport {
        try Self.check(resolution: request.resolution)
        try GivenName.check(request.name)
        try Self.check(person: request.person)
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

    private static func check(person: String?) throws {
        guard let person, NamedPerson(rawValue: person) == nil else { return }
        throw ProblemReport(
            code: .badRequest, message: "person is same or other",
            advice: "same: the one who was enrolled; other: somebody else with the number")
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
        do {
            return try await enroller(wishes).enroll(link)
        } catch {
            throw notEnrolled(error, at: link.origin(plainHTTP: wishes.plainHTTP) ?? wishes.server)
        }
    }

    private func enroller(_ wishes: EnrollSettings) -> Enroller {
        Enroller(transport: transport(settings.curl), clock: clock, settings: wishes)
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
        guard let access = enrolled.access, let account = enrolled.account else {
            throw ProblemReport(
                code: .notEnrolled, message: "the exchange names no patient",
                advice: "ask for an invitation of the patient")
        }
        let existing = try await queue.enrollments()
        let origin = "\(enrolled.tokens.origin)"
        let same = try Self.enrollment(of: account, at: origin, among: existing, request)
        let device = try Self.device(access, request.device, same)
        var terms = EnrollmentTerms(
            name: try EnrollmentName.choose(
                asked: request.name, insteadOf: same, beside: existing),
            origin: origin, fhirBase: enrolled.fhirBase,
            clientID: enrolled.tokens.clientID, patient: access.patient, device: device.id,
            codeSystem: access.code.system, code: access.code.code,
            identifierSystem: settings.identifierSystem)
        terms.patientFingerprints = [account.patient: account.fingerprint()]
        terms.isDeviceChosen = device.isByPerson
        terms.resolution =
            request.resolution ?? same?.terms.resolution ?? terms.resolution
        return try await begin(
            terms, insteadOf: same, .tokens(enrolled.tokens),
            hold: access.isConsented ? nil : .noConsent)
    }

    /// Which enrollment is that of an account's person; nil if a new one begins.
    ///
    /// - Throws: ``ProblemReport`` when the number was another person's, and nobody has said who it is.
    static func enrollment(
        of account: PatientAccount, at origin: String, among existing: [Enrollment],
        _ request: EnrollRequest
    ) throws -> Enrollment? {
        let invited = existing.filter {
            $0.terms.kind == .invitation && $0.terms.patient == account.patient
        }
        guard let name = request.moved else {
            return try enrollment(
                of: account, among: invited.filter { $0.terms.origin == origin }, request)
        }
        guard let moved = invited.named(name),
            try enrollment(of: account, among: [moved], request) != nil
        else { throw notMoved(name) }
        return moved
    }

    private static func notMoved(_ name: String) -> ProblemReport {
        ProblemReport(
            code: .unknownEnrollment,
            message: "\(name) is not the enrollment of the same patient or key",
            advice:
                "edge-gateway enrollments lists them; at an exchange that has moved the patient keeps "
                + "the number, and a key its client")
    }

    private static func enrollment(
        of account: PatientAccount, among known: [Enrollment], _ request: EnrollRequest
    ) throws -> Enrollment? {
        let named = known.first { $0.terms.name == request.name }
        let theirs = known.filter { $0.terms.knows(account) ?? true }
        let likely = named ?? theirs.first ?? known.last
        switch request.person.flatMap({ NamedPerson(rawValue: $0) }) {
        case .same: return likely
        case .other:
            // A person's word counts more than what the exchange tells, which may be too little to tell two people apart:
            // never the one that is taken without it. What it began is found again where they can be told apart.
            let isOther = theirs.count < known.count
            return isOther && theirs.first?.terms.knowsForCertain(account) == true
                ? theirs.first : theirs.first { $0.id != likely?.id }
        case nil:
            guard let likely, !theirs.contains(likely) else { return likely }
            throw ProblemReport(
                code: .patientChanged,
                message: "at the exchange the patient's number was another person's when "
                    + "\(likely.terms.name) was enrolled",
                advice:
                    "ask the study's staff who has the number. Somebody else: enroll again with "
                    + "--person other; what waits stays with \(likely.terms.name). The same person, whose "
                    + "record was corrected: --person same")
        }
    }

    /// The device that data are attributed to: the earlier one while it fits.
    ///
    /// - Throws: ``ProblemReport`` when a person has to choose.
    static func device(
        _ access: PatientAccess, _ asked: String?, _ earlier: Enrollment?
    ) throws -> DeviceChoice {
        let before = earlier.flatMap { earlier in
            earlier.terms.device.map {
                DeviceChoice(id: $0, isByPerson: earlier.terms.isDeviceChosen)
            }
        }
        if let device = access.device(asked: asked, earlier: before) { return device }
        let choices = access.devices.map { "\($0.id) (\($0.name))" }.joined(separator: ", ")
        guard !access.devices.isEmpty else {
            throw ProblemReport(
                code: .chooseDevice,
                message: "the patient's studies take heart rate from no personal device",
                advice: "ask the study's staff to add a data source of type personal device")
        }
        let message =
            if let asked {
                "the patient's studies do not take heart rate from device \(asked)"
            } else if let before, before.isByPerson {
                "the patient's studies take heart rate no more from device \(before.id), which was chosen"
            } else {
                "the patient's studies take heart rate from several devices"
            }
        throw ProblemReport(
            code: .chooseDevice, message: "\(message); they take it from: \(choices)",
            advice: "enroll again with --device ID")
    }

    /// Takes the person whom the exchange names now for the one whom the patient's number meant before.
    func confirmPerson(_ request: ConfirmPatientRequest) async throws -> EnrollmentReport {
        let enrollment = try await enrollments.named(request.enrollment)
        guard enrollment.terms.kind != .destination else {
            throw ProblemReport(
                code: .unknownEnrollment, message: "this is not an enrollment at an exchange",
                advice: "edge-gateway enrollments lists them")
        }
        let isOfMany = enrollment.terms.kind == .practitionerKey
        guard isOfMany == (request.patient != nil) else {
            throw ProblemReport(
                code: .badRequest,
                message: isOfMany
                    ? "the enrollment \(enrollment.terms.name) serves many patients"
                    : "the enrollment \(enrollment.terms.name) has one patient",
                advice: isOfMany ? "name the patient: --patient ID" : "leave --patient out")
        }
        guard request.patient.map(PatientAccess.isExchangeID) ?? true else {
            throw ProblemReport(
                code: .badRequest, message: "this is not a patient's number at an exchange",
                advice: "its ids are numbers, such as 40001; the exchange shows the patient's")
        }
        try await changes.confirmPerson(request.patient, of: enrollment)
        let confirmed = try await enrollments.named(enrollment.terms.name)
        return try await enrollments.report(on: confirmed)
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
        let keys = existing.filter { $0.terms.kind == .practitionerKey }
        let same: Enrollment?
        if let name = request.moved {
            guard let moved = keys.named(name), moved.terms.clientID == enrolled.tokens.clientID
            else { throw Self.notMoved(name) }
            same = moved
        } else {
            same = keys.first {
                $0.terms.origin == "\(origin)"
                    && (request.name == nil
                        ? $0.terms.clientID == enrolled.tokens.clientID
                        : $0.terms.name == request.name)
            }
        }
        var terms = EnrollmentTerms(
            name: try EnrollmentName.choose(
                asked: request.name, insteadOf: same, beside: existing),
            kind: .practitionerKey, origin: "\(origin)", fhirBase: enrolled.fhirBase,
            clientID: enrolled.tokens.clientID, device: request.device ?? same?.terms.device,
            codeSystem: same?.terms.codeSystem, code: same?.terms.code,
            identifierSystem: settings.identifierSystem)
        terms.isDeviceChosen = request.device != nil || same?.terms.isDeviceChosen ?? false
        terms.resolution = request.resolution ?? same?.terms.resolution ?? terms.resolution
        terms.patientFingerprints = same?.terms.patientFingerprints ?? [:]
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
