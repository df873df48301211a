import Foundation
import GRDB

/// Where imported samples go.
public struct ImportTarget: Sendable, Hashable {
    /// The enrollment that delivers them.
    public var enrollmentID: Int64
    /// The patient, with a practitioner's enrollment and only then.
    public var patient: String?
    /// Which assignments of the file, by its own numbers; nil: the only one there is. A file may hold
    /// samples of several people, so that more than one must be asked for.
    public var assignments: Set<Int64>?

    /// A target.
    public init(enrollmentID: Int64, patient: String? = nil, assignments: Set<Int64>? = nil) {
        self.enrollmentID = enrollmentID
        self.patient = patient
        self.assignments = assignments
    }
}

/// What an import did.
public struct ImportSummary: Sendable, Hashable {
    /// Samples stored, which will be delivered.
    public internal(set) var added = 0
    /// Samples that are or were here already.
    public internal(set) var known = 0
    /// Samples the file says are done with: delivered, dropped or dead.
    public internal(set) var settled = 0
    /// Samples of assignments that were not asked for.
    public internal(set) var notSelected = 0
}

extension SampleQueue {
    /// Takes over the waiting samples of an export file (``ExportFormat/ndjson``) of another store, to
    /// deliver them under the identities they have.
    ///
    /// One transaction: all of it or nothing. What was imported before, or was recorded here, adds
    /// nothing. Throws `invalid-file` with the line's number, `invalid-argument` if the target does not
    /// fit, `disk-full` if the store's limit is in the way. The file is read twice, and stored in the
    /// second pass, during which the queue does nothing else.
    @discardableResult
    public nonisolated func importSamples(
        from path: String, into target: ImportTarget
    ) async throws(QueueError) -> ImportSummary {
        let file = ImportFile(path: path)
        var survey = ImportSurvey()
        try file.forEach { sample, line in try survey.add(sample, line: line) }
        let chosen = try survey.choose(target)
        return try await store(file, survey: survey, chosen: chosen, target: target)
    }

    private func store(
        _ file: ImportFile, survey: ImportSurvey, chosen: Set<Int64>, target: ImportTarget
    ) throws(QueueError) -> ImportSummary {
        let start = nextSample
        let done = try write("import samples") { [settings] db -> SampleImport in
            try Self.check(db, patient: target.patient, for: target.enrollmentID)
            let terms = try Self.enrollment(db, target.enrollmentID).terms
            var work = SampleImport(
                survey: survey, target: target, patient: target.patient ?? terms.patient,
                nextSample: start, settings: settings)
            try file.forEach { sample, line in
                guard chosen.contains(sample.assignment) else {
                    work.summary.notSelected += 1
                    return
                }
                try work.add(sample, line: line, db)
            }
            try work.finish(db)
            return work
        }
        nextSample = done.nextSample
        assignmentIDs.formUnion(done.newAssignments)
        return done.summary
    }
}

/// What a file holds, found out before anything is written.
struct ImportSurvey: Sendable {
    /// An assignment of the file in one of its runs.
    struct Key: Hashable, Sendable {
        var nonce: UInt64
        var assignment: Int64
    }
    /// From when until when it has samples.
    struct Span: Sendable {
        var firstUptime: Int64
        var lastUptime: Int64
        var firstTime: Int64?
        var lastTime: Int64?
    }
    /// No store has so many; a file that claims to is none of ours.
    private static let spansMax = 100_000

    private(set) var spans: [Key: Span] = [:]
    private var boots: [UInt64: String] = [:]

    mutating func add(_ sample: ImportLine, line: Int) throws(ImportFault) {
        if let boot = boots[sample.nonce], boot != sample.bootID {
            throw ImportFault(reason: "its run was in another boot before")
        }
        boots[sample.nonce] = sample.bootID
        let key = Key(nonce: sample.nonce, assignment: sample.assignment)
        var span =
            spans[key]
            ?? Span(firstUptime: sample.uptime, lastUptime: sample.uptime, firstTime: nil)
        span.firstUptime = min(span.firstUptime, sample.uptime)
        span.lastUptime = max(span.lastUptime, sample.uptime)
        if let time = sample.timeMicroseconds {
            span.firstTime = min(span.firstTime ?? time, time)
            span.lastTime = max(span.lastTime ?? time, time)
        }
        spans[key] = span
        guard spans.count <= Self.spansMax else { throw ImportFault(reason: "too many runs") }
    }

    /// The assignments to take over.
    func choose(_ target: ImportTarget) throws(QueueError) -> Set<Int64> {
        let present = Set(spans.keys.map(\.assignment))
        guard let asked = target.assignments else {
            guard present.count <= 1 else {
                let numbers = present.sorted().prefix(20).map(String.init).joined(separator: ", ")
                throw QueueError(
                    .invalidArgument, "import samples",
                    "the file holds the assignments \(numbers), perhaps of several people: name "
                        + "those to import")
            }
            return present
        }
        guard asked.isSubset(of: present) else {
            throw QueueError(
                .invalidArgument, "import samples",
                "the file does not hold all of these assignments")
        }
        return asked
    }
}
