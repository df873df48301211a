import Logging
import OfflineQueue

/// Taking over the samples of another gateway.
extension Gateway {
    /// Stores the waiting samples of an uploaded file.
    ///
    /// - Throws: ``ProblemReport``; then nothing was stored, unless the store is full: what was taken
    ///   until then stays.
    func importSamples(_ ask: ImportRequest) async throws -> ImportReport {
        guard let enrollment = try await enrollment(named: ask.enrollment) else {
            throw ProblemReport(
                code: .unknownEnrollment, message: "there is no enrollment to deliver them",
                advice: "edge-gateway enroll LINK, then import again")
        }
        let target = ImportTarget(
            enrollmentID: enrollment.id, patient: ask.patient,
            assignments: ask.assignments.map(Set.init))
        let path = try await importSession.begin(ask.upload)
        let summary: ImportSummary
        do {
            summary = try await asking {
                try await queue.importSamples(from: path, into: target) { [importSession] in
                    await importSession.note($0)
                }
            }
        } catch {
            let taken = await importSession.end()
            guard var problem = error as? ProblemReport, taken > 0 else { throw error }
            problem.message += "; \(taken) samples were taken before, and stay"
            problem.advice += " Then import the same file again: it goes on from there."
            await deliveries.wake(enrollment.id)
            throw problem
        }
        _ = await importSession.end()
        logger.info("imported", metadata: ["samples": "\(summary.added)"])
        await deliveries.wake(enrollment.id)
        return ImportReport(
            added: summary.added, known: summary.known, settled: summary.settled,
            notSelected: summary.notSelected)
    }
}
