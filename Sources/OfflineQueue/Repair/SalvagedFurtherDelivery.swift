import GRDB

/// The books of a further destination in the successor of a broken store, made from its row and from the
/// samples that were found.
///
/// A row that could not be read begins anew with the oldest sample there is: a repetition can be recognized,
/// a sample that is not sent cannot.
struct SalvagedFurtherDelivery {
    /// Makes all of them balance; their segments are written.
    static func balanceAll(_ db: Database) throws {
        try db.execute(
            sql: """
                INSERT INTO further_delivery (segment, destination, settled_through, before, delivered,
                    dead, dropped)
                SELECT s.id, f.destination, s.pruned_through, s.stored, 0, 0, 0
                FROM further_destination f JOIN segment s ON s.assignment = f.assignment
                WHERE s.first_sample >= f.first_sample AND f.state = 'active'
                ON CONFLICT DO NOTHING
                """)
        let rows = try Row.fetchAll(
            db,
            sql: """
                SELECT d.segment, d.destination, d.settled_through, d.before, d.delivered, d.dropped,
                    s.pruned_through, s.last_sample, s.stored
                FROM further_delivery d JOIN segment s ON s.id = d.segment
                """)
        for row in rows {
            let segment: Int64 = row[0] ?? 0
            let destination: Int64 = row[1] ?? 0
            let pruned: Int64 = row[6] ?? 0
            let cursor = min(max(row[2] ?? 0, pruned), max(pruned, row[7] ?? 0))
            try balance(
                db, segment: segment, destination: destination, cursor: cursor,
                before: row[3] ?? 0, delivered: row[4] ?? 0, stored: row[8] ?? 0)
        }
    }

    private static func balance(
        _ db: Database, segment: Int64, destination: Int64, cursor: Int64, before: Int64,
        delivered: Int64, stored: Int64
    ) throws {
        func count(_ sql: String, _ arguments: StatementArguments) throws -> Int64 {
            try Int64.fetchOne(db, sql: "SELECT " + sql, arguments: arguments) ?? 0
        }
        // What waits by the cursor is not dead.
        try db.execute(
            sql: """
                DELETE FROM further_dead_letter WHERE segment = ? AND destination = ? AND sample > ?
                """, arguments: [segment, destination, cursor])
        let letters = """
            count(*) FROM further_dead_letter
            WHERE segment = ? AND destination = ? AND is_requeued = ?
            """
        let dead = try count(letters, [segment, destination, 0])
        let requeued = try count(letters, [segment, destination, 1])
        let waiting = try count(
            "count(*) FROM sample WHERE segment = ? AND id > ?", [segment, cursor])
        let dropped = try count(
            "sum(count) FROM loss WHERE segment = ? AND destination = ? AND kind = 'dropped'",
            [segment, destination])
        // What the row says was stored, and is neither there nor accounted for, is lost.
        let settled = max(0, stored - waiting - requeued - dead)
        let before = min(max(0, before), settled)
        let delivered = min(max(0, delivered), settled - before)
        let lost = settled - before - delivered - dropped
        if lost < 0 {
            try db.execute(
                sql: "DELETE FROM loss WHERE segment = ? AND destination = ? AND kind = 'dropped'",
                arguments: [segment, destination])
        }
        let unbooked = lost < 0 ? dropped + lost : lost
        if unbooked > 0 {
            try db.count(
                Int(unbooked), .dropped, SampleQueue.storeDamaged, segment: segment,
                destination: destination)
        }
        try db.execute(
            sql: """
                UPDATE further_delivery SET settled_through = ?, before = ?, delivered = ?, dead = ?,
                    dropped = ?
                WHERE segment = ? AND destination = ?
                """,
            arguments: [
                cursor, before, delivered, dead, settled - before - delivered, segment, destination,
            ])
    }
}
