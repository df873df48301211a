import Foundation
import GRDB

extension SampleQueue {
    /// The reason under which samples are counted that neither disk nor memory could take.
    public static let storeUnwritable = "store-unwritable"

    /// Takes over one frame; see ``append(contentsOf:)``.
    public func append(_ arrival: Arrival) throws(QueueError) {
        try append(contentsOf: CollectionOfOne(arrival))
    }

    /// Takes over frames in order of arrival, and commits if a group is full or old enough.
    ///
    /// A failing disk is no error here: the samples wait in memory and ``health()`` tells of it. Throws
    /// `unknown-reference` if an assignment is not in the store; frames before it are taken.
    public func append(contentsOf arrivals: some Sequence<Arrival>) throws(QueueError) {
        var latest: Int64?
        for arrival in arrivals {
            guard assignmentIDs.contains(arrival.assignmentID) else {
                throw QueueError(.unknownReference, "append sample", "no such assignment")
            }
            latest = arrival.uptimeMicroseconds
            takenUptime = latest
            guard buffer.count < settings.bufferedSamplesMax else {
                noteRefusal(arrival)
                refusals[arrival.assignmentID, default: 0] += 1
                refusedCount += 1
                continue
            }
            buffer.append(arrival)
            group.add(uptime: arrival.uptimeMicroseconds)
            FaultPoint.append.reach()
        }
        if let latest, group.isDue(uptime: latest) {
            try? commitBuffer(uptime: latest)
        }
    }

    /// Counts copies of frames that were taken over, as `doubled`: bluetoothd signals each frame once for
    /// every program that listens. The count is written with the next commit.
    public func note(copies count: Int, of assignment: Int64) {
        guard count > 0, assignmentIDs.contains(assignment) else { return }
        copies[assignment, default: 0] += count
    }

    /// Commits if the oldest buffered sample is old enough by the clock; call at
    /// ``nextCommitDeadlineUptime`` or about once a second. Failures show in ``health()``. A store
    /// that some call found broken is salvaged first.
    public func commitIfDue() {
        let uptime = clock.read().uptimeMicroseconds
        try? salvageIfDamaged()
        returnToStoreIfDue(uptime: uptime)
        carryOverIfMissing(uptime: uptime)
        if group.isDue(uptime: uptime) {
            try? commitBuffer(uptime: uptime)
        } else {
            keepLedgersIfDue(uptime: uptime)
        }
        // Where nothing is recorded, no commit takes them along.
        let oldest = unwritten.values.compactMap(\.since).min()
        if let oldest, uptime - oldest >= settings.commitAgeMicrosecondsMax {
            try? write("settle samples") { _ in }
        }
    }

    /// Writes everything buffered, now: at a disconnect, before a batch, at shutdown.
    ///
    /// If it throws, all that could not be written still waits in memory.
    public func flush() throws(QueueError) {
        guard !buffer.isEmpty || !refusals.isEmpty || !copies.isEmpty else {
            if !unwritten.isEmpty { try write("settle samples") { _ in } }
            return
        }
        try commitBuffer(uptime: clock.read().uptimeMicroseconds)
    }

    /// The uptime at which ``commitIfDue()`` has something to do, µs; nil while nothing waits.
    public var nextCommitDeadlineUptime: Int64? { group.deadline }

    private func commitBuffer(uptime: Int64) throws(QueueError) {
        do {
            repeat { try commitChunk(uptime: uptime) } while !buffer.isEmpty
        } catch {
            note(error, rowsOnly: true)
            fault = error
            failingSince = failingSince ?? uptime
            group.failed(uptime: uptime)
            throw error
        }
        fault = nil
        failingSince = nil
    }

