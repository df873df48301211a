import Foundation
import Logging
import OfflineQueue

/// Gives samples that were recorded without an enrollment to one, or gives them up.
///
/// It decides whose samples they are, and cannot be undone: an assignment is bound once.
struct AssignService: Sendable {
    let queue: SampleQueue
    let enrollments: Enrollments
    let patients: PatientCheck
    let changes: EnrollmentChanges
    let deliveries: Deliveries
    let logger: Logger

    /// The assignments without an enrollment under which samples wait, oldest first.
    func unbound() async throws -> [UnboundReport] {
        let names = try await StoreNames(queue)
        return try await queue.unboundSamples().map { held in
            let sensor = held.assignment.sensorID
            return UnboundReport(
                assignment: held.assignment.id, sensor: sensor, address: names.address(sensor),
                name: names.name(sensor), patient: held.assignment.patient,
                first: held.times.map { Date($0.lowerBound) },
                last: held.times.map { Date($0.upperBound) }, samples: held.samples,
                recording: held.isRecording, unsure: held.isUnsure)
        }
    }

    /// Binds an assignment, whose samples are then delivered.
    ///
    /// - Throws: ``ProblemReport``; then nothing was changed.
    func assign(_ ask: AssignRequest) async throws -> AssignReport {
        let held = try await held(
            ask.assignment, ifBound: "edge-gateway queue assign lists those that have none")
        let enrollment = try await enrollments.named(ask.enrollment)
        let name = enrollment.terms.name
        guard enrollment.state == .active else {
            throw ProblemReport(
                code: .enrollAgain, message: "\(name): this gateway is no longer authorized there",
                advice: "enroll again as edge-gateway status says, then assign the samples")
        }
        // The enrollment may be one of them until it is the samples' own.
        let further = try await queue.furtherDestinations(of: ask.assignment).filter {
            $0 != enrollment.id
        }
        let patient = try Self.patient(ask.patient, of: held.assignment, enrollment.terms)
        let all = try await queue.enrollments()
        let checked = try await patients.patient(
            patient, device: ask.device, enrollment,
            further: all.filter { further.contains($0.id) })
        // While the exchange was asked, more may have come, or somebody may have given them up: the store looks again.
        // An erasure takes several transactions, and samples that come between them would go with the others.
        let samples = try await changes.alone {
            try await queue.bind(
                assignment: ask.assignment, enrollment: enrollment.id, patient: patient)
        }
        // It is bound from here on.
        await patients.adopt(checked, for: enrollment)
        await deliveries.wake(enrollment.id)
        logger.notice(
            "a technician gave samples to an enrollment", metadata: ["samples": "\(samples)"])
        var notes = checked.notes
        if samples == 0 {
            notes.append("none waits: they went there before, or were discarded meanwhile")
        }
        if enrollment.holdReason != nil {
            notes.append("this enrollment is held (edge-gateway status); samples are kept")
        }
        return AssignReport(enrollment: name, samples: samples, notes: notes)
    }

    /// Gives up what an assignment holds; gives how many samples.
    ///
    /// - Throws: ``ProblemReport``, or the store's error if the assignment is bound at that moment; then nothing was
    ///   changed.
    func discard(_ ask: DiscardRequest) async throws -> SampleCountReport {
        let held = try await held(
            ask.assignment,
            ifBound: "they are delivered; edge-gateway erase takes out what a patient has")
        let samples = try await queue.discard(assignment: held.assignment.id)
        logger.notice(
            "a technician discarded samples without an enrollment",
            metadata: ["samples": "\(samples)"])
        return SampleCountReport(samples: samples)
    }

    private func held(_ number: Int64, ifBound advice: String) async throws -> UnboundSamples {
        if let held = try await queue.unboundSamples().first(where: { $0.assignment.id == number })
        {
            return held
        }
        let known = try await queue.assignments().first { $0.id == number }
        let isBound = known?.enrollmentID != nil
        throw ProblemReport(
            code: isBound ? .alreadySet : .unknownReference,
            message: isBound
                ? "these samples have an enrollment already, which is never changed"
                : "no samples without an enrollment have this number",
            advice: isBound ? advice : "edge-gateway queue assign lists those that have none")
    }

    /// The patient of the samples: the one who is named, or else the one whom the strap was paired for.
    private static func patient(
        _ named: String?, of assignment: Assignment, _ terms: EnrollmentTerms
    ) throws -> String? {
        guard named == nil || assignment.patient == nil || named == assignment.patient else {
            throw ProblemReport(
                code: .patientRefused, message: "the strap was paired for another patient",
                advice: "leave --patient out: the samples are that patient's")
        }
        let patient = named ?? assignment.patient
        guard terms.kind != .invitation || patient == nil || patient == terms.patient else {
            throw ProblemReport(
                code: .patientRefused,
                message: "\(terms.name) is the enrollment of another patient",
                advice: "name the enrollment of the patient who wore the strap "
                    + "(edge-gateway enrollments)")
        }
        return patient
    }
}
