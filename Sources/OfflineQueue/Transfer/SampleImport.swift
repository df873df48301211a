import Basics
import Foundation
import GRDB

/// One import under way, from transaction to transaction.
///
/// A run of samples whose numbers follow one another without a wide hole keeps its distances here,
/// moved by one shift; so the ids of a segment need not be looked up, and the shift is the segment's.
struct SampleImport: Sendable {
    /// An assignment of the file in one of its runs, and where samples of it go here: the first destination
    /// is the own one of an assignment here.
    private struct Place: Hashable, Sendable {
        var source: ImportSurvey.Key
        var destinations: [Int64]
    }
    /// Why samples of a broken store are dead or dropped: nobody knows any more.
    static let saved = "saved"

    private let survey: ImportSurvey
    /// Nil: each sample goes where it was, with the state that it had. It was this store's, or that of a broken one
    /// before it.
    private let target: ImportTarget?
    private let settings: QueueSettings
    /// Whether it is what a run of this store could not write into it.
    private let isAside: Bool
    /// Gaps that nobody can explain but by the broken store, which end where a sample was.
    private var found: [Int64: [Int64: [Uptime]]] = [:]
    private(set) var nextSample: Int64 = 0
    var summary = ImportSummary()

    /// The last of the summary's unsure samples of each assignment, while they follow one another.
    private var unsure: [ImportSurvey.Key: Int] = [:]
    private var runs: [UInt64: ImportedRun] = [:]
    private var assignments: [Place: Int64] = [:]
    private var segments: [Int64: ImportedSegment] = [:]
    private var identities: ImportIdentities
    private var lastNumber: (nonce: UInt64, number: Int64)?
    private var shift: Int64 = 0
    private var room: Int64 = 0

    init(survey: ImportSurvey, target: ImportTarget, settings: QueueSettings) {
        self.survey = survey
        self.target = target
        self.settings = settings
        isAside = false
        identities = ImportIdentities(isHome: false)
    }

    /// Brings home what a broken store holds.
    init(home settings: QueueSettings, isAside: Bool) {
        survey = ImportSurvey(patient: nil, times: .epoch ..< .epoch)
        target = nil
        self.settings = settings
        self.isAside = isAside
        identities = ImportIdentities(isHome: true)
    }

    /// Rows after which the import checks the room again.
    private static let roomRows = 500
    private var roomRowsLeft = 0

    /// Stores a slice of the file, in segments of its own: what is recorded meanwhile may have taken the
    /// next numbers.
    mutating func store(
        _ slice: [ImportLine], from nextSample: Int64, during currentRun: Int64, _ db: Database
    ) throws {
        self.nextSample = nextSample
        identities.begin(during: currentRun)
        segments = [:]
        lastNumber = nil
        roomRowsLeft = 0
        let insertion = try SampleInsertion(db)
        let key = try db.storeKey()
        for sample in slice { try add(sample, key, insertion, db) }
        try identities.write(db)
        for segment in segments.values { try segment.write(db) }
        for (assignment, boots) in found {
            for (boot, uptimes) in boots {
                try db.cover(assignment, boot: boot, with: uptimes)
            }
        }
        found = [:]
    }

    /// Stores frames that no measurement could be read from, in segments of their own.
    mutating func store(
        undecodable frames: [(frame: ImportLine, fault: String)], from nextSample: Int64,
        _ db: Database
    ) throws {
        var segments: [Int64: Int64] = [:]
        for (frame, fault) in frames {
            let run = try run(of: frame, db)
            guard let assignment = try home(of: frame, run, db) else { continue }
            let isThere = try Bool.fetchOne(
                db.cachedStatement(
                    sql: """
                        SELECT EXISTS (SELECT 1 FROM undecodable u JOIN segment s ON s.id = u.segment
                            WHERE s.run = ? AND s.assignment = ? AND u.uptime_us = ? AND u.frame = ?)
                        """), arguments: [run.id, assignment, frame.uptime, Data(frame.frame)])
            if isThere == true { continue }
            let segment =
                try segments[assignment]
                ?? segmentWithoutSamples(of: frame, assignment, run, from: nextSample, db)
            segments[assignment] = segment
            try db.insertUndecodable(frame.frame, fault, at: frame.uptime, segment: segment)
            try db.execute(
                sql: """
                    UPDATE segment SET received = received + 1, undecodable = undecodable + 1,
                        last_uptime_us = max(last_uptime_us, ?)
                    WHERE id = ?
                    """, arguments: [frame.uptime, segment])
        }
    }

