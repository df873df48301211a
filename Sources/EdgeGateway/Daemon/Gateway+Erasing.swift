import Foundation
import Logging
import OfflineQueue
import Uplink

/// Taking a patient out of this machine (security.md, "Erasing one patient").
extension Gateway {
    /// Erases a patient's samples and all that stood for them; an enrollment for one patient goes with its
    /// tokens. What was delivered stays at the exchange.
    ///
    /// - Throws: ``ProblemReport`` while a strap records for the patient, or while samples wait that nobody
    ///   gave up.
    func erase(_ ask: EraseRequest) async throws -> EraseReport {
        guard let enrollment = try await enrollment(named: ask.enrollment) else {
            throw ProblemReport(
                code: "unknown-enrollment", message: "there is no enrollment",
                advice: "edge-gateway enrollments lists them")
        }
        let erasure = Erasure(
            enrollment: enrollment.id,
            // An enrollment for one patient goes as a whole.
            patient: ask.patient == enrollment.terms.patient ? nil : ask.patient)
        return try await asking {
            try await checkIsPutAway(erasure)
            try await queue.flush()
            let balance = try await queue.balance(of: erasure.scope)
            guard balance.unsent == 0 || ask.undelivered ?? false else {
                throw ProblemReport(
                    code: "samples-wait",
                    message: "\(balance.unsent) samples were not delivered yet",
                    advice: "edge-gateway queue drain; or give them up with --undelivered")
            }
            try await empty(erasure)
            logger.notice("a patient was erased", metadata: ["samples": "\(balance.stored)"])
            return EraseReport(
                enrollment: enrollment.terms.name, enrollmentErased: erasure.patient == nil,
                samples: balance.stored, undecodable: balance.undecodable, unsent: balance.unsent,
                logEmptied: await emptyLog(), left: await leftBehind(by: enrollment))
        }
    }

    private func checkIsPutAway(_ erasure: Erasure) async throws {
        let assignments = try await queue.assignments().filter {
            $0.enrollmentID == erasure.enrollment
                && (erasure.patient == nil || $0.patient == erasure.patient)
        }
        guard erasure.patient == nil || !assignments.isEmpty else {
            throw ProblemReport(
                code: "unknown-patient", message: "nothing was recorded for this patient",
                advice: "check the number: the exchange's id, as it was given to pair --patient")
        }
        let worn = Set(assignments.filter(\.isOpen).map(\.sensorID))
        guard !worn.isEmpty else { return }
        let addresses = try await queue.sensors().filter { worn.contains($0.id) }.map(\.address)
        throw ProblemReport(
            code: "strap-records", message: "a strap still records for this patient",
            advice: "put it away first: "
                + addresses.map { "edge-gateway forget \($0)" }.joined(separator: "; "))
    }

    /// With the lane at rest. If it fails, the lane goes on, and the same command takes it up again.
    private func empty(_ erasure: Erasure) async throws {
        await lanes.stop(erasure.enrollment)
        do {
            if erasure.patient == nil { try removeTokens(of: erasure.enrollment) }
            while try await !queue.erase(erasure) {}
        } catch {
            try? await startLane(of: erasure.enrollment)
            throw error
        }
        await lanes.forget(erasure.enrollment)
        try await startLane(of: erasure.enrollment)
    }

    private func removeTokens(of enrollment: Int64) throws {
        do {
            try tokenFile(of: enrollment).remove()
        } catch {
            throw ProblemReport(
                code: "tokens-not-erased", message: "\(error)",
                advice: "make the state directory writable, then erase again")
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

    /// Files of this machine that may still hold some of it.
    private func leftBehind(by enrollment: Enrollment) async -> [String] {
        var left = FilePlace.path(of: enrollment.terms).map { [$0] } ?? []
        let broken = try? await queue.salvages().map(\.brokenFile)
        left += (broken ?? []).map { settings.stateDirectory + "/" + $0 }
        return left.filter { FileManager.default.fileExists(atPath: $0) }
    }
}
