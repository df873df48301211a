import Basics
import GRDB

/// Deletes rows of samples that every destination is done with.
enum Pruning {
    /// The last sample of the segment `s` that every destination is done with.
    static let floorSQL = """
        min(s.settled_through, coalesce((SELECT min(f.settled_through) FROM further_delivery f
            WHERE f.segment = s.id), s.settled_through))
        """

    /// How many rows pruning has passed, and how many of them it has deleted: dead letters stay.
    struct Progress {
        var passed = 0
        var deleted = 0
    }

    /// Deletes samples that every destination has settled and that arrived before `horizon`, or all, oldest first. Passes
    /// ``SampleQueue/pruneRowsMax`` rows at most.
    static func prune(_ db: Database, before horizon: UTC?) throws -> Progress {
        let segments = try Row.fetchAll(
            db,
            sql: """
                SELECT s.id, s.pruned_through, \(floorSQL) AS floor, s.wall_offset_us
                FROM segment s
                WHERE s.pruned_through < floor ORDER BY s.pruned_through
                """)
        var all = Progress()
        for segment in segments where all.passed < SampleQueue.pruneRowsMax {
            let one = try prune(
                db, segment, before: horizon, limit: SampleQueue.pruneRowsMax - all.passed)
            all.passed += one.passed
            all.deleted += one.deleted
        }
        return all
    }

    static let deleteSQL = """
        DELETE FROM sample WHERE id > ? AND id <= ? AND segment = ?
            AND id NOT IN (SELECT sample FROM dead_letter WHERE sample > ? AND sample <= ?)
            AND id NOT IN (SELECT sample FROM further_dead_letter WHERE sample > ? AND sample <= ?)
        """

    /// Moves one segment's pruning cursor up to the first row that is still young. The row has the segment's
    /// id, its pruning cursor, the last sample that is settled everywhere, and its offset.
    static func prune(
        _ db: Database, _ segment: Row, before horizon: UTC?, limit: Int
    ) throws -> Progress {
        let id: Int64 = segment[0] ?? 0
        let cursor: Int64 = segment[1] ?? 0
        let old = try Row.fetchCursor(
            db, sql: SampleColumn.rowsOfSegment,
            arguments: [cursor, segment[2] as Int64?, id, limit])
        var last: Int64?
        var progress = Progress()
        while let row = try old.next() {
            let sample = SampleRow(row)
            // A time that cannot be read keeps nothing for ever: the row is settled.
            if let horizon, let time = sample.time(segment[3]), time >= horizon { break }
            last = sample.id
            progress.passed += 1
        }
        guard let last else { return progress }
        try db.execute(
            sql: deleteSQL, arguments: [cursor, last, id, cursor, last, cursor, last])
        progress.deleted = db.changesCount
        FaultPoint.pruneRows.reach()
        try db.execute(
            sql: "UPDATE segment SET pruned_through = ?, pruned = pruned + ? WHERE id = ?",
            arguments: [last, progress.deleted, id])
        try db.execute(
            sql: "DELETE FROM dropped_range WHERE segment = ? AND last_sample <= ?",
            arguments: [id, last])
        FaultPoint.pruneCursor.reach()
        return progress
    }
}
