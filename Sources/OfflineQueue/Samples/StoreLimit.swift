import Basics
import Foundation
import GRDB

// The steps at the limit, in this order: delivered samples go, however young; then a further destination
// gives up what the assignment's own one is done with; then the policy has its way. Whole pages count, so
// when the samples of a delivery that is stuck lie between delivered ones, up to two thirds of a page may be
// room that cannot be used.

/// Keeps the store within its limit.
enum StoreLimit {
    /// Bytes of a sample's row without its frame, at most: seven fields with their types, the
    /// row's number and length, and the page's pointer to it.
    static let rowBytesMax = 64
    /// Room made beyond what is needed, so that not every commit has to.
    static let roomStepBytes = 65_536
    /// Ids by which the oldest are dropped at a time: about a commit's worth.
    static let dropStepIDs: Int64 = 512
    /// Ids among which the rest of a minute is looked for: a minute of a hundred straps is shorter.
    private static let minuteIDsMax = 10_000
    /// Rounds of pruning and dropping in one commit. One round frees more than a commit takes.
    static let roundsMax = 64

    /// Bytes of the pages that hold something, as this transaction sees them.
    static func usedBytes(_ db: Database) throws -> Int64 {
        func number(_ pragma: String) throws -> Int64 {
            try Int64.fetchOne(db.cachedStatement(sql: "PRAGMA " + pragma)) ?? 0
        }
        return try (number("page_count") - number("freelist_count")) * number("page_size")
    }

