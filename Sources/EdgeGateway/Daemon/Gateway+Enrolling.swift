import Foundation
import Logging
import OfflineQueue
import Uplink

/// Enrollments as commands see them.
extension Gateway {
    /// Redeems an invitation and begins its lane.
    ///
    /// - Throws: ``ProblemReport``; then nothing was stored.
    func enroll(_ request: EnrollRequest) async throws -> EnrollmentReport {
        if let resolution = request.resolution, Resolution(rawValue: resolution) == nil {
            throw ProblemReport(
                code: "bad-request", message: "there is no resolution of that name",
                advice: "raw (one data point a frame), 10s or 60s (averages)")
        }
        let link: InvitationLink
        do {
            link = try InvitationLink(request.link)
        } catch {
            throw ProblemReport(
                code: "bad-link", message: "this is no invitation link: \(error)",
                advice: "copy the whole link from the exchange's invitation")
        }
        var wishes = EnrollSettings()
        wishes.plainHTTP = settings.plainHTTP
        wishes.device = request.device
        let enrolled: Enrolled
        do {
            let enroller = Enroller(
                transport: CurlTransport(settings.curl), clock: clock, settings: wishes)
            enrolled = try await enroller.enroll(link)
        } catch {
            logger.warning("enrollment failed: \(error)")
            throw ProblemReport(
                code: "not-enrolled", message: "not enrolled: \(error)",
                advice: "nothing was stored; recording goes on")
        }
        return try await store(enrolled, request)
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
                $0.terms.origin == origin && $0.terms.patient == standing.patient
            }
            var terms = EnrollmentTerms(
                name: same?.terms.name ?? request.name ?? Self.freeName(beside: existing),
                origin: origin, fhirBase: enrolled.fhirBase,
                clientID: enrolled.tokens.clientID, patient: standing.patient, device: device.id,
                codeSystem: standing.code.system, code: standing.code.code,
                identifierSystem: settings.identifierSystem)
            terms.resolution =
                request.resolution ?? same?.terms.resolution ?? terms.resolution
            let enrollment: Enrollment
            if let same {
                // The same patient at the same exchange again: new tokens for the lane there is.
                await lanes.stop(same.id)
                try saveTokens(enrolled.tokens, of: same.id)
                try await queue.updateEnrollment(same.id, terms: terms)
                try await queue.setState(enrollment: same.id, .active)
                try await queue.setHold(enrollment: same.id, reason: nil)
                enrollment = try await queue.enrollments().first { $0.id == same.id } ?? same
            } else {
                enrollment = try await queue.enroll(terms)
                do {
                    try saveTokens(enrolled.tokens, of: enrollment.id)
                } catch {
                    try await queue.setState(enrollment: enrollment.id, .enrollAgain)
                    throw error
                }
            }
            if !standing.isConsented {
                try await queue.setHold(
                    enrollment: enrollment.id, reason: HoldReason.noConsent.rawValue)
            }
            try await startLane(of: enrollment.id)
            logger.info("enrolled", metadata: ["enrollment": "\(enrollment.terms.name)"])
            guard
                let stored = try await queue.enrollments().first(where: { $0.id == enrollment.id })
            else { throw QueueError(.unknownReference, "enroll", "it is gone") }
            return try await report(on: stored)
        }
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
        TokenFile(path: settings.stateDirectory + "/tokens-\(enrollment).json")
    }

    private func report(on enrollment: Enrollment) async throws -> EnrollmentReport {
        let balance = try await queue.balance(of: .enrollment(enrollment.id))
        let last = try await queue.uploads(enrollment: enrollment.id, limit: Self.uploadsLookedAt)
            .first { $0.outcome == "delivered" }?.atMicroseconds
        return EnrollmentReport(
            name: enrollment.terms.name, exchange: enrollment.terms.origin,
            patient: enrollment.terms.patient, device: enrollment.terms.device,
            code: enrollment.terms.code ?? "", resolution: enrollment.terms.resolution,
            state: enrollment.state.rawValue,
            held: enrollment.holdReason, pending: balance.unsent, delivered: balance.delivered,
            dead: balance.dead, lastDelivery: last.map(Date.init(microseconds:)),
            tokenExpires: await lanes.tokenExpiry(of: enrollment.id)
                .map(Date.init(microseconds:)))
    }

    /// How far back the last delivery is looked for among the requests.
    private static let uploadsLookedAt = 100

    private static func freeName(beside existing: [Enrollment]) -> String {
        let taken = Set(existing.map(\.terms.name))
        return (1...existing.count + 1).lazy.map { "e\($0)" }.first { !taken.contains($0) } ?? "e"
    }
}

extension Date {
    init(microseconds: Int64) {
        self.init(timeIntervalSince1970: Double(microseconds) / 1_000_000)
    }
}
