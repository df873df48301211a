import Foundation
import Logging
import OfflineQueue
import Uplink

/// Enrollments as commands see them.
extension Gateway {
    /// Takes an invitation, a practitioner's key or a file, and begins its lane.
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
                code: "bad-request", message: "one of link, key and file is needed",
                advice: "edge-gateway enroll --help")
        }
    }

    static func check(resolution: String?) throws {
        guard let resolution, Resolution(rawValue: resolution) == nil else { return }
        throw ProblemReport(
            code: "bad-request", message: "there is no resolution of that name",
            advice: "raw (one data point a frame), 10s or 60s (averages)")
    }

    private func redeem(_ text: String, _ request: EnrollRequest) async throws -> Enrolled {
        let link: InvitationLink
        do {
            link = try InvitationLink(text)
        } catch {
            throw ProblemReport(
                code: "bad-link", message: "\(error)",
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
            throw notEnrolled(error)
        }
    }

    func enroller(_ wishes: EnrollSettings) -> Enroller {
        Enroller(transport: CurlTransport(settings.curl), clock: clock, settings: wishes)
    }

    func notEnrolled(_ fault: EnrollFault) -> ProblemReport {
        logger.warning("enrollment failed: \(fault)")
        return ProblemReport(
            code: "not-enrolled", message: "not enrolled: \(fault)",
            advice: "nothing was stored; recording goes on")
    }

    /// The exchange a request names, with a scheme or without.
    func exchange(of request: EnrollRequest) throws -> Origin? {
        guard let text = request.exchange else { return nil }
        let named =
            text.contains("://")
            ? Origin(text) : Origin(authority: text, plainHTTP: settings.plainHTTP)
        guard let named else {
            throw ProblemReport(
                code: "bad-request", message: "this is no exchange's address",
                advice: "such as https://exchange.example")
        }
        return named
    }

    /// Every enrollment with the state of its lane.
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
        guard let standing = enrolled.standing else {
            throw ProblemReport(
                code: "not-enrolled", message: "the exchange names no patient",
                advice: "ask for an invitation of the patient")
        }
        guard let device = enrolled.device else {
            let choices = standing.devices.map { "\($0.id) (\($0.name))" }.joined(separator: ", ")
            throw ProblemReport(
                code: "choose-device",
                message: standing.devices.isEmpty
                    ? "the patient's studies take heart rate from no personal device"
                    : "the patient's studies take heart rate from several devices: \(choices)",
                advice: standing.devices.isEmpty
                    ? "ask the study's staff to add a data source of type personal device"
                    : "enroll again with --device ID")
        }
        return try await asking {
            let existing = try await queue.enrollments()
            let origin = "\(enrolled.tokens.origin)"
            let same = existing.first {
                $0.terms.kind == .invitation && $0.terms.origin == origin
                    && $0.terms.patient == standing.patient
            }
            var terms = EnrollmentTerms(
                name: same?.terms.name ?? request.name ?? Self.freeName(beside: existing),
                origin: origin, fhirBase: enrolled.fhirBase,
                clientID: enrolled.tokens.clientID, patient: standing.patient, device: device.id,
                codeSystem: standing.code.system, code: standing.code.code,
                identifierSystem: settings.identifierSystem)
            terms.resolution =
                request.resolution ?? same?.terms.resolution ?? terms.resolution
            return try await begin(
                terms, insteadOf: same?.id, enrolled.tokens,
                hold: standing.isConsented ? nil : .noConsent)
        }
    }

    /// Writes an enrollment down and begins its lane; new terms and tokens go to the lane there is.
    func begin(
        _ terms: EnrollmentTerms, insteadOf known: Int64?, _ tokens: TokenRecord?,
        hold: HoldReason? = nil
    ) async throws -> EnrollmentReport {
        let id: Int64
        if let known {
            id = known
            await lanes.stop(id)
            if let tokens { try saveTokens(tokens, of: id) }
            try await queue.updateEnrollment(id, terms: terms)
            try await queue.setState(enrollment: id, .active)
            try await queue.setHold(enrollment: id, reason: nil)
        } else {
            id = try await queue.enroll(terms).id
            do {
                if let tokens { try saveTokens(tokens, of: id) }
            } catch {
                try await queue.setState(enrollment: id, .enrollAgain)
                throw error
            }
        }
        if let hold { try await queue.setHold(enrollment: id, reason: hold.rawValue) }
        try await startLane(of: id)
        logger.info("enrolled", metadata: ["enrollment": "\(terms.name)"])
        guard let stored = try await queue.enrollments().first(where: { $0.id == id }) else {
            throw QueueError(.unknownReference, "enroll", "it is gone")
        }
        return try await report(on: stored)
    }

    private func saveTokens(_ tokens: TokenRecord, of enrollment: Int64) throws {
        do {
            try tokenFile(of: enrollment).save(tokens)
        } catch {
            throw ProblemReport(
                code: "tokens-not-stored", message: "\(error)",
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
        let held = await lanes.heldPatients(of: enrollment.id).values
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
            tokenExpires: await lanes.tokenExpiry(of: enrollment.id)
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
