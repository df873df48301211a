import Foundation
import GRDB

// What happens at the limit, in this order: delivered samples go, however young; then the policy has
// its way. Whole pages count, so when the samples of a delivery that is stuck lie between delivered ones,
// up to two thirds of a page may be room that cannot be used.

extension SampleQueue {
    /// The reason under which samples are counted for which there was no room.
    public static let queueFull = "queue-full"
    /// The reason under which samples are counted that waited longer than
    /// ``QueueSettings/maxAgeMicroseconds``.
    public static let maxAge = "max-age"
    /// Undecodable frames kept, the newest: 6 MiB at the longest frame there can be.
    public static let undecodableKeptMax = 10_000

    /// Bytes of a sample's row beside its frame, at the most: seven fields with their types, the
    /// row's number and length, and the page's pointer to it.
    static let rowBytesMax = 64
    /// Room made beyond what is needed, so that not every commit has to.
    static let roomStepBytes = 65_536
    /// Ids by which the oldest are dropped at a time: about a commit's worth.
    static let dropStepIDs: Int64 = 512
    /// Rounds of pruning and dropping in one commit. One round frees more than a commit takes.
    static let roundsMax = 64

    /// How full the store is; looks at no sample row.
    public func fill() throws(QueueError) -> StoreFill {
        let (used, rows, waiting) = try read("read fill") { db in
            let row = try Row.fetchOne(
                db,
                sql: """
                    SELECT sum(stored - pruned), sum(stored - delivered - dropped) FROM segment
                    """)
            return (try Self.usedBytes(db), row?[0] as Int64? ?? 0, row?[1] as Int64? ?? 0)
        }
        // Rows are much of a size; what the tables beside `sample` take is small.
        let reclaimable = rows > 0 ? Double(used) * Double(rows - waiting) / Double(rows) : 0
        return StoreFill(
            usedBytes: used, reclaimableBytes: Int64(reclaimable),
            logBytes: StoreFile.logBytes(path),
            maxBytes: settings.maxBytes, policy: settings.fullPolicy, isFull: isFull)
    }

    /// Bytes of the pages that hold something, as this transaction sees them.
    static func usedBytes(_ db: Database) throws -> Int64 {
        func number(_ pragma: String) throws -> Int64 {
            try Int64.fetchOne(db.cachedStatement(sql: "PRAGMA " + pragma)) ?? 0
        }
        return try (number("page_count") - number("freelist_count")) * number("page_size")
    }

    /// Bytes a frame takes in the store, at the most.
    static func cost(_ arrival: Arrival) -> Int64 {
        let text = min(arrival.fault?.utf8.count ?? 0, 4 * textCharactersMax)
        return Int64(min(arrival.frame.count, Arrival.frameBytesMax) + rowBytesMax + text)
    }

    /// Makes room for `needed` bytes as the settings say, and tells how many bytes there are.
    static func makeRoom(
        _ db: Database, needed: Int64, settings: QueueSettings, dropped: inout [DroppedRange]
    ) throws -> Int64 {
        guard let limit = settings.maxBytes else { return .max }
        var room = limit - (try usedBytes(db))
        guard room < needed else { return room }
        let goal = needed + min(Int64(roomStepBytes), limit / 64)
        for _ in 0..<roundsMax where room < goal {
            if try prune(db, horizon: .max) == 0 {
                guard settings.fullPolicy == .keepNewest, room < needed,
                    try dropOldest(db, into: &dropped)
                else { break }
            }
            room = limit - (try usedBytes(db))
        }
        return room
    }

    /// Drops what waits among the next few ids of the oldest that wait; false if nothing waits.
    private static func dropOldest(
        _ db: Database, into dropped: inout [DroppedRange]
    ) throws -> Bool {
        let oldest = try Int64.fetchOne(
            db, sql: "SELECT min(settled_through) FROM segment WHERE settled_through < last_sample")
        guard let oldest else { return false }
        let through = oldest + dropStepIDs
        let segments = try Row.fetchAll(
            db,
            sql: """
                SELECT id, settled_through, min(last_sample, ?1) FROM segment
                WHERE settled_through < min(last_sample, ?1)
                """, arguments: [through])
        for segment in segments {
            dropped.append(
                try drop(
                    db, segment: segment[0] ?? 0, after: segment[1] ?? 0, through: segment[2] ?? 0,
                    reason: queueFull))
        }
        return true
    }