    /// Counts frames that were never stored. Not known by anything: once only.
    mutating func count(
        _ refused: [SalvageReader.Refused], from nextSample: Int64, _ db: Database
    ) throws {
        for part in refused {
            let run = try run(of: part.frame, db)
            guard let assignment = try home(of: part.frame, run, db) else { continue }
            let segment = try segmentWithoutSamples(
                of: part.frame, assignment, run, from: nextSample, db)
            try db.execute(
                sql: "UPDATE segment SET received = ?1, refused = ?1 WHERE id = ?2",
                arguments: [part.count, segment])
            try db.count(part.count, .refused, part.reason.bounded, segment: segment)
        }
    }

    private func segmentWithoutSamples(
        of frame: ImportLine, _ assignment: Int64, _ run: ImportedRun, from nextSample: Int64,
        _ db: Database
    ) throws -> Int64 {
        try db.insertSegment(
            of: assignment, run: run.id, after: nextSample - 1, uptime: frame.uptime,
            try offset(of: frame, run, db))
    }

    private mutating func add(
        _ sample: ImportLine, _ key: StoreKey, _ insertion: SampleInsertion, _ db: Database
    ) throws {
        let destinations = destinations(of: sample)
        guard target == nil || !destinations.isEmpty else {
            summary.settled += 1
            return
        }
        let run = try run(of: sample, db)
        let home = target == nil ? try home(of: sample, run, db) : nil
        guard target != nil || home != nil else { return }
        switch try identities.standing(of: sample, run, db) {
        case .new: unsure[source(of: sample)] = nil
        case .known:
            unsure[source(of: sample)] = nil
            summary.known += 1
            return
        case .unsure(let reason):
            note(unsure: sample, reason)
            return
        }
        try takeRoom(for: sample, db)
        let id = place(sample)
        let assignment = try home ?? assignment(of: sample, to: destinations, run, db)
        var segment = try segment(of: assignment, run, id: id, sample, db)
        try insertion.insert(
            SampleRow(
                key, id: id, segment: segment.id, uptime: sample.uptime,
                uncertainty: sample.timeUncertainty, flags: sample.flags, frame: sample.frame))
        segment.count += 1
        segment.lastSample = id
        segment.lastUptime = max(segment.lastUptime, sample.uptime)
        segments[assignment] = segment
        summary.added += 1
        guard target == nil else { return }
        found[assignment, default: [:]][run.boot, default: []].append(sample.uptime)
        try segment.insertLetters(of: id, db)
    }

    private func source(of sample: ImportLine) -> ImportSurvey.Key {
        ImportSurvey.Key(nonce: sample.nonce, assignment: sample.assignment)
    }

    private mutating func note(unsure sample: ImportLine, _ reason: UnsureSamples.Reason) {
        summary.unsure += 1
        let source = source(of: sample)
        if let last = unsure[source], summary.unsureSamples[last].reason == reason {
            summary.unsureSamples[last].add(sample)
            return
        }
        guard summary.unsureSamples.count < ImportSummary.unsureListedMax else {
            unsure[source] = nil
            return
        }
        unsure[source] = summary.unsureSamples.count
        summary.unsureSamples.append(UnsureSamples(sample, reason))
    }

    // MARK: - Where a sample goes

    /// The destinations here for which it waits there.
    private func destinations(of sample: ImportLine) -> [Int64] {
        guard let target else { return [] }
        var found = sample.isWaiting ? [target.enrollmentID] : []
        for name in sample.waitsFor where !target.without.contains(name) {
            if let id = target.further[name], !found.contains(id) { found.append(id) }
        }
        return found
    }

    /// The sample's id here: as far from the one before it as it was there, or next to it.
    private mutating func place(_ sample: ImportLine) -> Int64 {
        let isNext =
            lastNumber.map { last in
                last.nonce == sample.nonce && sample.number > last.number
                    && sample.number - last.number <= SampleQueue.segmentHoleMax
            } ?? false
        if !isNext { shift = nextSample - sample.number }
        lastNumber = (sample.nonce, sample.number)
        let id = sample.number + shift
        nextSample = id + 1
        return id
    }

