import Basics
import Foundation
import Logging
import OfflineQueue
import Uplink

/// Delivers once more what a destination has lost.
struct RedeliveryService: Sendable {
    let queue: SampleQueue
    let enrollments: Enrollments
    let deliveries: Deliveries
    let logger: Logger

    /// Puts the delivered samples that the store still has back to waiting, or only counts them.
    func redeliver(_ ask: RedeliverRequest) async throws -> RedeliverReport {
        guard let enrollment = try await enrollments.meant(by: ask.enrollment) else {
            throw ProblemReport(
                code: .unknownEnrollment, message: "there is no enrollment yet",
                advice: "edge-gateway enroll LINK")
        }
        let redelivery = Redelivery(
            destination: enrollment.id, since: try Self.time(ask.since),
            window: Resolution(stored: enrollment.terms.resolution).window)
        let extent = try await queue.extent(of: redelivery)
        var report = RedeliverReport(
            enrollment: enrollment.terms.name, samples: extent.samples,
            first: extent.first.map { Date($0) }, keptSince: extent.keptSince.map { Date($0) })
        guard !(ask.countOnly ?? false) else { return report }
        report.samples = try await queue.redeliver(redelivery)
        logger.notice(
            "delivered samples wait again", metadata: ["samples": "\(report.samples)"])
        await deliveries.wake(enrollment.id)
        return report
    }

    private static func time(_ date: Date) throws -> UTC {
        let seconds = date.timeIntervalSince1970
        guard 0..<253_402_300_800 ~= seconds else {
            throw ProblemReport(
                code: .badRequest, message: "this is not a time",
                advice: "edge-gateway queue redeliver --since 2026-12-01")
        }
        return .epoch + .seconds(Int64(seconds))
    }
}
