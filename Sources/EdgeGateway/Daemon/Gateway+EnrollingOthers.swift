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
                code: "bad-request", message: "the key does not say which exchange it is of",
                advice: "enroll again with --exchange https://exchange.example")
        }
        var wishes = EnrollSettings()
        wishes.plainHTTP = settings.plainHTTP
        let enrolled: Enrolled
        do {
            enrolled = try await enroller(wishes).enroll(practitionerKey: key, at: origin)
        } catch {
            throw notEnrolled(error)
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
                name: same?.terms.name ?? request.name ?? Self.freeName(beside: existing),
                kind: .practitionerKey, origin: "\(origin)", fhirBase: enrolled.fhirBase,
                clientID: enrolled.tokens.clientID, device: request.device ?? same?.terms.device,
                codeSystem: same?.terms.codeSystem, code: same?.terms.code,
                identifierSystem: settings.identifierSystem)
            terms.resolution = request.resolution ?? same?.terms.resolution ?? terms.resolution
            return try await begin(terms, insteadOf: same?.id, enrolled.tokens)
        }
    }

    /// Delivers into a file from now on.
    func enroll(file path: String, _ request: EnrollRequest) async throws -> EnrollmentReport {
        guard let origin = FilePlace.origin(path: path) else {
            throw ProblemReport(
                code: "bad-request", message: "this is no whole path of a file",
                advice: "such as /var/lib/edge-gateway/heart.ndjson")
        }
        try checkBeside(path)
        return try await asking {
            let existing = try await queue.enrollments()
            let same = existing.first { $0.terms.kind == .file && $0.terms.origin == origin }
            // A lane holds the file locked; only a new one is tried.
            if same == nil, await !FileDestination(path: path).isHealthy() {
                throw ProblemReport(
                    code: "file-not-writable", message: "\(path) cannot be opened for writing",
                    advice: "its directory must exist, and the daemon's user must own it")
            }
            let code = ObservationCode.omhHeartRate
            var terms = EnrollmentTerms(
                name: same?.terms.name ?? request.name ?? Self.freeName(beside: existing),
                kind: .file, origin: origin, fhirBase: "", codeSystem: code.system,
                code: code.code, identifierSystem: settings.identifierSystem)
            terms.resolution = request.resolution ?? same?.terms.resolution ?? terms.resolution
            return try await begin(terms, insteadOf: same?.id, nil)
        }
    }

    /// The gateway's own files are in the state directory: nothing may be appended to those.
    private func checkBeside(_ path: String) throws {
        let place = URL(filePath: path).standardizedFileURL.resolvingSymlinksInPath()
        let state = URL(filePath: settings.stateDirectory).standardizedFileURL
            .resolvingSymlinksInPath()
        guard place.deletingLastPathComponent().path == state.path, place.pathExtension != "ndjson"
        else { return }
        throw ProblemReport(
            code: "bad-request", message: "the state directory holds the gateway's own files",
            advice: "choose another directory, or a name that ends in .ndjson")
    }
}
