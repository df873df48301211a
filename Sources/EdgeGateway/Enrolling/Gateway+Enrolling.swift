import Foundation
import Logging
import OfflineQueue
import Uplink

/// A step of a change to an enrollment.
enum EnrollmentStep: String, CaseIterable {
    /// The tokens are stored, or removed.
    case tokens
    /// The enrollment is stored, or removed.
    case store
}

/// Enrollments as commands see them.
extension Gateway {
    /// Takes an invitation, a practitioner's key or a file, and begins its delivery.
    ///
    /// - Throws: ``ProblemReport``; then nothing was stored.
    func enroll(_ request: EnrollRequest) async throws -> EnrollmentReport {
        try Self.check(resolution: request.resolution)
        switch (request.link, request.practitionerKey, request.file) {
        case (let link?, nil, nil): return try await store(try await redeem(link, request), request)
        case (nil, let key?, nil): return try await enroll(key: Secret(key), request)
        case (nil, nil, let path?): return try await enroll(file: path, request)
        default:
            throw ProblemReport(
                code: .badRequest, message: "one of link, key and file is needed",
                advice: "edge-gateway enroll --help")
        }
    }

    static func check(resolution: String?) throws {
        guard let resolution, Resolution(rawValue: resolution) == nil else { return }
        throw ProblemReport(
            code: .badRequest, message: "there is no resolution of that name",
            advice: "raw (one data point a frame), 10s or 60s (averages)")
    }

