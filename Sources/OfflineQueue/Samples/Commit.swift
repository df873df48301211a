import Basics
import Foundation
import GRDB

/// The running totals of one commit; adopted by the queue only if the transaction succeeds.
struct Commit {
    let run: Int64
    /// Of this boot, with the readings of these frames.
    private let clock: BootClock
    private let uptime: Uptime
    var nextSample: Int64
    var tails: [Int64: SegmentTail]
    private var changes: [Int64: Change] = [:]
    /// The assignment of each frame; nil where nobody wore the strap.
    private(set) var owners: [Int64?] = []
    /// The last frames for which there was no room, and samples dropped to make some.
    private(set) var unstored = 0
    var dropped: [DroppedRange] = []
    var isFull: Bool { unstored > 0 || !dropped.isEmpty }

    /// The gain of one segment.
    private struct Change {
        var stored = 0
        var undecodable = 0
        var refused = 0
        var doubled = 0
        var lastSample: Int64
        var lastUptime: Uptime
        /// Of the last frame stored as a sample; nil if there is none.
        var lastSampleUptime: Uptime?
    }

    init(run: Int64, _ segments: OpenSegments, _ clock: BootClock, at uptime: Uptime) {
        self.run = run
        self.uptime = uptime
        self.clock = clock
        nextSample = segments.nextSample
        tails = segments.tails
    }

    /// Inserts what there is room for, or can be made, and counts the rest as refused. Frames that are nobody's are
    /// passed over.
    mutating func insert(
        _ arrivals: ArraySlice<Arrival>, _ settings: QueueSettings, _ wearing: inout Wearing,
        _ db: Database
    ) throws {
        owners = try arrivals.map { try wearing.assignment(for: $0) }
        let needed = arrivals.reduce(0) { $0 + StoreLimit.cost($1) }
        var room = try StoreLimit.makeRoom(
            db, needed: needed, settings: settings, dropped: &dropped)
        var unstored: [Int64: Int] = [:]
        let insertion = try SampleInsertion(db)
        let key = try db.storeKey()
        for (arrival, owner) in zip(arrivals, owners) {
            room -= StoreLimit.cost(arrival)
            if room >= 0 {
                guard let owner else { continue }
                try insert(arrival, of: owner, key, insertion, db)
            } else {
                // From the first without room on, so that what is kept has no holes.
                room = -1
                self.unstored += 1
                if let owner { unstored[owner, default: 0] += 1 }
            }
        }
        for (assignment, count) in unstored.sorted(by: { $0.key < $1.key }) {
            try refuse(count, assignment: assignment, .queueFull, db)
        }
        if changes.values.contains(where: { $0.undecodable > 0 }) {
            try StoreLimit.boundUndecodable(db)
        }
    }

    private mutating func insert(
        _ arrival: Arrival, of assignment: Int64, _ key: StoreKey, _ insertion: SampleInsertion,
        _ db: Database
    ) throws {
        let uptime = arrival.uptime
        let segment = try segment(for: assignment, uptime: uptime, db)
        var change = change(of: segment, uptime: uptime)
        if let fault = arrival.faultStored {
            try db.insertUndecodable(arrival.frame, fault, at: uptime, segment: segment.segment)
            change.undecodable += 1
        } else {
            let id = nextSample
            try insertion.insert(
                SampleRow(
                    key, id: id, segment: segment.segment, uptime: uptime,
                    uncertainty: uncertainty(of: arrival),
                    flags: arrival.flags, frame: arrival.frame))
            nextSample += 1
            tails[assignment]?.lastSample = id
            change.stored += 1
            change.lastSample = id
            change.lastSampleUptime = max(uptime, change.lastSampleUptime ?? uptime)
        }
        changes[segment.segment] = change
    }

    /// How far the time of a frame may be wrong, as far as is known now: by the clock, and of itself.
    private func uncertainty(of arrival: Arrival) -> Duration? {
        return [clock.error(by: arrival.reading), arrival.ownUncertainty].reduce(nil) { sum, one in
            one.map { $0 + (sum ?? .zero) } ?? sum
        }
    }

