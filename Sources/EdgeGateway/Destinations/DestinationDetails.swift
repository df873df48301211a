import Basics
import Foundation
import OfflineQueue
import Uplink

/// The details of one destination: its content, and how its side learns of the straps.
struct DestinationDetails: Sendable {
    let queue: SampleQueue
    let destinations: Destinations
    let changes: EnrollmentChanges
    let clock: any GatewayClock

    /// One destination with its settings and an example of what goes there.
    func show(_ name: String) async throws -> DestinationDetailReport {
        let enrollment = try await destinations.added(name)
        let kind = try changes.destination(of: enrollment)
        let type = type(of: kind)
        var shown = enrollment.terms.settingValues
        let secrets = try? changes.secretFile(of: enrollment.id).load().values
        for name in secrets?.keys ?? [:].keys { shown[name] = "(set)" }
        return DestinationDetailReport(
            destination: try await destinations.report(on: enrollment), settings: shown,
            delivered: type.promise.level.rawValue, deliveredMeans: type.promise.words,
            mayRepeat: type.promise.mayRepeat, patient: kind.patientIdentity.rawValue,
            example: kind.example)
    }

    /// The codes by which the straps that deliver there now are paired at its side.
    ///
    /// - Throws: ``ProblemReport`` also if it needs none.
    func codes(_ name: String) async throws -> DestinationCodesReport {
        let enrollment = try await destinations.added(name)
        let kind = try changes.destination(of: enrollment)
        let reading = clock.read()
        guard kind.pairingCode(sensorID: 0, patient: nil, now: reading.wall) != nil else {
            throw ProblemReport(
                code: .badDestination, message: "\(name) needs no codes",
                advice:
                    "it takes straps at once: edge-gateway destination straps \(name.shellWord) --add STRAP"
            )
        }
        guard reading.isTrusted else {
            throw ProblemReport(
                code: .clockUntrusted, message: "the clock is not set yet, and codes expire",
                advice: "wait until the machine has the time: timedatectl")
        }
        let sensors = try await queue.sensors()
        let enrollments = try await queue.enrollments()
        var codes: [DestinationCodesReport.Code] = []
        for assignment in try await queue.openAssignments() {
            var patient = assignment.patient
            if assignment.enrollmentID != enrollment.id {
                let further = try await queue.furtherDestinations(of: assignment.id)
                guard further.contains(enrollment.id) else { continue }
                patient = assignment.patient(among: enrollments)
            }
            guard let strap = sensors.first(where: { $0.id == assignment.sensorID }),
                let code = kind.pairingCode(
                    sensorID: strap.id, patient: patient, now: reading.wall)
            else { continue }
            codes.append(
                DestinationCodesReport.Code(
                    strap: strap.address, text: code.text,
                    expires: Date(code.expires)))
        }
        return DestinationCodesReport(name: name, codes: codes)
    }
}
