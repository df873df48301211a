import Basics
import Foundation
import Logging
import OfflineQueue
import Recording

/// Taking over the samples of another gateway.
struct ImportService: Sendable {
    let queue: SampleQueue
    let enrollments: Enrollments
    let deliveries: Deliveries
    let session: ImportSession
    let logger: Logger

    /// Stores the waiting samples of an uploaded file.
    ///
    /// - Throws: ``ProblemReport``; then nothing was stored, unless the store is full: what was taken
    ///   until then stays.
    func importSamples(_ ask: ImportRequest) async throws -> ImportReport {
        guard let enrollment = try await enrollments.meant(by: ask.enrollment) else {
            throw ProblemReport(
                code: .unknownEnrollment, message: "there is no enrollment to deliver them",
                advice: "edge-gateway enroll LINK, then import again")
        }
        let further = try await queue.enrollments().filter { $0.terms.kind == .destination }
        let target = ImportTarget(
            enrollmentID: enrollment.id, patient: ask.patient,
            assignments: ask.assignments.map(Set.init),
            further: Dictionary(
                further.map { ($0.terms.name, $0.id) }, uniquingKeysWith: { first, _ in first }),
            without: Set(ask.without ?? []))
        let path = try await session.begin(ask.upload)
        let summary: ImportSummary
        do {
            summary = try await queue.importSamples(from: path, into: target) { [session] in
                await session.note($0)
            }
        } catch {
            let taken = await session.end()
            var problem = ProblemReport(error)
            guard taken > 0 else {
                guard error.code == .invalidArgument else { throw error }
                problem.advice =
                    "nothing was imported; --assignment NUMBER, which may be repeated, chooses among the "
                    + "file's assignments, --without NAME leaves out a destination"
                throw problem
            }
            logger.error("\(error)")
            problem.message +=
                "; \(taken.counted("sample was imported before that, and stays", "samples were imported before that, and stay"))"
            problem.advice += " Then import the same file again: the import continues from there."
            await deliveries.wakeAll()
            throw problem
        }
        _ = await session.end()
        logger.info("imported", metadata: ["samples": "\(summary.added)"])
        await deliveries.wakeAll()
        return ImportReport(
            added: summary.added, known: summary.known, unsure: summary.unsure,
            unsureSamples: summary.unsureSamples.map { unsure in
                UnsureSamplesReport(
                    address: Recorder.masked(unsure.sensor), assignment: unsure.assignment,
                    first: unsure.times.map { Date($0.lowerBound) },
                    last: unsure.times.map { Date($0.upperBound) }, samples: unsure.samples,
                    line: unsure.line, reason: unsure.reason.rawValue)
            }, settled: summary.settled, notSelected: summary.notSelected)
    }
}