    /// Drops samples that arrived before `horizon` (UTC µs) and still wait, of every segment whose
    /// clock is known; ``pruneRowsMax`` at most.
    static func dropAged(
        _ db: Database, horizon: Int64, into dropped: inout [DroppedRange]
    ) throws {
        let segments = try Row.fetchAll(
            db,
            sql: """
                SELECT s.id, s.settled_through, s.last_sample, b.wall_offset_us
                FROM segment s JOIN run r ON r.id = s.run JOIN boot b ON b.id = r.boot
                WHERE s.settled_through < s.last_sample AND b.wall_offset_us IS NOT NULL
                ORDER BY s.settled_through
                """)
        var budget = pruneRowsMax
        for segment in segments where budget > 0 {
            let id: Int64 = segment[0] ?? 0
            let rows = try Row.fetchCursor(
                db, sql: settledSQL,
                arguments: [segment[1] as Int64?, segment[2] as Int64?, id, budget])
            var last: Int64?
            while let row = try rows.next() {
                let sample = SampleRow(row)
                guard let time = sample.time(wallOffset: segment[3]), time < horizon else { break }
                last = sample.id
                budget -= 1
            }
            guard let last else { continue }
            dropped.append(
                try drop(db, segment: id, after: segment[1] ?? 0, through: last, reason: maxAge))
        }
    }

    /// Moves a segment's cursor and counts what it passes as dropped; the rows stay for `prune`.
    static func drop(
        _ db: Database, segment: Int64, after cursor: Int64, through: Int64, reason: String
    ) throws -> DroppedRange {
        let count =
            try Int.fetchOne(
                db.cachedStatement(
                    sql: "SELECT count(*) FROM sample WHERE id > ? AND id <= ? AND segment = ?"),
                arguments: [cursor, through, segment]) ?? 0
        if count > 0 { try db.count(count, .dropped, reason, segment: segment) }
        try db.cachedStatement(
            sql: "UPDATE segment SET settled_through = ?, dropped = dropped + ? WHERE id = ?"
        ).execute(arguments: [through, count, segment])
        return DroppedRange(
            segment: segment, ids: (min(cursor, through - 1) + 1)...through, reason: reason)
    }

    /// Keeps the newest ``undecodableKeptMax`` undecodable frames.
    static func boundUndecodable(_ db: Database) throws {
        let last = try Int64.fetchOne(db, sql: "SELECT max(id) FROM undecodable") ?? 0
        let through = last - Int64(undecodableKeptMax)
        let counts = try Row.fetchAll(
            db, sql: "SELECT segment, count(*) FROM undecodable WHERE id <= ? GROUP BY segment",
            arguments: [through])
        guard !counts.isEmpty else { return }
        for row in counts {
            try db.execute(
                sql: """
                    UPDATE segment SET undecodable_pruned = undecodable_pruned + ? WHERE id = ?
                    """, arguments: [row[1] as Int64?, row[0] as Int64?])
        }
        try db.execute(sql: "DELETE FROM undecodable WHERE id <= ?", arguments: [through])
    }
}

/// Samples one transaction dropped: those of `segment` among `ids`.
struct DroppedRange: Sendable {
    var segment: Int64
    var ids: ClosedRange<Int64>
    var reason: String
}

/// Samples a delivery was given and has not settled yet. A request may be under way with them when room
/// has to be made; what the exchange then says of them still counts.
struct LentSamples: Sendable {
    private var lent: [Int64: [PendingSample.ID: Int64]] = [:]
    private var droppedReason: [Int64: String] = [:]

    /// `samples` are the delivery's newest batch; nothing of an older one is under way any more.
    mutating func lend(_ samples: [PendingSample], to enrollment: Int64) {
        for id in (lent[enrollment] ?? [:]).keys { droppedReason[id] = nil }
        lent[enrollment] = Dictionary(
            samples.map { ($0.id, $0.segmentID) }, uniquingKeysWith: { first, _ in first })
    }

    mutating func drop(_ ranges: [DroppedRange]) {
        for range in ranges {
            for batch in lent.values {
                for (id, segment) in batch where segment == range.segment && range.ids.contains(id)
                {
                    droppedReason[id] = range.reason
                }
            }
        }
    }

    /// Why a lent sample was dropped meanwhile; nil if it was not.
    func reason(_ id: Int64) -> String? { droppedReason[id] }

    mutating func settled(_ outcomes: [SettledSample]) {
        for outcome in outcomes { droppedReason[outcome.id] = nil }
    }
}

extension SampleQueue {
    /// Takes the outcomes of samples that were dropped while their request was under way: delivered is
    /// delivered, whatever else stays dropped.
    static func settleLate(
        _ db: Database, _ outcomes: [SettledSample], _ lent: LentSamples
    ) throws {
        for sample in outcomes where sample.outcome == .delivered {
            guard let reason = lent.reason(sample.id) else { continue }
            try db.execute(
                sql: """
                    UPDATE loss SET count = count - 1
                    WHERE segment = ? AND kind = 'dropped' AND reason = ?
                    """, arguments: [sample.segmentID, reason])
            try db.execute(
                sql: """
                    UPDATE segment SET dropped = dropped - 1, delivered = delivered + 1 WHERE id = ?
                    """, arguments: [sample.segmentID])
        }
    }
}