    /// Bytes a frame takes in the store, at the most.
    static func cost(_ arrival: Arrival) -> Int64 {
        let text = min(arrival.fault?.utf8.count ?? 0, 4 * SampleQueue.textCharactersMax)
        let bytes = min(arrival.frame.count, Arrival.frameBytesMax) + rowBytesMax + text
        let pageBytes = StoreFile.newPageBytes
        let own = StoreFile.localBytes(ofRow: bytes, pageBytes: pageBytes)
        // The rest takes whole pages, less the four octets that each begins with.
        let pages = (bytes - own + pageBytes - 5) / (pageBytes - 4)
        return Int64(own + pages * pageBytes)
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
            if try Pruning.prune(db, before: nil).passed == 0,
                try !dropOldest(through: "settled_through", db, into: &dropped)
            {
                guard settings.fullPolicy == .keepNewest, room < needed,
                    try dropOldest(through: "last_sample", db, into: &dropped)
                else { break }
            }
            room = limit - (try usedBytes(db))
        }
        return room
    }

    /// Drops what waits for any destination among the next few ids of the oldest that wait, put-back samples too, up to
    /// the column `end` of each segment: its last sample, or what its own destination is done with. False if nothing
    /// waits.
    private static func dropOldest(
        through end: String, _ db: Database, into dropped: inout [DroppedRange]
    ) throws -> Bool {
        let waiting = try Row.fetchAll(
            db,
            sql: """
                SELECT s.id, d.further, d.settled_through, s.\(end) FROM \(DeliveryBooks.allSQL) d
                JOIN segment s ON s.id = d.segment WHERE d.settled_through < s.\(end)
                """)
        let putBack = try Int64.fetchAll(db, sql: oldestPutBackSQL(through: end))
        guard let oldest = (waiting.map { $0[2] as Int64? ?? 0 } + putBack).min() else {
            return false
        }
        for row in waiting {
            let cursor: Int64 = row[2] ?? 0
            let last = min(row[3] ?? 0, oldest + dropStepIDs)
            guard cursor < last else { continue }
            let books = DeliveryBooks(segment: row[0] ?? 0, further: row[1])
            dropped.append(
                try books.drop(
                    db, after: cursor, through: last, reason: LossReason.queueFull.rawValue))
        }
        guard !putBack.isEmpty else { return true }
        let ends = try Row.fetchAll(
            db,
            sql: """
                SELECT d.segment, max(d.sample) FROM \(SampleQueue.lettersSQL) d
                JOIN segment s ON s.id = d.segment
                WHERE d.sample <= ? AND \(isPutBackSQL(through: end)) GROUP BY d.segment
                """, arguments: [oldest + dropStepIDs])
        for row in ends {
            let segment: Int64 = row[0] ?? 0
            dropped += try db.giveUpLetters(
                where: "d.segment = ?1 AND d.sample <= ?2 AND \(isPutBackSQL(through: end))",
                [segment, try endOfMinute(of: row[1] ?? 0, in: segment, db)],
                reason: LossReason.queueFull.rawValue
            ).dropped
        }
        return true
    }

    /// Whether the letter `d` of the segment `s` was put back; with `settled_through` also whether the sample's own
    /// destination does not wait for it.
    private static func isPutBackSQL(through end: String) -> String {
        "d.is_requeued = 1 AND d.sample <= s.\(end)"
            + (end == "settled_through"
                ? " AND NOT EXISTS (SELECT 1 FROM dead_letter o WHERE o.sample = d.sample)" : "")
    }

    private static func oldestPutBackSQL(through end: String) -> String {
        // With `settled_through`, what the own destination gets again does not count.
        let tables = (end == "settled_through" ? [] : ["dead_letter"]) + ["further_dead_letter"]
        return tables.map { letters in
            """
            SELECT * FROM (SELECT d.sample FROM \(letters) d JOIN segment s ON s.id = d.segment
                WHERE \(isPutBackSQL(through: end)) ORDER BY d.sample LIMIT 1)
            """
        }.joined(separator: " UNION ALL ")
    }

    /// The last sample of a segment in the same minute. If part of a minute stayed, it would become another average beside
    /// the one that the destination has.
    private static func endOfMinute(
        of sample: Int64, in segment: Int64, _ db: Database
    ) throws -> Int64 {
        try Int64.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT max(q.id) FROM sample p JOIN segment s ON s.id = p.segment
                    JOIN sample q ON q.id BETWEEN p.id AND p.id + \(minuteIDsMax)
                        AND +q.segment = p.segment
                        AND (q.uptime_us + s.wall_offset_us) / \(ImportMinute.length)
                            = (p.uptime_us + s.wall_offset_us) / \(ImportMinute.length)
                    WHERE p.id = ? AND p.segment = ?
                    """), arguments: [sample, segment]) ?? sample
    }

    /// Drops samples that arrived before `horizon` (nil: none) and still wait, of every segment whose
    /// clock is known; for a further destination also those that waited for it longer than it has them
    /// kept, at `now`, but nothing until it has been there for so long. ``SampleQueue/pruneRowsMax`` at most.
    static func dropAged(
        _ db: Database, horizon: UTC?, now: UTC, into dropped: inout [DroppedRange]
    ) throws {
        let segments = try Row.fetchAll(
            db,
            sql: """
                SELECT s.id, NULL, s.settled_through, s.last_sample, s.wall_offset_us, ?1 AS horizon
                FROM segment s
                WHERE s.settled_through < s.last_sample AND s.wall_offset_us IS NOT NULL
                    AND ?1 IS NOT NULL
                UNION ALL
                SELECT id, destination, settled_through, last_sample, wall_offset_us,
                    max(coalesce(?1, kept), coalesce(kept, ?1)) AS horizon
                FROM (
                    SELECT s.id, d.destination, d.settled_through, s.last_sample, s.wall_offset_us,
                        iif(x.added_wall_us > ?2 - e.keep_us, NULL, ?2 - e.keep_us) AS kept
                    FROM further_delivery d JOIN enrollment e ON e.id = d.destination
                    JOIN segment s ON s.id = d.segment
                    LEFT JOIN further_destination x
                        ON x.assignment = s.assignment AND x.destination = d.destination
                    WHERE d.settled_through < s.last_sample AND s.wall_offset_us IS NOT NULL)
                WHERE coalesce(?1, kept) IS NOT NULL
                ORDER BY 3
                """, arguments: [horizon, now])
        var budget = SampleQueue.pruneRowsMax
        for segment in segments where budget > 0 {
            guard let horizon = segment[5] as UTC? else { continue }
            let books = DeliveryBooks(segment: segment[0] ?? 0, further: segment[1])
            let rows = try Row.fetchCursor(
                db, sql: SampleColumn.rowsOfSegment,
                arguments: [segment[2] as Int64?, segment[3] as Int64?, books.segment, budget])
            var last: Int64?
            while let row = try rows.next() {
                let sample = SampleRow(row)
                guard let time = sample.time(segment[4]), time < horizon else { break }
                last = sample.id
                budget -= 1
            }
            guard let last else { continue }
            dropped.append(
                try books.drop(
                    db, after: segment[2] ?? 0, through: last, reason: LossReason.maxAge.rawValue))
        }
    }

    /// Keeps the newest ``SampleQueue/undecodableKeptMax`` undecodable frames.
    static func boundUndecodable(_ db: Database) throws {
        let last = try Int64.fetchOne(db, sql: "SELECT max(id) FROM undecodable") ?? 0
        let through = last - Int64(SampleQueue.undecodableKeptMax)
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
