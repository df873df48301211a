import GRDB

extension SampleQueue {
    /// Rows one call deletes at most, so that it never holds the store for long.
    public static let pruneRowsMax = 5_000
    /// Requests kept for the history; at one request a minute, a week.
    public static let uploadsKeptMax = 10_000

    /// Deletes delivered and dropped samples that arrived longer than
    /// ``QueueSettings/keepDeliveredMicroseconds`` ago, at most ``pruneRowsMax`` a call.
    ///
    /// Before that, samples that wait longer than ``QueueSettings/maxAgeMicroseconds`` are dropped, and
    /// those that wait for a further destination longer than it has them kept.
    /// Dead letters and counters stay. Does nothing while the clock is not trusted. Returns how many
    /// rows went; call again while it returns ``pruneRowsMax``.
    @discardableResult
    public func prune() throws(QueueError) -> Int {
        guard let now = clock.read().trustedWallMicroseconds else { return 0 }
        let horizon = now &- settings.keepDeliveredMicroseconds
        let ageHorizon = settings.maxAgeMicroseconds.map { now &- $0 }
        let (pruned, dropped) = try write("prune samples") { [walk] db in
            var dropped: [DroppedRange] = []
            try Self.dropAged(db, horizon: ageHorizon, now: now, into: &dropped)
            try db.execute(
                sql: "DELETE FROM upload WHERE id <= (SELECT max(id) FROM upload) - ?",
                arguments: [Self.uploadsKeptMax])
            try walk.store(db)
            return (try Self.prune(db, horizon: horizon), dropped)
        }
        FaultPoint.pruned.reach()
        lent.drop(dropped)
        return pruned
    }

    /// Deletes samples that every destination has settled and that arrived before `horizon`, oldest first,
    /// ``pruneRowsMax`` at most.
    static func prune(_ db: Database, horizon: Int64) throws -> Int {
        let segments = try Row.fetchAll(
            db,
            sql: """
                SELECT s.id, s.pruned_through, \(floorSQL) AS floor, b.wall_offset_us
                FROM segment s JOIN run r ON r.id = s.run JOIN boot b ON b.id = r.boot
                WHERE s.pruned_through < floor ORDER BY s.pruned_through
                """)
        var pruned = 0
        for segment in segments where pruned < pruneRowsMax {
            pruned += try prune(db, segment, horizon: horizon, limit: pruneRowsMax - pruned)
        }
        return pruned
    }

    static let settledSQL = """
        SELECT \(SampleColumn.list) FROM sample
        WHERE id > ? AND id <= ? AND segment = ? ORDER BY id LIMIT ?
        """

    static let deleteSQL = """
        DELETE FROM sample WHERE id > ? AND id <= ? AND segment = ?
            AND id NOT IN (SELECT sample FROM dead_letter WHERE sample > ? AND sample <= ?)
            AND id NOT IN (SELECT sample FROM further_dead_letter WHERE sample > ? AND sample <= ?)
        """

    /// Moves one segment's pruning cursor up to the first row that is still young. The row has the segment's
    /// id, its pruning cursor, the last sample that is settled everywhere, and the offset of its boot.
    static func prune(
        _ db: Database, _ segment: Row, horizon: Int64, limit: Int
    ) throws -> Int {
        let id: Int64 = segment[0] ?? 0
        let cursor: Int64 = segment[1] ?? 0
        let old = try Row.fetchCursor(
            db,
            sql: settledSQL, arguments: [cursor, segment[2] as Int64?, id, limit])
        var last: Int64?
        while let row = try old.next() {
            let sample = SampleRow(row)
            // A time that cannot be read keeps nothing for ever: the row is settled.
            if let time = sample.time(wallOffset: segment[3]), time >= horizon { break }
            last = sample.id
        }
        guard let last else { return 0 }
        try db.execute(
            sql: deleteSQL, arguments: [cursor, last, id, cursor, last, cursor, last])
        let count = db.changesCount
        FaultPoint.pruneRows.reach()
        try db.execute(
            sql: "UPDATE segment SET pruned_through = ?, pruned = pruned + ? WHERE id = ?",
            arguments: [last, count, id])
        FaultPoint.pruneCursor.reach()
        return count
    }
}
