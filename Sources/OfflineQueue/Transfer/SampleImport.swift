import Basics
import Foundation
import GRDB

/// One import under way, from transaction to transaction.
///
/// A run of samples whose numbers follow one another without a wide hole keeps its distances here,
/// moved by one shift; so the ids of a segment need not be looked up, and the shift is the segment's.
struct SampleImport: Sendable {
    private struct Run: Sendable {
        var id: Int64
        /// Recorded by this very store: it has the samples up to some number, or had them.
        var isOwn: Bool
        var boot: Int64
        /// Whether the registry knows it: a store that was put in this one's place has runs of its own.
        var isKnown = true
    }
    /// An assignment of the file in one of its runs, and where samples of it go here: the first destination
    /// is the own one of an assignment here.
    private struct Place: Hashable, Sendable {
        var source: ImportSurvey.Key
        var destinations: [Int64]
    }
    private struct Segment: Sendable {
        var id: Int64
        var run: Int64
        var firstSample: Int64
        var shift: Int64
        var count = 0
        var lastSample: Int64
        var lastUptime: Uptime
        /// Its day (UTC), in days since 1970-01-01; nil without a time.
        var day: Int64?
        /// Of all its samples; nil without a time.
        var wallOffset: WallOffset?
        /// Nil: all of it waits.
        var states: States?
    }
    /// Why samples of a broken store are dead or dropped: nobody knows any more.
    static let saved = "saved"

    private struct States: Sendable, Hashable {
        var own: SampleState
        /// By the number of the destination.
        var further: [Int64: SampleState] = [:]
    }

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
    private(set) var newAssignments: Set<Int64> = []
    var summary = ImportSummary()

    /// The last of the summary's unsure samples of each assignment, while they follow one another.
    private var unsure: [ImportSurvey.Key: Int] = [:]
    private var runs: [UInt64: Run] = [:]
    private var assignments: [Place: Int64] = [:]
    private var segments: [Int64: Segment] = [:]
    private var seen: ImportedNumbers?
    /// The samples of runs that this store has; read anew in each transaction.
    private var stored: [Int64: StoredRun] = [:]
    /// The samples of this slice that were taken.
    private var taken: [SampleIdentity: ImportLine] = [:]
    /// The run that goes on giving numbers.
    private var currentRun: Int64 = 0
    private var lastNumber: (nonce: UInt64, number: Int64)?
    private var shift: Int64 = 0
    private var room: Int64 = 0

    init(survey: ImportSurvey, target: ImportTarget, settings: QueueSettings) {
        self.survey = survey
        self.target = target
        self.settings = settings
        isAside = false
    }

