import Foundation
import OfflineQueue
import Uplink

/// Enrollments without an invitation: by a practitioner's key, and into a file.
extension Gateway {
    /// Takes a practitioner's key. With the name of an enrollment by key at the same exchange, or
    /// the same OAuth client, the key goes to that one.
    func enroll(key: Secret, _ request: EnrollRequest) async throws -> EnrollmentReport {
        guard let origin = try exchange(of: request) else {
            throw ProblemReport(
                code: .badRequest, message: "the key does not say which exchange it is of",
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
        return try await asking {
            let existing = try await queue.enrollments()
            let same = existing.first {
                $0.terms.kind == .practitionerKey && $0.terms.origin == "\(origin)"
                    && (request.name == nil
                        ? $0.terms.clientID == enrolled.tokens.clientID
                        : $0.terms.name == request.name)
            }
            var terms = EnrollmentTerms(
                name: try Self.name(
                    asked: request.name, insteadOf: same, beside: existing),
                kind: .practitionerKey, origin: "\(origin)", fhirBase: enrolled.fhirBase,
                clientID: enrolled.tokens.clientID, device: request.device ?? same?.terms.device,
                codeSystem: same?.terms.codeSystem, code: same?.terms.code,
                identifierSystem: settings.identifierSystem)
            terms.resolution = request.resolution ?? same?.terms.resolution ?? terms.resolution
            return try await begin(terms, insteadOf: same, enrolled.tokens)
        }
    }

    /// Delivers into a file from now on.
    func enroll(file path: String, _ request: EnrollRequest) async throws -> EnrollmentReport {
        guard let origin = FilePlace.origin(path: path) else {
            throw ProblemReport(
                code: .badRequest, message: "this is no whole path of a file",
                advice: "such as /var/lib/edge-gateway/heart.ndjson")
        }
        try checkBeside(path)
        return try await asking {
            let existing = try await queue.enrollments()
            let same = existing.first { $0.terms.kind == .file && $0.terms.origin == origin }
            // A delivery holds the file locked; only a new one is tried.
            if same == nil, await !FileDestination(path: path).isHealthy() {
                throw ProblemReport(
                    code: .fileNotWritable, message: "\(path) cannot be opened for writing",
                    advice: "its directory must exist, and the daemon's user must own it")
            }
            let code = ObservationCode.omhHeartRate
            var terms = EnrollmentTerms(
                name: try Self.name(
                    asked: request.name, insteadOf: same, beside: existing),
                kind: .file, origin: origin, fhirBase: "", codeSystem: code.system,
                code: code.code, identifierSystem: settings.identifierSystem)
            terms.resolution = request.resolution ?? same?.terms.resolution ?? terms.resolution
            return try await begin(terms, insteadOf: same, nil)
        }
    }

    /// Nothing may be appended to the gateway's own files.
    private func checkBeside(_ path: String) throws {
        guard let refusal = GatewayFiles(settings: settings).refusal(of: path) else { return }
        throw ProblemReport(
            code: .badRequest, message: refusal,
            advice: "choose another directory, or another name that ends in .ndjson")
    }
}