    private func redeem(_ text: String, _ request: EnrollRequest) async throws -> Enrolled {
        let link: InvitationLink
        do {
            link = try InvitationLink(text)
        } catch {
            throw ProblemReport(
                code: .badLink, message: "\(error)",
                advice: "copy the whole link from the exchange's invitation")
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

    func enroller(_ wishes: EnrollSettings) -> Enroller {
        Enroller(transport: CurlTransport(settings.curl), clock: clock, settings: wishes)
    }

    func notEnrolled(_ fault: EnrollFault, at origin: Origin?) -> ProblemReport {
        logger.warning("enrollment failed: \(fault)")
        var words = "\(fault)"
        if case .transport(let cause) = fault, let origin {
            words = "the exchange could not be reached: \(cause.description(at: origin.host))"
        }
        return ProblemReport(
            code: .notEnrolled, message: "not enrolled: \(words)",
            advice: "nothing was stored; recording goes on")
    }

    /// The name of an enrollment: as asked for, or as the one has that it takes the place of.
    ///
    /// - Throws: ``ProblemReport`` when the name asked for is another enrollment's.
    static func name(
        asked: String?, insteadOf same: Enrollment?, beside existing: [Enrollment]
    ) throws -> String {
        guard let asked else { return same?.terms.name ?? freeName(beside: existing) }
        if let same, same.terms.name != asked {
            throw ProblemReport(
                code: .nameTaken,
                message: "this is the enrollment \(same.terms.name); it is not made a second time",
                advice: "enroll again with --name \(same.terms.name), or without a name")
        }
        guard same != nil || !existing.contains(where: { $0.terms.name == asked }) else {
            throw ProblemReport(
                code: .nameTaken, message: "the name \(asked) is another enrollment's",
                advice: "choose another --name; edge-gateway enrollments lists them")
        }
        return asked
    }

    /// The exchange a request names, with a scheme or without.
    func exchange(of request: EnrollRequest) throws -> Origin? {
        guard let text = request.exchange else { return nil }
        let named =
            text.contains("://")
            ? Origin(text) : Origin(authority: text, plainHTTP: settings.plainHTTP)
        guard let named else {
            throw ProblemReport(
                code: .badRequest, message: "this is no exchange's address",
                advice: "such as https://exchange.example")
        }
        return named
    }

    /// Every enrollment with the state of its delivery.
    func enrollments() async throws -> [EnrollmentReport] {
        try await asking {
            var reports: [EnrollmentReport] = []
            for enrollment in try await queue.enrollments() {
                reports.append(try await report(on: enrollment))
            }
            return reports
        }
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
        return try await asking {
            let existing = try await queue.enrollments()
            let origin = "\(enrolled.tokens.origin)"
            let same = existing.first {
                $0.terms.kind == .invitation && $0.terms.origin == origin
                    && $0.terms.patient == access.patient
            }
            var terms = EnrollmentTerms(
                name: try Self.name(
                    asked: request.name, insteadOf: same, beside: existing),
                origin: origin, fhirBase: enrolled.fhirBase,
                clientID: enrolled.tokens.clientID, patient: access.patient, device: device.id,
                codeSystem: access.code.system, code: access.code.code,
                identifierSystem: settings.identifierSystem)
            terms.resolution =
                request.resolution ?? same?.terms.resolution ?? terms.resolution
            return try await begin(
                terms, insteadOf: same, enrolled.tokens,
                hold: access.isConsented ? nil : .noConsent)
        }
    }

    /// Stores an enrollment and starts its delivery; with `insteadOf`, in the place of an earlier one for the
    /// same patient. If a step fails, everything is as it was, and an earlier delivery goes on.
    func begin(
        _ terms: EnrollmentTerms, insteadOf known: Enrollment?, _ tokens: TokenRecord?,
        hold: HoldReason? = nil
    ) async throws -> EnrollmentReport {
        let id: Int64 = try await changingEnrollments {
            guard let known else { return try await add(terms, tokens, hold: hold?.rawValue) }
            return try await renew(known, terms, tokens, hold: hold?.rawValue)
        }
        logger.info("enrolled", metadata: ["enrollment": "\(terms.name)"])
        guard let stored = try await queue.enrollments().first(where: { $0.id == id }) else {
            throw QueueError(.unknownReference, "enroll", "it is gone")
        }
        return try await report(on: stored)
    }

    /// The tokens are stored first: that is what fails on a disk that is full or read-only.
    private func add(
        _ terms: EnrollmentTerms, _ tokens: TokenRecord?, hold: String?
    ) async throws -> Int64 {
        let id = try await queue.nextEnrollmentID()
        let file = tokenFile(of: id)
        try failing(.tokens)
        if let tokens { try saveTokens(tokens, in: file) }
        do {
            try failing(.store)
            try await queue.enroll(terms, as: id, hold: hold)
        } catch {
            if tokens != nil { try? file.remove() }
            throw error
        }
        // From here on the enrollment is complete: a delivery that does not start is started later.
        try? await startDelivery(of: id)
        return id
    }

    private func renew(
        _ known: Enrollment, _ terms: EnrollmentTerms, _ tokens: TokenRecord?, hold: String?
    ) async throws -> Int64 {
        let file = tokenFile(of: known.id)
        // A delivery that runs may renew the tokens that are being replaced.
        await deliveries.stop(known.id)
        do {
            try await replace(known.id, terms, tokens, in: file, hold: hold)
        } catch {
            try? await startDelivery(of: known.id)
            throw error
        }
        try? await startDelivery(of: known.id)
        return known.id
    }

    private func replace(
        _ id: Int64, _ terms: EnrollmentTerms, _ tokens: TokenRecord?, in file: TokenFile,
        hold: String?
    ) async throws {
        let earlier = try? file.load()
        try failing(.tokens)
        if let tokens { try saveTokens(tokens, in: file) }
        do {
            try failing(.store)
            try await queue.renewEnrollment(id, terms: terms, hold: hold)
        } catch {
            guard tokens != nil, let earlier else { throw error }
            do {
                try file.save(earlier)
            } catch let fault {
                // The new tokens are for the same patient, and serve as well.
                logger.error("put the earlier tokens back", metadata: ["fault": "\(fault)"])
            }
            throw error
        }
    }

    private func saveTokens(_ tokens: TokenRecord, in file: TokenFile) throws {
        do {
            try file.save(tokens)
        } catch {
            throw ProblemReport(
                code: .tokensNotStored, message: "nothing was changed: \(error)",
                advice: "make the state directory writable, then enroll with the same link again")
        }
    }

    func tokenFile(of enrollment: Int64) -> TokenFile {
        TokenFile(
            path: settings.stateDirectory + "/tokens-\(enrollment).json",
            policy: settings.sealTokens)
    }

    private func report(on enrollment: Enrollment) async throws -> EnrollmentReport {
        let balance = try await queue.balance(of: .enrollment(enrollment.id))
        let last = try await queue.uploads(enrollment: enrollment.id, limit: Self.uploadsLookedAt)
            .first { $0.outcome == "delivered" }?.atMicroseconds
        let held = await deliveries.heldPatients(of: enrollment.id).values
            .reduce(into: [String: Int]()) { $0[$1.rawValue, default: 0] += 1 }
        return EnrollmentReport(
            name: enrollment.terms.name, kind: enrollment.terms.kind.rawValue,
            exchange: enrollment.terms.origin,
            patient: enrollment.terms.patient, device: enrollment.terms.device,
            code: enrollment.terms.code ?? "", resolution: enrollment.terms.resolution,
            state: enrollment.state.rawValue,
            held: enrollment.holdReason, heldPatients: held.isEmpty ? nil : held,
            pending: balance.unsent, delivered: balance.delivered,
            dead: balance.dead, lastDelivery: last.map(Date.init(microseconds:)),
            tokenExpires: await deliveries.tokenExpiry(of: enrollment.id)
                .map(Date.init(microseconds:)))
    }

    /// How far back the last delivery is looked for among the requests.
    private static let uploadsLookedAt = 100

    static func freeName(beside existing: [Enrollment]) -> String {
        let taken = Set(existing.map(\.terms.name))
        return (1...existing.count + 1).lazy.map { "e\($0)" }.first { !taken.contains($0) } ?? "e"
    }
}

extension Date {
    init(microseconds: Int64) {
        self.init(timeIntervalSince1970: Double(microseconds) / 1_000_000)
    }
}
