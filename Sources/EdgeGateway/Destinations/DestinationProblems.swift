import OfflineQueue
import Uplink

extension ProblemReport {
    /// Does what finds faults in the settings of a destination, and throws them as problems.
    static func ofDestination<Value>(
        _ work: () throws(DestinationProblem) -> Value
    ) throws -> Value {
        do throws(DestinationProblem) {
            return try work()
        } catch {
            throw ProblemReport(
                code: .badDestination, message: error.message, advice: error.advice)
        }
    }
}

extension EnrollmentChanges {
    /// A destination as its settings and secrets describe it.
    ///
    /// - Throws: ``ProblemReport`` if they cannot be read.
    func destination(of enrollment: Enrollment) throws -> any DestinationKind {
        let secrets: DestinationSecrets
        do {
            secrets = try secretFile(of: enrollment.id).load()
        } catch {
            throw ProblemReport(
                code: .enrollAgain, message: "its secrets cannot be read: \(error)",
                advice: "edge-gateway destination add with the same settings and name again")
        }
        return try ProblemReport.ofDestination { () throws(DestinationProblem) in
            try enrollment.terms.destination(secrets)
        }
    }
}