    /// One transaction: the oldest buffered frames, their segments' counters, the gaps up to the last
    /// of them, and refusals to date.
    private func commitChunk(uptime: Int64) throws(QueueError) {
        let count = min(buffer.count, Self.commitRowsMax)
        let chunk = buffer[..<count]
        let refused = refusals
        let doubled = copies
        let offset = wallOffset ?? Self.offset(in: chunk)
        let isNewOffset = wallOffset == nil && offset != nil
        let plan = Commit(
            run: run, nextSample: nextSample, tails: tails, wallOffset: offset)
        let isLast = count == buffer.count
        let events = ledgerEvents.prefix { isLast || $0.frames < count }
        let told = isLast ? uptime : chunk.last?.uptimeMicroseconds ?? uptime
        var kept = ledgers
        let done = try write("commit samples") { [run, boot, settings] db -> Commit in
            FaultPoint.commitBegun.reach()
            var commit = plan
            try commit.insert(chunk, settings, db)
            FaultPoint.commitRows.reach()
            for (assignment, count) in refused.sorted(by: { $0.key < $1.key }) {
                try commit.refuse(count, assignment: assignment, Self.storeUnwritable, db)
            }
            for (assignment, count) in doubled.sorted(by: { $0.key < $1.key }) {
                try commit.double(count, assignment: assignment, db)
            }
            try commit.updateSegments(db)
            FaultPoint.commitBooks.reach()
            if isNewOffset, let offset {
                try Self.trust(db, boot: boot, offset: offset, source: "clock")
            }
            kept.tell(chunk, unstored: commit.unstored, events)
            try Self.keep(&kept, db, run: run, boot: boot, uptime: told)
            FaultPoint.commitGaps.reach()
            return commit
        }
        FaultPoint.committed.reach()
        nextSample = done.nextSample
        tails = done.tails
        ledgers = kept
        ledgerEvents.removeFirst(events.count)
        for index in ledgerEvents.indices { ledgerEvents[index].frames -= count }
        aliveUptime = told
        wallOffset = offset
        refusals = [:]
        copies = [:]
        refusedCount += done.unstored
        isFull = done.isFull
        lent.drop(done.dropped)
        committedUptime = clock.read().uptimeMicroseconds
        for arrival in chunk.dropLast(done.unstored) {
            storedUptimes[arrival.assignmentID] = arrival.uptimeMicroseconds
        }
        buffer.removeFirst(count)
        group.committed(remaining: buffer.count, oldestUptime: buffer.first?.uptimeMicroseconds)
    }

    /// A trusted wall clock at arrival makes its whole boot trusted.
    private static func offset(in arrivals: ArraySlice<Arrival>) -> Int64? {
        for arrival in arrivals {
            if let wall = arrival.trustedWallMicroseconds {
                return wall &- arrival.uptimeMicroseconds
            }
        }
        return nil
    }
}

/// The running totals of one commit; adopted by the queue only if the transaction succeeds.
struct Commit {
    let run: Int64
    /// UTC − uptime, µs; nil while it is not known.
    private let wallOffset: Int64?
    var nextSample: Int64
    var tails: [Int64: SampleQueue.Tail]
    private var changes: [Int64: Change] = [:]
    /// Frames for which there was no room, and samples dropped to make some.
    var unstored = 0
    var dropped: [DroppedRange] = []
    var isFull: Bool { unstored > 0 || !dropped.isEmpty }

    /// What one segment gains.
    private struct Change {
        var stored = 0
        var undecodable = 0
        var refused = 0
        var doubled = 0
        var lastSample: Int64
        var lastUptime: Int64
        /// Of the last frame stored as a sample; nil if there is none.
        var lastSampleUptime: Int64?
    }

    init(
        run: Int64, nextSample: Int64, tails: [Int64: SampleQueue.Tail], wallOffset: Int64?
    ) {
        self.run = run
        self.wallOffset = wallOffset
        self.nextSample = nextSample
        self.tails = tails
    }

    /// Inserts what there is room for, or can be made, and counts the rest as refused.
    mutating func insert(
        _ arrivals: ArraySlice<Arrival>, _ settings: QueueSettings, _ db: Database
    ) throws {
        let needed = arrivals.reduce(0) { $0 + SampleQueue.cost($1) }
        var room = try SampleQueue.makeRoom(
            db, needed: needed, settings: settings, dropped: &dropped)
        var unstored: [Int64: Int] = [:]
        let insertion = try SampleInsertion(db)
        for arrival in arrivals {
            room -= SampleQueue.cost(arrival)
            if room >= 0 {
                try insert(arrival, insertion, db)
            } else {
                // From the first without room on, so that what is kept has no holes.
                room = -1
                unstored[arrival.assignmentID, default: 0] += 1
            }
        }
        for (assignment, count) in unstored.sorted(by: { $0.key < $1.key }) {
            try refuse(count, assignment: assignment, SampleQueue.queueFull, db)
            self.unstored += count
        }
        if changes.values.contains(where: { $0.undecodable > 0 }) {
            try SampleQueue.boundUndecodable(db)
        }
    }

    private mutating func insert(
        _ arrival: Arrival, _ insertion: SampleInsertion, _ db: Database
    ) throws {
        let uptime = arrival.uptimeMicroseconds
        let wall = arrival.trustedWallMicroseconds
        let segment = try segment(for: arrival.assignmentID, uptime: uptime, wall: wall, db)
        var change = change(of: segment, uptime: uptime)
        if let fault = arrival.faultStored {
            try db.cachedStatement(
                sql: """
                    INSERT INTO undecodable (segment, uptime_us, wall_us, fault, frame)
                    VALUES (?, ?, ?, ?, ?)
                    """
            ).execute(arguments: [
                segment.segment, uptime, wall, fault.bounded,
                Data(arrival.frame.prefix(Arrival.frameBytesMax)),
            ])
            change.undecodable += 1
        } else {
            let id = nextSample
            try insertion.insert(
                SampleRow(
                    id: id, segment: segment.segment, uptime: uptime, wall: wall,
                    flags: arrival.flags, frame: arrival.frame))
            nextSample += 1
            tails[arrival.assignmentID]?.lastSample = id
            change.stored += 1
            change.lastSample = id
            change.lastSampleUptime = max(uptime, change.lastSampleUptime ?? uptime)
        }
        changes[segment.segment] = change
    }