    /// Brings home what a broken store holds.
    init(home settings: QueueSettings, isAside: Bool) {
        survey = ImportSurvey(patient: nil, times: .epoch ..< .epoch)
        target = nil
        self.settings = settings
        self.isAside = isAside
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
        self.currentRun = currentRun
        segments = [:]
        stored = [:]
        taken = [:]
        lastNumber = nil
        roomRowsLeft = 0
        let insertion = try SampleInsertion(db)
        let key = try db.storeKey()
        for sample in slice { try add(sample, key, insertion, db) }
        try seen?.write(db)
        for segment in segments.values { try write(segment, db) }
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
            let data = Data(frame.frame)
            let isThere = try Bool.fetchOne(
                db.cachedStatement(
                    sql: """
                        SELECT EXISTS (SELECT 1 FROM undecodable u JOIN segment s ON s.id = u.segment
                            WHERE s.run = ? AND s.assignment = ? AND u.uptime_us = ? AND u.frame = ?)
                        """), arguments: [run.id, assignment, frame.uptime, data])
            if isThere == true { continue }
            let segment =
                try segments[assignment]
                ?? segmentWithoutSamples(of: frame, assignment, run, from: nextSample, db)
            segments[assignment] = segment
            try db.execute(
                sql: """
                    INSERT INTO undecodable (segment, uptime_us, fault, frame)
                    VALUES (?, ?, ?, ?)
                    """, arguments: [segment, frame.uptime, fault.bounded, data])
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
        of frame: ImportLine, _ assignment: Int64, _ run: Run, from nextSample: Int64,
        _ db: Database
    ) throws -> Int64 {
        let before = nextSample - 1
        try db.execute(
            sql: """
                INSERT INTO segment (id, assignment, run, first_sample, last_sample,
                    settled_through, pruned_through, first_uptime_us, last_uptime_us,
                    wall_offset_us)
                VALUES (?1, ?2, ?3, ?4, ?5, ?5, ?5, ?6, ?6, ?7)
                """,
            arguments: [
                try db.nextNumber(of: "segment"), assignment, run.id, nextSample, before,
                frame.uptime, try offset(of: frame, run, db),
            ])
        let segment = db.lastInsertedRowID
        try Commit.beginFurtherDeliveries(db, of: segment, assignment, after: before)
        return segment
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
        switch try standing(of: sample, run, db) {
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
        if segment.states?.own == .dead {
            try DeliveryBooks(segment: segment.id).insertLetter(db, ofSaved: id)
        }
        for (destination, state) in segment.states?.further ?? [:] where state == .dead {
            try DeliveryBooks(segment: segment.id, further: destination)
                .insertLetter(db, ofSaved: id)
        }
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

    /// Whether it is here. Marks what is new as imported.
    private mutating func standing(
        of sample: ImportLine, _ run: Run, _ db: Database
    ) throws -> Standing {
        if seen?.run != run.id {
            try seen?.write(db)
            seen = ImportedNumbers(run: run.id)
        }
        if let same = taken[sample.identity] {
            return same.isSame(as: sample) ? .known : .unsure(.numberTaken)
        }
        let stored = try stored[run.id] ?? StoredRun(run: run.id, db)
        self.stored[run.id] = stored
        if let isSame = try stored.isSame(as: sample, db) {
            return isSame ? .known : .unsure(.numberTaken)
        }
        // It was here, and is done with.
        if try seen?.has(sample.number, db) ?? false { return .known }
        if run.isOwn {
            // A store before this one gave the lower ones.
            if target != nil || sample.number >= stored.firstGiven,
                sample.number <= stored.lastGiven
            {
                return stored.isSettled(sample) ? .known : .unsure(.lost)
            }
            // It would give the same number to another sample.
            if target != nil, run.id == currentRun { return .unsure(.runGoesOn) }
        }
        try seen?.insert(sample.number, db)
        taken[sample.identity] = sample
        return .new
    }

    private mutating func run(of sample: ImportLine, _ db: Database) throws -> Run {
        if let known = runs[sample.nonce] { return known }
        let nonce = Int64(bitPattern: sample.nonce)
        var row = try Row.fetchOne(
            db, sql: "SELECT id, is_imported, boot FROM run WHERE nonce = ?", arguments: [nonce])
        let isKnown = row != nil
        if row == nil {
            let boot = try boot(of: sample, db)
            try db.execute(
                sql: """
                    INSERT INTO run (boot, nonce, started_uptime_us, is_imported) VALUES (?, ?, ?, 1)
                    """, arguments: [boot, nonce, sample.uptime])
            row = try Row.fetchOne(
                db, sql: "SELECT id, is_imported, boot FROM run WHERE nonce = ?", arguments: [nonce]
            )
        }
        let run = Run(
            id: row?[0] ?? 0, isOwn: row?[1] as Bool? != true, boot: row?[2] ?? 0,
            isKnown: isKnown)
        // The first file may have been written before that boot's clock was known.
        if !run.isOwn || isAside,
            let offset = survey.offsets[sample.nonce] ?? own(offsetOf: sample),
            var clock = try BootClock(db, boot: run.boot), clock.offset == nil
        {
            _ = clock.set(offset, at: sample.uptime)
            try clock.write(.found(offset), boot: run.boot, source: "import", db)
        }
        runs[sample.nonce] = run
        return run
    }

    private func boot(of sample: ImportLine, _ db: Database) throws -> Int64 {
        try db.execute(
            sql: "INSERT INTO boot (boot_id) VALUES (?) ON CONFLICT DO NOTHING",
            arguments: [sample.bootID])
        return try Int64.fetchOne(
            db, sql: "SELECT id FROM boot WHERE boot_id = ?", arguments: [sample.bootID]) ?? 0
    }

    /// This store knows the clock of each boot of the broken store, except the newest.
    private func own(offsetOf sample: ImportLine) -> WallOffset? {
        guard target == nil else { return nil }
        return sample.time.map { WallOffset(utc: $0, uptime: sample.uptime) }
    }

    /// How far UTC was ahead of a sample's uptime: a line without a time has that of its run or of its boot.
    private func offset(of sample: ImportLine, _ run: Run, _ db: Database) throws -> WallOffset? {
        if let time = sample.time { return WallOffset(utc: time, uptime: sample.uptime) }
        if let offset = survey.offsets[sample.nonce] { return offset }
        return try BootClock(db, boot: run.boot)?.answer(sample.uptime)?.offset
    }

    /// An assignment of its own for each of the file's in each of its runs and for each choice of
    /// destinations, ended as it begins: that sensor is not worn here.
    private mutating func assignment(
        of sample: ImportLine, to destinations: [Int64], _ run: Run, _ db: Database
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
        _ place: Place, of sensor: String, patient: String?, _ span: ImportSurvey.Span, _ run: Run,
        _ db: Database
    ) throws -> Int64 {
        try db.execute(
            sql: "INSERT INTO sensor (address, is_forgotten) VALUES (?, 1) ON CONFLICT DO NOTHING",
            arguments: [sensor])
        let id = try db.nextNumber(of: "assignment")
        try db.execute(
            sql: """
                INSERT INTO assignment (id, sensor, enrollment, patient, began_boot,
                    began_uptime_us, began_wall_us, ended_boot, ended_uptime_us, ended_wall_us)
                VALUES (?, (SELECT id FROM sensor WHERE address = ?), ?, ?, ?, ?, ?, ?, ?, ?)
                """,
            arguments: [
                id, sensor, place.destinations.first, patient, run.boot, span.firstUptime,
                span.firstTime, run.boot, span.lastUptime, span.lastTime,
            ])
        assignments[place] = id
        newAssignments.insert(id)
        return id
    }

    /// The assignment that it had; one without an enrollment, ended as it begins, if that is not known here: it must not
    /// go to a patient who may be another one. Nil if its patient was erased.
    private mutating func home(
        of sample: ImportLine, _ run: Run, _ db: Database
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
        of sample: ImportLine, _ assignment: Int64, _ db: Database
    ) throws -> States? {
        guard target == nil else { return nil }
        func plain(_ state: SampleState) -> SampleState { state == .held ? .pending : state }
        var states = States(own: plain(sample.state))
        for (name, state) in sample.further {
            let id = try Int64.fetchOne(
                db.cachedStatement(sql: "SELECT id FROM enrollment WHERE name = ?"),
                arguments: [name])
            if let id { states.further[id] = plain(state) }
        }
        return states
    }

    private mutating func segment(
        of assignment: Int64, _ run: Run, id: Int64, _ sample: ImportLine, _ db: Database
    ) throws -> Segment {
        let uptime = sample.uptime
        let offset = try offset(of: sample, run, db)
        let day = offset?.utc(uptime)?.day
        let states = try states(of: sample, assignment, db)
        if let known = segments[assignment] {
            if known.shift == shift, id - known.lastSample <= SampleQueue.segmentHoleMax,
                known.day == day, known.wallOffset == offset, known.states == states,
                known.run == run.id
            {
                return known
            }
            try write(known, db)
        }
        try db.execute(
            sql: """
                INSERT INTO segment (id, assignment, run, first_sample, last_sample, settled_through,
                    pruned_through, first_uptime_us, last_uptime_us, identity_shift, wall_offset_us)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
                """,
            arguments: [
                try db.nextNumber(of: "segment"), assignment, run.id, id, id - 1, id - 1, id - 1,
                uptime, uptime, shift, offset,
            ])
        let segment = Segment(
            id: db.lastInsertedRowID, run: run.id, firstSample: id, shift: shift,
            lastSample: id - 1,
            lastUptime: uptime, day: day, wallOffset: offset, states: states)
        try Commit.beginFurtherDeliveries(db, of: segment.id, assignment, after: id - 1)
        return segment
    }

    /// The patient that an assignment names: none where the enrollment itself does.
    private func patient(at destinations: [Int64]) -> String? {
        destinations.first == target?.enrollmentID ? target?.patient : survey.patient
    }

    private func write(_ segment: Segment, _ db: Database) throws {
        try db.execute(
            sql: """
                UPDATE segment SET received = ?1, stored = ?1, last_sample = ?2, last_uptime_us = ?3
                WHERE id = ?4
                """,
            arguments: [segment.count, segment.lastSample, segment.lastUptime, segment.id])
        guard let states = segment.states else { return }
        func settle(_ books: DeliveryBooks, _ state: SampleState) throws {
            guard !state.isUnsent else { return }
            let isDropped = state == .dropped
            try books.move(
                db, through: segment.lastSample, delivered: state == .delivered ? segment.count : 0,
                dead: state == .dead ? segment.count : 0, dropped: isDropped ? segment.count : 0)
            guard isDropped else { return }
            try books.note(db, dropped: segment.count, Self.saved)
            try books.note(db, dropped: segment.firstSample...segment.lastSample, Self.saved)
        }
        try settle(DeliveryBooks(segment: segment.id), states.own)
        let further = try Int64.fetchAll(
            db, sql: "SELECT destination FROM further_delivery WHERE segment = ?",
            arguments: [segment.id])
        for destination in further {
            if let state = states.further[destination] {
                try settle(DeliveryBooks(segment: segment.id, further: destination), state)
            } else {
                // It came before that destination was added.
                try db.execute(
                    sql: """
                        UPDATE further_delivery SET settled_through = ?, before = ?
                        WHERE segment = ? AND destination = ?
                        """,
                    arguments: [segment.lastSample, segment.count, segment.id, destination])
            }
        }
    }
}

extension DeliveryBooks {
    /// A dead letter of a broken store. Why it was refused is not known any more.
    fileprivate func insertLetter(_ db: Database, ofSaved id: Int64) throws {
        let (table, columns) =
            further == nil
            ? ("dead_letter", "sample, segment, reason, diagnostics")
            : ("further_dead_letter", "sample, segment, reason, diagnostics, destination")
        let values: StatementArguments = [id, segment, SampleImport.saved, ""]
        try db.execute(
            sql: """
                INSERT INTO \(table) (\(columns)) VALUES (?, ?, ?, ?\(further == nil ? "" : ", ?"))
                """,
            arguments: values + (further.map { [$0] } ?? []))
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
}

/// Whether a sample of a file is in the store.
private enum Standing {
    case new
    /// It is here, or was and is done with.
    case known
    case unsure(UnsureSamples.Reason)
}

/// The samples of a run that this store has, recorded here or imported.
private struct StoredRun: Sendable {
    /// Samples whose numbers here lie as far from those of their run.
    private struct Shifted: Sendable {
        var shift: Int64
        /// In the run.
        var numbers: ClosedRange<Int64>
    }

    private let run: Int64
    private var shifted: [Shifted] = []
    /// The lowest and the highest number that the run gave here; none if that is 0.
    private(set) var firstGiven = Int64.max
    private(set) var lastGiven: Int64 = 0
    /// The part that every destination is done with of the samples that the run gave here, by the sensor's address.
    private var settled: [String: [ClosedRange<Int64>]] = [:]

    init(run: Int64, _ db: Database) throws {
        self.run = run
        // A segment that was imported may stand under its old numbers.
        let segments = try Row.fetchAll(
            db,
            sql: """
                SELECT n.address, s.first_sample, s.last_sample, \(Pruning.floorSQL) AS floor,
                    s.identity_shift, EXISTS (
                        SELECT 1 FROM imported i WHERE i.run = ?1
                        AND s.last_sample BETWEEN i.first_number AND i.last_number) AS is_imported
                FROM segment s JOIN assignment a ON a.id = s.assignment
                JOIN sensor n ON n.id = a.sensor
                WHERE s.run = ?1 AND s.first_sample <= s.last_sample
                """, arguments: [run])
        var bounds: [Int64: ClosedRange<Int64>] = [:]
        for segment in segments {
            let first: Int64 = segment["first_sample"] ?? 0
            let last: Int64 = segment["last_sample"] ?? 0
            let shift: Int64 = segment["identity_shift"] ?? 0
            guard first <= last else { continue }
            let known = bounds[shift]
            bounds[shift] =
                min(known?.lowerBound ?? first, first)...max(known?.upperBound ?? last, last)
            guard shift == 0, segment["is_imported"] as Bool? != true else { continue }
            firstGiven = min(firstGiven, first)
            lastGiven = max(lastGiven, last)
            let floor: Int64 = segment["floor"] ?? 0
            if first <= floor {
                settled[segment["address"] ?? "", default: []].append(first...floor)
            }
        }
        shifted = bounds.map { shift, ids in
            Shifted(shift: shift, numbers: (ids.lowerBound &- shift)...(ids.upperBound &- shift))
        }
    }

    /// Whether the sample that has this one's number here is the same; nil if there is none.
    func isSame(as sample: ImportLine, _ db: Database) throws -> Bool? {
        for part in shifted where part.numbers.contains(sample.number) {
            let row = try Row.fetchOne(
                db.cachedStatement(
                    sql: """
                        SELECT p.uptime_us, p.frame, n.address, s.wall_offset_us
                        FROM sample p JOIN segment s ON s.id = p.segment
                        JOIN assignment a ON a.id = s.assignment JOIN sensor n ON n.id = a.sensor
                        WHERE p.id = ? AND s.run = ? AND s.identity_shift = ?
                        """), arguments: [sample.number &+ part.shift, run, part.shift])
            guard let row else { continue }
            let uptime: Uptime = row[0] ?? .zero
            return sample.isSame(
                uptime: uptime, frame: (row[1] as Data?).map { [UInt8]($0) } ?? [],
                sensor: row[2] ?? "", time: (row[3] as WallOffset?)?.utc(uptime))
        }
        return nil
    }

    /// Whether every destination is done with a sample that the run gave its number here.
    func isSettled(_ sample: ImportLine) -> Bool {
        settled[sample.sensor]?.contains { $0.contains(sample.number) } ?? false
    }
}

extension ImportLine {
    fileprivate var identity: SampleIdentity { SampleIdentity(runNonce: nonce, sample: number) }

    fileprivate func isSame(as other: ImportLine) -> Bool {
        isSame(uptime: other.uptime, frame: other.frame, sensor: other.sensor, time: other.time)
    }

    /// Whether it is the sample of this content. A time that one of the two does not know tells nothing.
    fileprivate func isSame(uptime: Uptime, frame: [UInt8], sensor: String, time: UTC?) -> Bool {
        self.uptime == uptime && self.frame == frame && self.sensor == sensor
            && (self.time == nil || time == nil || self.time == time)
    }
}

/// Which numbers of a run were imported, or given here and erased, as ranges.
struct ImportedNumbers: Sendable {
    let run: Int64
    /// The range that grows, not yet written.
    private var open: ClosedRange<Int64>?

    init(run: Int64) { self.run = run }

    /// Notes a range, with what lies between it and those that it overlaps.
    static func note(_ range: ClosedRange<Int64>, of run: Int64, _ db: Database) throws {
        let overlapping = "FROM imported WHERE run = ? AND first_number <= ? AND last_number >= ?"
        let arguments: StatementArguments = [run, range.upperBound, range.lowerBound]
        let bounds = try Row.fetchOne(
            db, sql: "SELECT min(first_number), max(last_number) \(overlapping)",
            arguments: arguments)
        let first = min(bounds?[0] ?? range.lowerBound, range.lowerBound)
        let last = max(bounds?[1] ?? range.upperBound, range.upperBound)
        try db.execute(sql: "DELETE \(overlapping)", arguments: arguments)
        try db.execute(sql: "INSERT INTO imported VALUES (?, ?, ?)", arguments: [run, first, last])
    }

    func has(_ number: Int64, _ db: Database) throws -> Bool {
        if open?.contains(number) ?? false { return true }
        let last = try Int64.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT last_number FROM imported WHERE run = ? AND first_number <= ?
                    ORDER BY first_number DESC LIMIT 1
                    """), arguments: [run, number])
        return last.map { $0 >= number } ?? false
    }

    /// Adds a number that is not there.
    mutating func insert(_ number: Int64, _ db: Database) throws {
        if let open, number != open.upperBound + 1 { try write(db) }
        open = (open?.lowerBound ?? number)...number
    }

    /// Writes the open range, made one with the ones it touches.
    mutating func write(_ db: Database) throws {
        guard let range = open else { return }
        open = nil
        let before = try Row.fetchOne(
            db,
            sql: "SELECT first_number FROM imported WHERE run = ? AND last_number = ? - 1",
            arguments: [run, range.lowerBound])
        let after = try Row.fetchOne(
            db,
            sql: "SELECT last_number FROM imported WHERE run = ? AND first_number = ? + 1",
            arguments: [run, range.upperBound])
        let first: Int64 = before?[0] ?? range.lowerBound
        let last: Int64 = after?[0] ?? range.upperBound
        try db.execute(
            sql: "DELETE FROM imported WHERE run = ? AND first_number BETWEEN ? AND ?",
            arguments: [run, first, last])
        try db.execute(sql: "INSERT INTO imported VALUES (?, ?, ?)", arguments: [run, first, last])
    }
}
