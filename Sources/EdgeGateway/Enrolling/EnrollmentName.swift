import Basics
import OfflineQueue

/// How enrollments are named: as a person asks, or e1, e2 and so on.
enum EnrollmentName {
    /// The name of an enrollment: as asked for, or as the one has that it takes the place of.
    ///
    /// - Throws: ``ProblemReport`` when the name asked for is another enrollment's.
    static func choose(
        asked: String?, insteadOf same: Enrollment?, beside existing: [Enrollment]
    ) throws -> String {
        guard let asked else { return same?.terms.name ?? freeName(beside: existing) }
        if let same, !GivenName.areSame(same.terms.name, asked) {
            throw ProblemReport(
                code: .nameTaken,
                message: "this enrollment exists already, as \(same.terms.name)",
                advice: "enroll again with --name \(same.terms.name.shellWord), or without a name")
        }
        if let same { return same.terms.name }
        guard existing.named(asked) == nil else {
            throw ProblemReport(
                code: .nameTaken, message: "the name \(asked) is another enrollment's",
                advice: "choose another --name; edge-gateway enrollments lists them")
        }
        return asked
    }

    private static func freeName(beside existing: [Enrollment]) -> String {
        (1...existing.count + 1).lazy.map { "e\($0)" }.first { existing.named($0) == nil } ?? "e"
    }
}
