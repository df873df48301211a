import Basics
import GRDB

/// A segment of a broken store: what its row said, and what was found of its samples. The books of
/// its successor are made from both.
struct SalvagedSegment: Sendable {
    let id: Int64
    private var row: SalvageSource.Values
    private let settledThrough: Int64
    private let lastSample: Int64
    private(set) var prunedThrough: Int64

    private(set) var found = 0
    private(set) var waiting = 0
    private var newer = 0
    private var lowest = Int64.max
    private var highest = Int64.min

    init(id: Int64, row: SalvageSource.Values) {
        self.id = id
        self.row = row
        // A row that contradicts itself is believed nothing but its references: its samples are sent
        // again, under the identities they have, and the exchange says that it has them.
        if !Self.isSound(row) {
            for name in Self.counters + Self.cursors { self.row[name] = nil }
        }
        settledThrough = Self.number(self.row, "settled_through") ?? 0
        prunedThrough = Self.number(self.row, "pruned_through") ?? 0
        lastSample = Self.number(self.row, "last_sample") ?? 0
    }

    var assignment: Int64? { Self.number(row, "assignment") }
    var run: Int64? { Self.number(row, "run") }
    var wallOffset: Int64? { Self.number(row, "wall_offset_us") }

    private static let counters = [
        "received", "stored", "undecodable", "refused", "delivered", "dead", "dropped", "pruned",
    ]
    private static let cursors = [
        "first_sample", "last_sample", "settled_through", "pruned_through",
    ]

    private static func number(_ row: SalvageSource.Values, _ name: String) -> Int64? {
        row[name].flatMap(Int64.fromDatabaseValue)
    }

    /// Whether cursors and counters of a row fit together, as the schema demands.
    static func isSound(_ row: SalvageSource.Values) -> Bool {
        let counts = counters.map { number(row, $0) ?? -1 }
        let bounds = cursors.map { number(row, $0) ?? -1 }
        guard counts.allSatisfy({ $0 >= 0 && $0 <= SampleIdentity.sampleMax }),
            bounds.allSatisfy({ $0 >= 0 && $0 <= SampleIdentity.sampleMax })
        else { return false }
        return bounds[0] - 1 <= bounds[3] && bounds[3] <= bounds[2] && bounds[2] <= bounds[1]
            && counts[0] == counts[1] + counts[2] + counts[3]
            && counts[1] >= counts[4] + counts[5] + counts[6] && counts[7] <= counts[4] + counts[6]
    }

    /// Whether `row` is a later state of the same segment than `other`.
    static func isNewer(
        _ row: SalvageSource.Values, than other: SalvageSource.Values
    ) -> Bool {
        guard isSound(other) else { return true }
        for name in ["received", "settled_through", "delivered", "pruned_through"] {
            let (new, old) = (number(row, name) ?? 0, number(other, name) ?? 0)
            if new != old { return new > old }
        }
        return false
    }

    /// Whether the sample was not settled.
    func isWaiting(_ sample: Int64) -> Bool { sample > settledThrough }

    /// One of its samples was found.
    mutating func add(_ sample: SampleRow) {
        found += 1
        if sample.id > settledThrough { waiting += 1 }
        if sample.id > lastSample { newer += 1 }
        lowest = min(lowest, sample.id)
        highest = max(highest, sample.id)
    }

    /// Writes the segment's row with books that balance. Returns how many samples are missing.
    func write(_ db: Database) throws -> Int64 {
        func count(_ sql: String) throws -> Int64 {
            try Int64.fetchOne(db, sql: "SELECT " + sql, arguments: [id]) ?? 0
        }
        // What waits by the cursor is not dead.
        try db.execute(
            sql: "DELETE FROM dead_letter WHERE segment = ? AND sample > ?",
            arguments: [id, settledThrough])
        let requeued = try count("count(*) FROM dead_letter WHERE segment = ? AND is_requeued = 1")
        let dead = try count("count(*) FROM dead_letter WHERE segment = ? AND is_requeued = 0")
        let badFrames = try count("count(*) FROM undecodable WHERE segment = ?")
        let unsent = Int64(waiting) + requeued
        let droppedBefore = Self.number(row, "dropped") ?? 0
        let storedBefore = (Self.number(row, "stored") ?? 0) + Int64(newer)
        var delivered = Self.number(row, "delivered") ?? 0
        // What the row says was stored, and is neither there nor delivered, is lost.
        let dropped = max(droppedBefore, storedBefore - delivered - dead - unsent)
        // A row older than the samples may know too few of them.
        delivered += max(0, Int64(found) - unsent - dead - delivered - dropped)
        let stored = delivered + dead + unsent + dropped
        let undecodable = max(Self.number(row, "undecodable") ?? 0, badFrames)
        let refused = try bookLosses(
            db, dropped: dropped, refused: Self.number(row, "refused") ?? 0)
        let known = Self.number(row, "first_sample") ?? (found > 0 ? lowest : 1)
        let first = max(1, min(known, lowest))
        let last = max(lastSample, highest, first - 1)
        let settled = min(max(settledThrough, first - 1), last)
        try db.execute(
            sql: """
                INSERT INTO segment (id, assignment, run, identity_shift, first_sample, last_sample,
                    settled_through, pruned_through, first_uptime_us, last_uptime_us,
                    last_sample_uptime_us, received, stored, undecodable, refused, doubled,
                    delivered, dead, dropped, pruned, undecodable_pruned, wall_offset_us)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
                """,
            arguments: [
                id, assignment, run, Self.number(row, "identity_shift") ?? 0, first, last, settled,
                min(max(prunedThrough, first - 1), settled),
                Self.number(row, "first_uptime_us") ?? 0, Self.number(row, "last_uptime_us") ?? 0,
                Self.number(row, "last_sample_uptime_us"), stored + undecodable + refused, stored,
                undecodable, refused, max(0, Self.number(row, "doubled") ?? 0), delivered, dead,
                dropped, stored - Int64(found), undecodable - badFrames, wallOffset,
            ])
        return dropped - droppedBefore
    }

    /// Makes table `loss` agree with the counters, and returns how many frames were refused.
    private func bookLosses(_ db: Database, dropped: Int64, refused: Int64) throws -> Int64 {
        func booked(_ kind: LossKind) throws -> Int64 {
            try Int64.fetchOne(
                db,
                sql: """
                    SELECT sum(count) FROM loss
                    WHERE segment = ? AND destination = 0 AND kind = ?
                    """, arguments: [id, kind.rawValue]) ?? 0
        }
        if try booked(.dropped) > dropped {
            try db.execute(
                sql: """
                    DELETE FROM loss WHERE segment = ? AND destination = 0 AND kind = 'dropped'
                    """, arguments: [id])
        }
        let refused = max(refused, try booked(.refused))
        for (kind, total) in [(LossKind.dropped, dropped), (.refused, refused)] {
            let missing = total - (try booked(kind))
            if missing > 0 {
                try db.count(Int(missing), kind, SampleQueue.storeDamaged, segment: id)
            }
        }
        return refused
    }
}