    private mutating func takeRoom(for sample: ImportLine, _ db: Database) throws {
        guard let limit = settings.maxBytes else { return }
        if roomRowsLeft == 0 {
            room = limit - (try StoreLimit.usedBytes(db))
            roomRowsLeft = Self.roomRows
        }
        roomRowsLeft -= 1
        room -= Int64(sample.frame.count + StoreLimit.rowBytesMax)
        guard room >= 0 else {
            throw QueueError(
                .diskFull, "import samples", "the store would grow beyond its limit")
        }
    }

    private mutating func run(of sample: ImportLine, _ db: Database) throws -> ImportedRun {
        if let known = runs[sample.nonce] { return known }
        let nonce = Int64(bitPattern: sample.nonce)
        func find() throws -> Row? {
            try Row.fetchOne(
                db, sql: "SELECT id, is_imported, boot FROM run WHERE nonce = ?",
                arguments: [nonce])
        }
        let known = try find()
        if known == nil {
            try db.execute(
                sql: """
                    INSERT INTO run (boot, nonce, started_uptime_us, is_imported) VALUES (?, ?, ?, 1)
                    """, arguments: [try db.boot(sample.bootID), nonce, sample.uptime])
        }
        let row = try known ?? find()
        let run = ImportedRun(
            id: row?[0] ?? 0, isOwn: row?[1] as Bool? != true, boot: row?[2] ?? 0,
            isKnown: known != nil)
        // The first file may have been written before that boot's clock was known.
        if !run.isOwn || isAside,
            let offset = survey.offset(ofRun: sample.nonce) ?? own(offsetOf: sample),
            var clock = try BootClock(db, boot: run.boot), clock.offset == nil
        {
            _ = clock.set(offset, at: sample.uptime)
            try clock.write([.found], boot: run.boot, source: "import", db)
        }
        runs[sample.nonce] = run
        return run
    }

    /// This store knows the clock of each boot of the broken store, except the newest.
    private func own(offsetOf sample: ImportLine) -> WallOffset? {
        guard target == nil else { return nil }
        return sample.time.map { WallOffset(utc: $0, uptime: sample.uptime) }
    }

    /// How far UTC was ahead of a sample's uptime: a line without a time has that of its boot.
    private func offset(of sample: ImportLine, _ run: ImportedRun, _ db: Database) throws
        -> WallOffset?
    {
        if let time = sample.time { return WallOffset(utc: time, uptime: sample.uptime) }
        guard !survey.hasJumped(sample.bootID) else { return nil }
        return try BootClock(db, boot: run.boot)?.answer(sample.uptime)?.offset
    }

    /// An assignment of its own for each of the file's in each of its runs and for each choice of
    /// destinations, ended as it begins: that sensor is not worn here.
    private mutating func assignment(
        of sample: ImportLine, to destinations: [Int64], _ run: ImportedRun, _ db: Database
    ) throws -> Int64 {
        let source = source(of: sample)
        let place = Place(source: source, destinations: destinations)
        if let known = assignments[place] { return known }
        guard let span = survey.spans[source] else { return 0 }
        let id = try makeEnded(
            place, of: sample.sensor, patient: patient(at: destinations), span, run, db)
        for further in destinations.dropFirst() {
            try db.execute(
                sql: """
                    INSERT INTO further_destination (assignment, destination, first_sample, state)
                    VALUES (?, ?, 0, 'active')
                    """, arguments: [id, further])
        }
        return id
    }

    /// Makes an assignment that ended with its last sample; gives its number.
    private mutating func makeEnded(
        _ place: Place, of sensor: String, patient: String?, _ span: ImportSurvey.Span,
        _ run: ImportedRun, _ db: Database
    ) throws -> Int64 {
        try db.execute(
            sql: "INSERT INTO sensor (address, is_forgotten) VALUES (?, 1) ON CONFLICT DO NOTHING",
            arguments: [sensor])
        let id = try db.nextNumber(of: "assignment")
        try db.execute(
            sql: """
                INSERT INTO assignment (id, sensor, enrollment, patient, began_boot,
                    began_uptime_us, began_wall_us, ended_boot, ended_uptime_us, ended_wall_us,
                    is_imported)
                VALUES (?, (SELECT id FROM sensor WHERE address = ?), ?, ?, ?, ?, ?, ?, ?, ?, ?)
                """,
            arguments: [
                id, sensor, place.destinations.first, patient, run.boot, span.firstUptime,
                span.firstTime, run.boot, span.lastUptime, span.lastTime, target != nil,
            ])
        assignments[place] = id
        return id
    }

