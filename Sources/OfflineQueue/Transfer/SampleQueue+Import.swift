import Basics
import Foundation
import GRDB

/// Where imported samples go.
public struct ImportTarget: Sendable, Hashable {
    /// The enrollment that delivers what waits for the own destination of its assignment.
    public var enrollmentID: Int64
    /// Where samples go that wait for a further destination, by its name in the file.
    public var further: [String: Int64]
    /// Further destinations, by their names in the file, that are left out.
    public var without: Set<String>
    /// The patient, with a practitioner's enrollment and only then.
    public var patient: String?
    /// Which assignments of the file, by its own numbers; nil: the only one there is. A file may hold
    /// samples of several people, so that more than one must be asked for.
    public var assignments: Set<Int64>?

    /// Without `assignments` the file's only one; without `patient` the enrollment's own.
    public init(
        enrollmentID: Int64, patient: String? = nil, assignments: Set<Int64>? = nil,
        further: [String: Int64] = [:], without: Set<String> = []
    ) {
        self.enrollmentID = enrollmentID
        self.further = further
        self.without = without
        self.patient = patient
        self.assignments = assignments
    }
}

/// The result of an import.
public struct ImportSummary: Sendable, Hashable {
    /// Entries of ``unsureSamples`` at the most: nobody reads more.
    public static let unsureListedMax = 1_000

    /// Samples stored, which will be delivered.
    public internal(set) var added = 0
    /// Samples that are or were here already.
    public internal(set) var known = 0
    /// Samples that are not taken, since they might be delivered twice, or something else in their place: they were
    /// lost here, and whether they had been delivered is not known; or their number is another sample's here, or
    /// may become one's, as their run is still under way.
    public internal(set) var unsure = 0
    /// Which these are, in the order of the file; what is beyond ``unsureListedMax`` is only counted.
    public internal(set) var unsureSamples: [UnsureSamples] = []
    /// Samples that wait for nothing that was asked for: delivered, dropped or dead, or left out.
    public internal(set) var settled = 0
    /// Samples of assignments that were not asked for.
    public internal(set) var notSelected = 0
}

/// How far an import is.
public struct ImportProgress: Sendable, Hashable {
    /// Samples of the file that were read so far.
    public internal(set) var checked = 0
    /// Samples of the file; nil until all were read.
    public internal(set) var total: Int?
    /// Samples gone through since, and what came of them.
    public internal(set) var done = 0
    /// The progress so far.
    public internal(set) var summary = ImportSummary()
}

extension SampleQueue {
    /// Takes over the waiting samples of an export file (``ExportFormat/ndjson``) of another store, to
    /// deliver them under the identities they have.
    ///
    /// The file is read twice: whole, before anything is stored; then slice by slice, each in one
    /// transaction, between which the queue does its other work. No slice parts a minute of a run, so
    /// that a delivery never makes an average of half a window. What was imported before, or was recorded
    /// here, adds nothing; so an import that was broken off goes on where it was when it is repeated. A store
    /// that went back in time, as to a copy, takes what its own run recorded after that.
    ///
    /// Samples that wait for a further destination go to that of the target for its name.
    ///
    /// Throws `invalid-file` with the line's number, and `invalid-argument` if the target does not fit, or
    /// has no place for a further destination of the file: then nothing was stored. Throws `disk-full` if the store's limit is in the way: then the slices
    /// before stay.
    @discardableResult
    public nonisolated func importSamples(
        from path: String, into target: ImportTarget,
        progress: @Sendable (ImportProgress) async -> Void = { _ in }
    ) async throws(QueueError) -> ImportSummary {
        let patient = try await patient(for: target)
        var told = ImportProgress()
        var survey = ImportSurvey(patient: patient, times: await statableTimes)
        var reader = try ImportReader(path: path)
        while let sample = try reader.nextSample() {
            do { try survey.add(sample, line: reader.line) } catch { throw reader.fault(error) }
            told.checked += 1
            if told.checked.isMultiple(of: ImportSlice.samplesMin) { await progress(told) }
        }
        try survey.checkTimes()
        told.total = told.checked
        await progress(told)
        let chosen = try survey.choose(target)

        var work = SampleImport(
            survey: survey, target: target, settings: settings)
        var slice = ImportSlice()
        reader = try ImportReader(path: path)
        while let sample = try reader.nextSample() {
            told.done += 1
            guard chosen.contains(sample.assignment) else {
                work.summary.notSelected += 1
                continue
            }
            if let full = slice.add(sample) {
                work = try await store(full, work)
                told.summary = work.summary
                await progress(told)
            }
        }
        if !slice.lines.isEmpty { work = try await store(slice.lines, work) }
        told.summary = work.summary
        await progress(told)
        return work.summary
    }

