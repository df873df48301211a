import Basics
import Logging
import OfflineQueue
import Uplink

/// Finds out whether a destination takes samples, before the first one is sent.
struct DestinationProbe: Sendable {
    let settings: Settings
    let destinations: Destinations
    let changes: EnrollmentChanges
    let deliveries: Deliveries
    let transport: Gateway.Transport
    let clock: any GatewayClock
    let logger: Logger

    /// Tries a destination as ``DestinationService`` does before it stores one.
    ///
    /// - Throws: ``ProblemReport`` with what is wrong.
    func test(_ name: String) async throws -> DestinationTestReport {
        let enrollment = try await destinations.known(name)
        guard enrollment.terms.kind == .destination, enrollment.terms.system != FileKind.name else {
            return try await look(at: enrollment)
        }
        let report = try await probe(
            try changes.destination(of: enrollment), insteadOf: enrollment)
        return DestinationTestReport(
            name: name, checked: report.checked, unchecked: report.unchecked)
    }

    /// Asks the destination of a delivery that runs whether it is well: what an exchange's tokens open, and
    /// what a file's lock guards, is the delivery's own.
    private func look(at enrollment: Enrollment) async throws -> DestinationTestReport {
        let name = enrollment.terms.name
        guard let isHealthy = await deliveries.isHealthy(enrollment.id) else {
            throw ProblemReport(
                code: .destinationRefuses, message: "the delivery to \(name) does not run",
                advice: enrollment.isPaused
                    ? "edge-gateway destination resume \(name.shellWord)" : "edge-gateway status")
        }
        guard isHealthy else {
            throw ProblemReport(
                code: .destinationRefuses,
                message: await deliveries.fault(of: enrollment.id) ?? "\(name) does not answer",
                advice: "\(enrollment.terms.faultRemedy); samples are kept")
        }
        return DestinationTestReport(
            name: name, checked: ["\(enrollment.terms.origin) answers"],
            unchecked: ["whether it takes samples: the first sample shows it"])
    }

    /// Asks the system itself, without samples, and learns its tokens if it has an account.
    ///
    /// - Parameter same: the destination that has these settings or earlier ones, with its tokens.
    /// - Throws: ``ProblemReport`` with what is wrong.
    func probe(
        _ kind: any DestinationKind, insteadOf same: Enrollment?
    ) async throws -> ProbeReport {
        var parts = DestinationParts(
            transport: transport(settings.curl), network: settings.curl, clock: clock,
            logger: logger)
        parts.storedTokens = same.flatMap { try? changes.secretFile(of: $0.id).load() }?.tokens
        do {
            return try await kind.probe(parts)
        } catch {
            throw ProblemReport(
                code: .destinationRefuses, message: error.message, advice: error.advice)
        }
    }
}
