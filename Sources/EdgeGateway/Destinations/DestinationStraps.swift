import OfflineQueue
import Recording

/// Chooses the straps whose samples go to a destination.
struct DestinationStraps: Sendable {
    let queue: SampleQueue
    let destinations: Destinations
    let deliveries: Deliveries
    let recorder: Recorder

    /// Has straps go to a destination beside their own, or no more.
    ///
    /// - Throws: ``ProblemReport``
    func change(_ ask: DestinationStrapsRequest) async throws -> DestinationReport {
        let enrollment = try await destinations.added(ask.name)
        let beginning = try Self.beginning(ask.from)
        let added = try await assignments(of: ask.add ?? [])
        try await checkPatients(of: added, for: enrollment.terms)
        let removed = try await assignments(of: ask.remove ?? [])
        guard !removed.contains(where: { $0.enrollmentID == enrollment.id }) else {
            throw ProblemReport(
                code: .ownDestination,
                message: "\(enrollment.terms.name) is the strap's own destination",
                advice: "pair it again with another --enrollment")
        }
        try await catchUp()
        try await attach(enrollment, to: added, beginning, isEvery: false)
        // Samples of an earlier patient of the strap may wait, too.
        let sensors = Set(removed.map(\.sensorID))
        for assignment in try await queue.assignments()
        where sensors.contains(assignment.sensorID) && assignment.enrollmentID != enrollment.id {
            try await queue.remove(destination: enrollment.id, from: assignment.id)
        }
        return try await destinations.report(on: enrollment)
    }

    /// Checks that the destination would hold no samples of these assignments for want of a patient.
    ///
    /// - Throws: ``ProblemReport``
    func checkPatients(of assignments: [Assignment], for terms: EnrollmentTerms) async throws {
        let enrollments = try await queue.enrollments()
        for assignment in assignments {
            try PatientCheck.checkIsNamed(
                assignment.patient(among: enrollments), for: [terms],
                advice: "a strap has no patient; by the exchange's id: edge-gateway pair ADDRESS "
                    + "--patient ID")
        }
    }

    /// Frames that straps have sent by now go where they went until now; later ones, elsewhere.
    ///
    /// - Throws: ``ProblemReport`` if that cannot be had at the moment.
    func catchUp() async throws {
        guard await recorder.catchUp() else { throw ProblemReport.framesNotStored }
    }

    /// Has the samples of assignments go to a destination; one whose own destination it is needs nothing.
    func attach(
        _ enrollment: Enrollment, to assignments: [Assignment], _ beginning: DestinationBeginning,
        isEvery: Bool
    ) async throws {
        // The store has added it to every strap from now on; what is kept, also of patients who wear none any
        // more, is added here.
        let every = isEvery && beginning == .kept ? try await queue.assignments() : []
        for assignment in assignments + every where assignment.enrollmentID != enrollment.id {
            try await queue.add(
                destination: enrollment.id, to: assignment.id, from: beginning)
        }
        await deliveries.wake(enrollment.id)
    }

    /// Where the samples for a destination begin, by the word of a request.
    ///
    /// - Throws: ``ProblemReport`` for an unknown word.
    static func beginning(_ word: String?) throws -> DestinationBeginning {
        switch word {
        case nil, "now": return .now
        case "kept": return .kept
        default:
            throw ProblemReport(
                code: .badRequest, message: "from must be now or kept",
                advice: "now: only new samples; kept: also those that the gateway still has")
        }
    }

    /// The open assignments of straps with these addresses.
    ///
    /// - Throws: ``ProblemReport`` for one that is not paired.
    func assignments(of addresses: [String]) async throws -> [Assignment] {
        let sensors = try await queue.sensors()
        let open = try await queue.openAssignments()
        return try addresses.map { text in
            let address = try SensorAddress.checked(text)
            guard let sensor = sensors.first(where: { $0.address == address }),
                let assignment = open.first(where: { $0.sensorID == sensor.id })
            else { throw ProblemReport.unknownSensor }
            return assignment
        }
    }
}
