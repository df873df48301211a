import Basics
import Foundation
import OfflineQueue
import Uplink

/// The enrollments that there are, as commands see them.
struct Enrollments: Sendable {
    let queue: SampleQueue
    let deliveries: Deliveries

    /// The enrollment of this name.
    func named(_ name: String) async throws -> Enrollment {
        guard let enrollment = try await queue.enrollments().named(name) else {
            throw ProblemReport(
                code: .unknownEnrollment, message: "there is no enrollment \(name)",
                advice: "edge-gateway enrollments lists them")
        }
        return enrollment
    }

    /// The enrollment of this name; the only one, or none, if there is no name. Destinations beside one
    /// are not meant where none is named.
    func meant(by name: String?) async throws -> Enrollment? {
        if let name { return try await named(name) }
        let enrollments = try await queue.enrollments()
        let first = enrollments.filter { $0.terms.kind != .destination }
        if first.count == 1 { return first[0] }
        guard enrollments.count <= 1 else {
            throw ProblemReport(
                code: .chooseEnrollment, message: "there are several enrollments",
                advice: "name the patient's: --enrollment NAME (edge-gateway enrollments)")
        }
        return enrollments.first
    }

    /// The destinations of these names, which samples may go to beside their own.
    func destinations(named names: [String]) async throws -> [Enrollment] {
        let all = try await queue.enrollments()
        return try names.map { name in
            guard let one = all.named(name), one.terms.kind == .destination else {
                throw ProblemReport(
                    code: .unknownEnrollment, message: "there is no destination \(name)",
                    advice: "edge-gateway destination list; an exchange is named by --enrollment")
            }
            return one
        }
    }

    /// Every enrollment with the state of its delivery; ``DestinationService`` has the other destinations.
    func reports() async throws -> [EnrollmentReport] {
        let last = try await queue.lastDeliveries()
        var reports: [EnrollmentReport] = []
        for enrollment in try await queue.enrollments() where enrollment.terms.kind != .destination
        {
            reports.append(try await report(on: enrollment, last[enrollment.id]))
        }
        return reports
    }

    /// One enrollment with the state of its delivery.
    func report(on enrollment: Enrollment) async throws -> EnrollmentReport {
        try await report(on: enrollment, try await queue.lastDeliveries()[enrollment.id])
    }

    private func report(on enrollment: Enrollment, _ last: UTC?) async throws -> EnrollmentReport {
        let balance = try await queue.balance(of: .enrollment(enrollment.id))
        let facts = await deliveries.facts(of: enrollment.id)
        let dataPoints = (facts?.dataPoints.counts ?? [:]).map {
            (
                $0.key.rawValue,
                DataPointsReport(delivered: $0.value.delivered, refused: $0.value.refused)
            )
        }
        let held = await deliveries.heldPatients(of: enrollment.id).values
            .reduce(into: [String: Int]()) { $0[$1.rawValue, default: 0] += 1 }
        return EnrollmentReport(
            name: enrollment.terms.name, kind: enrollment.terms.kind.rawValue,
            exchange: enrollment.terms.origin,
            patient: enrollment.terms.patient, device: enrollment.terms.device,
            code: enrollment.terms.code ?? "", resolution: enrollment.terms.resolution,
            state: enrollment.state.rawValue,
            held: enrollment.holdReason, fault: await deliveries.fault(of: enrollment.id),
            partialFault: facts?.partialFault,
            heldPatients: held.isEmpty ? nil : held,
            pending: balance.unsent, delivered: balance.delivered,
            dead: balance.dead, lastDelivery: last.map { Date($0) },
            tokenExpires: await deliveries.tokenExpiry(of: enrollment.id).map { Date($0) },
            tokenRefused: await deliveries.isTokenRefused(of: enrollment.id) ? true : nil,
            dataPoints: dataPoints.isEmpty
                ? nil : Dictionary(uniqueKeysWithValues: dataPoints))
    }
}