    mutating func refuse(
        _ count: Int, assignment: Int64, _ reason: LossReason, _ db: Database
    ) throws {
        let segment = try add(count, to: \.refused, assignment: assignment, db)
        try db.count(count, .refused, reason.rawValue, segment: segment)
    }

    mutating func double(_ count: Int, assignment: Int64, _ db: Database) throws {
        _ = try add(count, to: \.doubled, assignment: assignment, db)
    }

    /// Counts frames without a row. Returns the segment that they count for.
    private mutating func add(
        _ count: Int, to counter: WritableKeyPath<Change, Int>, assignment: Int64, _ db: Database
    ) throws -> Int64 {
        let latest = changes.values.map(\.lastUptime).max() ?? uptime
        let segment = try segment(for: assignment, uptime: latest, db)
        var change = change(of: segment, uptime: latest)
        change[keyPath: counter] += count
        changes[segment.segment] = change
        return segment.segment
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

    private func change(of tail: SegmentTail, uptime: Uptime) -> Change {
        var change =
            changes[tail.segment] ?? Change(lastSample: tail.lastSample, lastUptime: uptime)
        change.lastUptime = max(change.lastUptime, uptime)
        return change
    }

    /// The segment a frame of `assignment` goes to: the open one, or a new one if there is none, the hole
    /// since its last sample has grown too wide, the wall clock has stepped, or another day (UTC) has begun.
    private mutating func segment(
        for assignment: Int64, uptime: Uptime, _ db: Database
    ) throws -> SegmentTail {
        let offset = clock.answer(uptime)?.offset
        let day = offset?.utc(uptime)?.day
        if let tail = tails[assignment],
            nextSample - tail.lastSample <= SampleQueue.segmentHoleMax,
            tail.wallOffset == offset, tail.day == day
        {
            return tail
        }
        let before = nextSample - 1
        let tail = SegmentTail(
            segment: try db.insertSegment(
                of: assignment, run: run, after: before, uptime: uptime, offset),
            lastSample: before, day: day, wallOffset: offset)
        tails[assignment] = tail
        return tail
    }
}

extension Database {
    /// Stores a frame that no measurement could be read from.
    func insertUndecodable(
        _ frame: [UInt8], _ fault: String, at uptime: Uptime, segment: Int64
    ) throws {
        try cachedStatement(
            sql: "INSERT INTO undecodable (segment, uptime_us, fault, frame) VALUES (?, ?, ?, ?)"
        ).execute(arguments: [
            segment, uptime, fault.bounded, Data(frame.prefix(Arrival.frameBytesMax)),
        ])
    }

    /// Begins a segment behind the sample `last`, and its books at the further destinations of its assignment. Returns its
    /// number.
    func insertSegment(
        of assignment: Int64, run: Int64, after last: Int64, uptime: Uptime, _ offset: WallOffset?,
        identityShift: Int64 = 0
    ) throws -> Int64 {
        try cachedStatement(
            sql: """
                INSERT INTO segment (id, assignment, run, first_sample, last_sample,
                    settled_through, pruned_through, first_uptime_us, last_uptime_us,
                    wall_offset_us, identity_shift)
                VALUES (?1, ?2, ?3, ?4 + 1, ?4, ?4, ?4, ?5, ?5, ?6, ?7)
                """
        ).execute(arguments: [
            try nextNumber(of: "segment"), assignment, run, last, uptime, offset, identityShift,
        ])
        let segment = lastInsertedRowID
        try cachedStatement(
            sql: """
                INSERT INTO further_delivery (segment, destination, settled_through, before,
                    delivered, dead, dropped)
                SELECT ?, destination, ?, 0, 0, 0, 0 FROM further_destination
                WHERE assignment = ? AND state = 'active'
                """
        ).execute(arguments: [segment, last, assignment])
        return segment
    }
}