    /// The patient of a target's samples.
    private func patient(for target: ImportTarget) throws(QueueError) -> String? {
        try read("import samples") { db in
            try db.check(patient: target.patient, for: target.enrollmentID)
            return try target.patient ?? db.enrollment(target.enrollmentID).terms.patient
        }
    }

    private func store(
        _ slice: [ImportLine], _ work: SampleImport
    ) throws(QueueError) -> SampleImport {
        let (start, current) = (segments.nextSample, run.id)
        let done = try write("import samples") { db in
            var work = work
            try work.store(slice, from: start, during: current, db)
            return work
        }
        segments.advance(to: done.nextSample)
        return done
    }
}

/// Samples that one transaction stores. No slice parts a minute of a run: of half a window no average is made.
struct ImportSlice {
    /// Samples after which a slice ends with its minute: the queue takes what is recorded meanwhile between two slices,
    /// and one takes some 20 ms.
    static let samplesMin = 1_000
    /// Samples a slice has at most. A minute of a hundred straps is shorter; a longer one is parted.
    static let samplesMax = 10_000

    private(set) var lines: [ImportLine] = []

    /// Adds a sample. Returns the slice before it, if it begins the next one.
    mutating func add(_ line: ImportLine) -> [ImportLine]? {
        let isFull =
            lines.count >= Self.samplesMax
            || lines.count >= Self.samplesMin && lines.last?.minute != line.minute
        defer { lines.append(line) }
        return isFull ? take() : nil
    }

    /// The samples since the last slice, which end one.
    mutating func take() -> [ImportLine] {
        defer { lines = [] }
        return lines
    }
}

/// The content of a file, found out before anything is written.
struct ImportSurvey: Sendable {
    /// An assignment of the file in one of its runs.
    struct Key: Hashable, Sendable {
        var nonce: UInt64
        var assignment: Int64
    }
    /// A further destination that samples of an assignment wait for.
    private struct Waiting: Hashable {
        var assignment: Int64
        var name: String
    }
    /// From when until when it has samples.
    struct Span: Sendable {
        var firstUptime: Uptime
        var lastUptime: Uptime
        var firstTime: UTC?
        var lastTime: UTC?
        /// The line of its first sample.
        var line = 0
        /// The strap's address, and how many samples of it there are.
        var sensor = ""
        var samples = 0
    }
    /// No store has so many; a file that claims more was not made by `queue export`.
    private static let spansMax = 100_000
    /// As many assignments are described in a message: a screenful.
    private static let describedMax = 20

    private(set) var spans: [Key: Span] = [:]
    private var boots: [UInt64: String] = [:]
    /// Whose samples they are to be, and by assignment the first line that names another patient.
    let patient: String?
    private var strangers: [Int64: Int] = [:]
    private var waiting: Set<Waiting> = []

    /// When samples can have been measured.
    private let times: Range<UTC>
    /// The offset of each run's boot, by the first of its samples with a time.
    private var offsets: [UInt64: WallOffset] = [:]
    /// The boots with samples that have a time, and with samples that have none.
    private var timed: Set<String> = []
    private var untimed: Set<String> = []

    init(patient: String?, times: Range<UTC>) {
        self.patient = patient
        self.times = times
    }

    /// How far UTC was ahead of uptime in a run; nil if that does not count for all samples of its boot.
    func offset(ofRun nonce: UInt64) -> WallOffset? {
        boots[nonce].map(hasJumped) ?? true ? nil : offsets[nonce]
    }

    /// Whether some samples of a boot have a time and some have none: its clock has jumped.
    func hasJumped(_ boot: String) -> Bool { timed.contains(boot) && untimed.contains(boot) }

    /// Whether all samples of a run would get plausible times.
    func checkTimes() throws(QueueError) {
        for (key, span) in spans {
            guard let offset = offset(ofRun: key.nonce) else { continue }
            let ends = [span.firstUptime, span.lastUptime].map { offset.utc($0) }
            guard ends.allSatisfy({ $0.map(times.contains) ?? false }) else {
                throw QueueError(
                    .invalidFile, "import samples",
                    "line \(span.line): by its uptime the sample, or one of its run, would be from "
                        + Self.described(times))
            }
        }
    }

