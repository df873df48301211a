import OfflineQueue
import Uplink

/// Patients whose samples are held while the others' of their lane go on. The strap is named, never the
/// patient.
extension Gateway {
    func patientConditions() async -> [HealthCondition] {
        guard let enrollments = try? await queue.enrollments(),
            enrollments.contains(where: { $0.terms.kind == .practitionerKey }),
            let assignments = try? await queue.assignments(),
            let sensors = try? await queue.sensors(includingForgotten: true)
        else { return [] }
        var found: [HealthCondition] = []
        for enrollment in enrollments where enrollment.terms.kind == .practitionerKey {
            let held = await lanes.heldPatients(of: enrollment.id)
            for sensor in sensors {
                let reasons = assignments.filter {
                    $0.sensorID == sensor.id && $0.enrollmentID == enrollment.id
                }.compactMap { $0.patient.flatMap { held[$0] } }
                // One strap may have been worn by several; one item says it.
                guard let reason = reasons.last else { continue }
                found.append(
                    Self.held(sensor, enrollment.terms.name, reason))
            }
        }
        return found
    }

    private static func held(
        _ sensor: Sensor, _ enrollment: String, _ reason: HoldReason
    ) -> HealthCondition {
        let name = sensor.details.name.flatMap { $0.isEmpty ? nil : $0 } ?? sensor.address
        let subject = "\(enrollment) \(sensor.id)"
        if reason == .noConsent {
            return HealthCondition(
                name: "consent-missing", subject: subject,
                message: "\(name): its wearer has not consented to heart rate; samples are held",
                advice: "the patient consents at the exchange; delivery resumes by itself")
        }
        return HealthCondition(
            name: "patient-held", subject: subject,
            message: "\(name): \(enrollment) may not deliver for its wearer (\(reason.rawValue)); "
                + "samples are held",
            advice: "the patient must share an organization with the practitioner; see "
                + "docs/operations.md, \"Why a lane is held\"")
    }
}
