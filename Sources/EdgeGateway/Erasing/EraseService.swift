import Basics
import Foundation
import Logging
import OfflineQueue
import Recording
import Uplink

/// Takes a patient out of this machine (docs/operate/security.md, "Erasing one patient").
struct EraseService: Sendable {
    let queue: SampleQueue
    let enrollments: Enrollments
    let changes: EnrollmentChanges
    let recorder: Recorder
    let deliveries: Deliveries
    let logger: Logger

    /// Erases a patient's samples and everything recorded about them; an enrollment for one patient goes with its
    /// tokens. What was delivered stays at the exchange.
    ///
    /// - Throws: ``ProblemReport`` while a strap records for the patient, or while samples wait, or may still come, that
    ///   were not given up.
    func erase(_ ask: EraseRequest) async throws -> EraseReport {
        let enrollment = try await enrollments.named(ask.enrollment)
        // An enrollment for one patient goes as a whole.
        let patient = ask.patient == enrollment.terms.patient ? nil : ask.patient
        let assignments = try await assignmentsEnded(of: patient, enrollment.id)
        let files = try await files(of: assignments, enrollment.id)
        let erasure = Erasure(
            enrollment: enrollment.id, patient: patient,
            undelivered: ask.undelivered ?? false ? .givenUp : try await nothing(from: assignments))
        let (balance, further) = try await changes.alone {
            try await queue.check(erasure)
            let balance = try await queue.balance(of: erasure.scope)
            let further = try await queue.furtherBalance(of: erasure.scope)
            try await empty(erasure)
            return (balance, further)
        }
        logger.notice("a patient was erased", metadata: ["samples": "\(balance.stored)"])
        return EraseReport(
            enrollment: enrollment.terms.name, enrollmentErased: erasure.patient == nil,
            samples: balance.stored, undecodable: balance.undecodable, unsent: balance.unsent,
            furtherUnsent: further.unsent, logEmptied: await emptyLog(),
            left: files + (await queue.evidence()).filter(FileManager.default.fileExists))
    }

    /// The times in which sensors recorded for a patient, or for an enrollment.
    ///
    /// - Throws: ``ProblemReport`` if none has, or one still does.
    private func assignmentsEnded(
        of patient: String?, _ enrollment: Int64
    ) async throws -> [Assignment] {
        let assignments = try await queue.assignments().filter {
            $0.enrollmentID == enrollment && (patient == nil || $0.patient == patient)
        }
        guard patient == nil || !assignments.isEmpty else {
            throw ProblemReport(
                code: .unknownPatient, message: "nothing was recorded for this patient",
                advice: "check the number: the exchange's id, as it was given to pair --patient")
        }
        let worn = Set(assignments.filter(\.isOpen).map(\.sensorID))
        guard !worn.isEmpty else { return assignments }
        let addresses = try await queue.sensors().filter { worn.contains($0.id) }.map(\.address)
        throw ProblemReport(
            code: .strapRecords, message: "a strap still records for this patient",
            advice: "forget it first: "
                + addresses.map { "edge-gateway forget \($0)" }.joined(separator: "; "))
    }

    /// The files of this machine into which their samples were delivered.
    private func files(
        of assignments: [Assignment], _ enrollment: Int64
    ) async throws -> [String] {
        var destinations: Set = [enrollment]
        for assignment in assignments {
            destinations.formUnion(try await queue.furtherDestinations(of: assignment.id))
        }
        return try await queue.enrollments().filter { destinations.contains($0.id) }
            .compactMap { FilePlace.path(of: $0.terms) }.flatMap(FilePlace.files)
    }

    /// The condition that no sample of their sensors waits or may still come.
    ///
    /// - Throws: `samples-may-come` if what they have sent cannot be taken in time.
    private func nothing(from assignments: [Assignment]) async throws -> Erasure.Undelivered {
        let sensors = Set(assignments.map(\.sensorID))
        guard let taken = await recorder.takenUntil(of: sensors) else {
            throw QueueError(
                .samplesMayCome, "erase patient", "samples of its straps are still to be stored")
        }
        return .none(taken: taken)
    }

    /// Erases samples from the store, or takes a destination that owns none out of this machine: its row, its secrets
    /// and what waits for it. The caller has the turn (``EnrollmentChanges/alone(_:)``).
    ///
    /// Stops the delivery meanwhile. If erasing fails, the delivery continues with what is left.
    func empty(_ erasure: Erasure) async throws {
        let before = try await queue.balance(of: erasure.scope).stored
        await deliveries.stop(erasure.enrollment)
        let file = changes.tokenFile(of: erasure.enrollment)
        do {
            try changes.failing(.tokens)
            if erasure.patient == nil { try setAside(file) }
            try changes.failing(.store)
            while try await !queue.erase(erasure) {}
        } catch {
            if erasure.patient == nil { putBack(file) }
            try? await changes.startDelivery(of: erasure.enrollment)
            let left = try? await queue.balance(of: erasure.scope)
            throw interrupted(error, erased: max(before - (left?.stored ?? before), 0))
        }
        await deliveries.forget(erasure.enrollment)
        if erasure.patient == nil { try removeTokens(file) }
        try? await changes.startDelivery(of: erasure.enrollment)
    }

    /// The fault that stopped an erasure, and how far it came: samples go in parts.
    private func interrupted(_ error: any Error, erased: Int) -> any Error {
        guard erased > 0 else { return error }
        let cause = (error as? QueueError).map { ProblemReport($0) } ?? error as? ProblemReport
        return ProblemReport(
            code: cause.flatMap { ProblemCode(rawValue: $0.code) } ?? .internalFault,
            message:
                "\(cause?.message ?? "\(error)"); \(erased.counted("sample was", "samples were")) erased before, the rest was not",
            advice: "remove the cause, then give the same command again: it continues from there")
    }

    private func setAside(_ file: TokenFile) throws {
        do {
            try file.setAside()
        } catch {
            throw ProblemReport(
                code: .tokensNotErased, message: "\(error)",
                advice: "nothing was erased; make the state directory writable, then erase again")
        }
    }

    private func putBack(_ file: TokenFile) {
        do {
            try file.putBack()
        } catch {
            logger.error("put the tokens back", metadata: ["fault": "\(error)"])
        }
    }

    private func removeTokens(_ file: TokenFile) throws {
        do {
            try file.remove()
        } catch {
            throw ProblemReport(
                code: .tokensNotErased,
                message: "the samples are erased, the tokens are not: \(error)",
                advice: "make the state directory writable, and remove \(file.path)*")
        }
    }

    private func emptyLog() async -> Bool {
        do {
            try await queue.emptyLog()
            return true
        } catch {
            logger.warning("\(error)")
            return false
        }
    }
}