    private static func described(_ times: Range<UTC>) -> String {
        func day(_ time: UTC) -> String {
            UTCText.text(time).map { String($0.prefix(10)) } ?? "?"
        }
        return
            "before \(day(times.lowerBound)) or after \(day(times.upperBound - .microseconds(1)))"
    }

    mutating func add(_ sample: ImportLine, line: Int) throws(ImportFault) {
        for name in sample.waitsFor {
            waiting.insert(Waiting(assignment: sample.assignment, name: name))
        }
        guard waiting.count <= Self.spansMax else {
            throw ImportFault(reason: "too many destinations")
        }
        if sample.isWaiting || !sample.waitsFor.isEmpty, let named = sample.patient,
            named != patient
        {
            strangers[sample.assignment] = strangers[sample.assignment] ?? line
        }
        if let boot = boots[sample.nonce], boot != sample.bootID {
            throw ImportFault(reason: "its run was in another boot before")
        }
        boots[sample.nonce] = sample.bootID
        if let time = sample.time {
            guard times.contains(time) else {
                let text = UTCText.text(time).map { String($0.prefix(10)) } ?? "another age"
                throw ImportFault(
                    reason: "its time, \(text), cannot be: it is \(Self.described(times))")
            }
            offsets[sample.nonce] =
                offsets[sample.nonce] ?? WallOffset(utc: time, uptime: sample.uptime)
            timed.insert(sample.bootID)
        } else {
            untimed.insert(sample.bootID)
        }
        let key = Key(nonce: sample.nonce, assignment: sample.assignment)
        var span =
            spans[key]
            ?? Span(
                firstUptime: sample.uptime, lastUptime: sample.uptime, firstTime: nil, line: line,
                sensor: sample.sensor)
        span.samples += 1
        span.firstUptime = min(span.firstUptime, sample.uptime)
        span.lastUptime = max(span.lastUptime, sample.uptime)
        if let time = sample.time {
            span.firstTime = min(span.firstTime ?? time, time)
            span.lastTime = max(span.lastTime ?? time, time)
        }
        spans[key] = span
        guard spans.count <= Self.spansMax else { throw ImportFault(reason: "too many runs") }
    }

    /// The assignments to take over.
    func choose(_ target: ImportTarget) throws(QueueError) -> Set<Int64> {
        let chosen = try select(target)
        if let line = strangers.filter({ chosen.contains($0.key) }).values.min() {
            throw QueueError(
                .patientRefused, "import samples",
                "line \(line): the sample is of another patient than the enrollment's")
        }
        let known = Set(waiting.map(\.name)).union(target.further.keys)
        if let name = target.without.subtracting(known).min() {
            throw QueueError(
                .invalidArgument, "import samples",
                "neither the file nor this gateway has a destination \(name) to leave out")
        }
        let missing = Set(waiting.filter { chosen.contains($0.assignment) }.map(\.name))
            .subtracting(target.further.keys).subtracting(target.without)
        if let name = missing.min() {
            throw QueueError(
                .invalidArgument, "import samples",
                "samples wait for \(name), which is not a destination of this gateway: add it under "
                    + "this name, or leave it out")
        }
        return chosen
    }

    /// Whose an assignment is, as far as that may be said: its strap, from when to when, and whether it is another
    /// patient's.
    private func described(_ assignment: Int64) -> String {
        let spans = spans.filter { $0.key.assignment == assignment }.values
        func minute(_ time: UTC?) -> String? {
            time.flatMap { UTCText.text($0) }.map {
                String($0.prefix(16)).replacing("T", with: " ")
            }
        }
        var text = "\(assignment) (strap …\(spans.first?.sensor.suffix(5) ?? "")"
        if let first = minute(spans.compactMap(\.firstTime).min()),
            let last = minute(spans.compactMap(\.lastTime).max())
        {
            text += ", \(first) to \(last) UTC"
        }
        text += ", \(spans.reduce(0) { $0 + $1.samples }.counted("sample"))"
        return text
            + (strangers[assignment] == nil ? "" : ", of another patient than the enrollment's")
            + ")"
    }

    private func select(_ target: ImportTarget) throws(QueueError) -> Set<Int64> {
        let present = Set(spans.keys.map(\.assignment))
        guard let asked = target.assignments else {
            guard present.count <= 1 else {
                let shown = present.sorted().prefix(Self.describedMax).map(described)
                let more = present.count - shown.count
                throw QueueError(
                    .invalidArgument, "import samples",
                    "the file holds \(present.count) assignments, perhaps of several people: "
                        + shown.joined(separator: "; ") + (more > 0 ? "; and \(more) more" : "")
                        + ": name those to import")
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