    /// The assignment that it had; one without an enrollment, ended as it begins, if that is not known here: it must not
    /// go to a patient who may be another one. Nil if its patient was erased.
    private mutating func home(
        of sample: ImportLine, _ run: ImportedRun, _ db: Database
    ) throws -> Int64? {
        if try db.isErased(assignment: sample.assignment) { return nil }
        let place = Place(source: source(of: sample), destinations: [])
        if isAside {
            // A change that the disk refused at its last bytes counts by now.
            let instant = Instant(boot: run.boot, uptime: sample.uptime)
            if let there = try db.wearer(sample.assignment, at: instant) { return there }
        } else if assignments[place] == nil, run.isKnown {
            assignments[place] = try Int64.fetchOne(
                db,
                sql: """
                    SELECT a.id FROM assignment a JOIN sensor n ON n.id = a.sensor
                    WHERE a.id = ? AND n.address = ?
                    """, arguments: [sample.assignment, sample.sensor])
        }
        if let known = assignments[place] { return known }
        let instant = ImportSurvey.Span(
            firstUptime: sample.uptime, lastUptime: sample.uptime, firstTime: sample.time,
            lastTime: sample.time)
        return try makeEnded(place, of: sample.sensor, patient: nil, instant, run, db)
    }

    /// Where the samples of a segment stand, all of them alike.
    private func states(
        of sample: ImportLine, _ db: Database
    ) throws -> ImportedSegment.States? {
        guard target == nil else { return nil }
        func plain(_ state: SampleState) -> SampleState { state == .held ? .pending : state }
        var states = ImportedSegment.States(own: plain(sample.state))
        for (name, state) in sample.further {
            let id = try Int64.fetchOne(
                db.cachedStatement(sql: "SELECT id FROM enrollment WHERE name = ?"),
                arguments: [name])
            if let id { states.further[id] = plain(state) }
        }
        return states
    }

    private mutating func segment(
        of assignment: Int64, _ run: ImportedRun, id: Int64, _ sample: ImportLine, _ db: Database
    ) throws -> ImportedSegment {
        let uptime = sample.uptime
        let offset = try offset(of: sample, run, db)
        let day = offset?.utc(uptime)?.day
        let states = try states(of: sample, db)
        if let known = segments[assignment] {
            if known.shift == shift, id - known.lastSample <= SampleQueue.segmentHoleMax,
                known.day == day, known.wallOffset == offset, known.states == states,
                known.run == run.id
            {
                return known
            }
            try known.write(db)
        }
        return ImportedSegment(
            id: try db.insertSegment(
                of: assignment, run: run.id, after: id - 1, uptime: uptime, offset,
                identityShift: shift),
            run: run.id, firstSample: id, shift: shift, lastSample: id - 1, lastUptime: uptime,
            day: day, wallOffset: offset, states: states)
    }

    /// The patient that an assignment names: none where the enrollment itself does.
    private func patient(at destinations: [Int64]) -> String? {
        destinations.first == target?.enrollmentID ? target?.patient : survey.patient
    }
}

extension Database {
    fileprivate func isErased(assignment: Int64) throws -> Bool {
        try Bool.fetchOne(
            cachedStatement(
                sql: """
                    SELECT EXISTS (SELECT 1 FROM erased_number
                        WHERE kind = 'assignment' AND number = ?)
                    """), arguments: [assignment]) ?? false
    }

    /// The assignment of what came then from the sensor of this one: this one, unless it had ended.
    fileprivate func wearer(_ assignment: Int64, at instant: Instant) throws -> Int64? {
        try Int64.fetchOne(
            cachedStatement(
                sql: """
                    SELECT a.id FROM assignment a JOIN assignment t ON t.sensor = a.sensor
                    WHERE t.id = ?1
                        AND (a.ended_boot IS NULL OR (a.ended_boot, a.ended_uptime_us) > (?2, ?3))
                        AND (a.id = ?1 OR (a.began_boot, a.began_uptime_us) <= (?2, ?3))
                    ORDER BY a.id <> ?1 LIMIT 1
                    """), arguments: [assignment, instant.boot, instant.uptime])
    }
}
