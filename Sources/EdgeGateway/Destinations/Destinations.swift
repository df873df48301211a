import Foundation
import OfflineQueue
import Uplink

/// The places that samples are delivered to, as commands see them.
struct Destinations: Sendable {
    static let dayMicroseconds: Int64 = 86_400_000_000

    let queue: SampleQueue
    let deliveries: Deliveries

    /// Every destination with the state of its delivery, exchanges too.
    func reports() async throws -> [DestinationReport] {
        var reports: [DestinationReport] = []
        for enrollment in try await queue.enrollments() {
            reports.append(try await report(on: enrollment))
        }
        return reports
    }

    /// Those that a person has added; ``Enrollments`` has the others.
    func addedReports() async throws -> [DestinationReport] {
        var reports: [DestinationReport] = []
        for enrollment in try await queue.enrollments() where enrollment.terms.kind == .destination
        {
            reports.append(try await report(on: enrollment))
        }
        return reports
    }

    /// One destination with the state of its delivery.
    func report(on enrollment: Enrollment) async throws -> DestinationReport {
        let terms = enrollment.terms
        let balance = try await queue.balance(of: .enrollment(enrollment.id))
        let last = try await queue.uploads(
            enrollment: enrollment.id, limit: Enrollments.uploadsLookedAt
        ).first { $0.outcome == "delivered" }?.atMicroseconds
        var straps = 0
        for assignment in try await queue.openAssignments() {
            let isOwn = assignment.enrollmentID == enrollment.id
            let further = isOwn ? [] : try await queue.furtherDestinations(of: assignment.id)
            if isOwn || further.contains(enrollment.id) { straps += 1 }
        }
        let kind: String =
            switch terms.kind {
            case .invitation, .practitionerKey: "exchange"
            case .file: FileKind.name
            case .destination: terms.system ?? ""
            }
        return DestinationReport(
            name: terms.name, kind: kind, place: terms.origin,
            state: enrollment.isPaused ? "paused" : enrollment.state.rawValue,
            held: enrollment.isPaused ? nil : enrollment.holdReason,
            fault: await deliveries.fault(of: enrollment.id),
            partialFault: await deliveries.facts(of: enrollment.id)?.partialFault,
            everyStrap: terms.takesEveryStrap, straps: straps,
            keepDays: terms.keepMicroseconds.map { Int($0 / Self.dayMicroseconds) },
            resolution: terms.resolution, pending: balance.unsent, delivered: balance.delivered,
            dead: balance.dead, dropped: balance.dropped,
            lastDelivery: last.map(Date.init(microseconds:)))
    }

    /// The destination of this name, exchanges too.
    func known(_ name: String) async throws -> Enrollment {
        let all = try await queue.enrollments()
        guard let enrollment = all.first(where: { $0.terms.name == name }) else {
            throw ProblemReport(
                code: .unknownEnrollment, message: "there is no destination of that name",
                advice: "edge-gateway destination list lists them")
        }
        return enrollment
    }

    /// The added destination of this name; enrollments do not count.
    func added(_ name: String) async throws -> Enrollment {
        let enrollment = try await known(name)
        guard enrollment.terms.kind == .destination else {
            throw ProblemReport(
                code: .badRequest, message: "\(name) is an enrollment, not an added destination",
                advice: "pair --enrollment \(name) sends a strap there; erase takes it away")
        }
        return enrollment
    }
}