    mutating func refuse(
        _ count: Int, assignment: Int64, _ reason: String, _ db: Database
    ) throws {
        let latest = changes.values.map(\.lastUptime).max() ?? 0
        let segment = try segment(for: assignment, uptime: latest, db)
        var change = change(of: segment, uptime: latest)
        change.refused += count
        changes[segment.segment] = change
        try db.count(count, .refused, reason, segment: segment.segment)
    }

    mutating func double(_ count: Int, assignment: Int64, _ db: Database) throws {
        let latest = changes.values.map(\.lastUptime).max() ?? 0
        let segment = try segment(for: assignment, uptime: latest, db)
        var change = change(of: segment, uptime: latest)
        change.doubled += count
        changes[segment.segment] = change
    }

    func updateSegments(_ db: Database) throws {
        for (segment, change) in changes.sorted(by: { $0.key < $1.key }) {
            try db.cachedStatement(
                sql: """
                    UPDATE segment SET received = received + ?, stored = stored + ?,
                        undecodable = undecodable + ?, refused = refused + ?, last_sample = ?,
                        last_uptime_us = max(last_uptime_us, ?),
                        last_sample_uptime_us = coalesce(
                            max(coalesce(last_sample_uptime_us, ?7), ?7), last_sample_uptime_us),
                        doubled = doubled + ?8
                    WHERE id = ?9
                    """
            ).execute(arguments: [
                change.stored + change.undecodable + change.refused, change.stored,
                change.undecodable, change.refused, change.lastSample, change.lastUptime,
                change.lastSampleUptime, change.doubled, segment,
            ])
        }
    }

    private func change(of tail: SampleQueue.Tail, uptime: Int64) -> Change {
        var change =
            changes[tail.segment] ?? Change(lastSample: tail.lastSample, lastUptime: uptime)
        change.lastUptime = max(change.lastUptime, uptime)
        return change
    }

    /// The segment a frame of `assignment` goes to: the open one, or a new one if there is none, the hole
    /// since its last sample has grown too wide, or another day (UTC) has begun.
    private mutating func segment(
        for assignment: Int64, uptime: Int64, wall: Int64? = nil, _ db: Database
    ) throws -> SampleQueue.Tail {
        let time = wall ?? wallOffset.map { $0 &+ uptime }
        let day = time.map { $0 / Coverage.dayMicroseconds }
        if let tail = tails[assignment],
            nextSample - tail.lastSample <= SampleQueue.segmentHoleMax,
            day == nil || tail.day == day
        {
            return tail
        }
        let before = nextSample - 1
        try db.cachedStatement(
            sql: """
                INSERT INTO segment (assignment, run, first_sample, last_sample,
                    settled_through, pruned_through, first_uptime_us, last_uptime_us)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?)
                """
        ).execute(arguments: [
            assignment, run, nextSample, before, before, before, uptime, uptime,
        ])
        let tail = SampleQueue.Tail(
            segment: db.lastInsertedRowID, lastSample: before, day: day)
        try Self.beginFurtherDeliveries(db, of: tail.segment, assignment, after: before)
        tails[assignment] = tail
        return tail
    }

    /// Opens the books of a new segment at the further destinations of its assignment.
    static func beginFurtherDeliveries(
        _ db: Database, of segment: Int64, _ assignment: Int64, after cursor: Int64
    ) throws {
        try db.cachedStatement(
            sql: """
                INSERT INTO further_delivery (segment, destination, settled_through, before,
                    delivered, dead, dropped)
                SELECT ?, destination, ?, 0, 0, 0, 0 FROM further_destination
                WHERE assignment = ? AND state = 'active'
                """
        ).execute(arguments: [segment, cursor, assignment])
    }
}

/// How a sample can be lost, as table `loss` words it.
enum LossKind: String {
    case refused, dropped
}

extension Database {
    /// Adds `count` losses of a segment to table `loss`; `destination` 0 is the assignment's own.
    func count(
        _ count: Int, _ kind: LossKind, _ reason: String, segment: Int64, destination: Int64 = 0
    ) throws {
        try cachedStatement(
            sql: """
                INSERT INTO loss (segment, destination, kind, reason, count) VALUES (?, ?, ?, ?, ?)
                ON CONFLICT DO UPDATE SET count = count + excluded.count
                """
        ).execute(arguments: [segment, destination, kind.rawValue, reason.bounded, count])
    }
}

extension String {
    /// The text, cut to what the store keeps.
    var bounded: String { String(prefix(SampleQueue.textCharactersMax)) }
}
