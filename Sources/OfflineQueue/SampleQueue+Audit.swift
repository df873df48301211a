import GRDB

extension SampleQueue {
    /// Counts every row and checks every checksum, and compares with the counters.
    ///
    /// Reads the whole store and holds it meanwhile: for `queue verify` and tests, not for a daemon
    /// at work.
    public func audit() throws(QueueError) -> Audit {
        try read("audit store") { db in
            var audit = Audit()
            for segment in try Row.fetchAll(db, sql: "SELECT * FROM segment ORDER BY id") {
                try Self.audit(db, segment, &audit)
            }
            let strays =
                try Int.fetchOne(
                    db,
                    sql: """
                        SELECT count(*) FROM sample p LEFT JOIN segment s ON s.id = p.segment
                        WHERE s.id IS NULL
                            OR p.id NOT BETWEEN s.first_sample AND s.last_sample
                        """) ?? 0
            if strays > 0 { audit.differences.append("samples outside their segment: \(strays)") }
            let rows = try Row.fetchCursor(
                db,
                sql: "SELECT id, segment, uptime_us, wall_us, flags, crc, frame FROM sample")
            while let row = try rows.next() {
                let sample = SampleRow(row)
                if !sample.isIntact { audit.damaged.append(sample.id) }
            }
            return audit
        }
    }

    private static func audit(_ db: Database, _ segment: Row, _ audit: inout Audit) throws {
        // Numbers of our own, so that they may stand in the SQL.
        let id: Int64 = segment["id"] ?? 0
        let first: Int64 = segment["first_sample"] ?? 0
        let last: Int64 = segment["last_sample"] ?? 0
        let cursor: Int64 = segment["settled_through"] ?? 0
        func counter(_ name: String) -> Int { segment[name] ?? 0 }
        func compare(_ what: String, _ counter: Int, _ count: String) throws {
            let rows = try Int.fetchOne(db, sql: "SELECT \(count)") ?? 0
            if counter != rows {
                audit.differences.append("segment \(id) \(what): counter \(counter), rows \(rows)")
            }
        }
        let settled = counter("delivered") + counter("dead") + counter("dropped")
        try compare(
            "stored", counter("stored") - counter("pruned"),
            "count(*) FROM sample WHERE id BETWEEN \(first) AND \(last) AND segment = \(id)")
        try compare(
            "unsent", counter("stored") - settled,
            """
            (SELECT count(*) FROM sample
                WHERE id > \(cursor) AND id <= \(last) AND segment = \(id))
            + (SELECT count(*) FROM dead_letter WHERE segment = \(id) AND is_requeued = 1)
            """)
        try compare(
            "undecodable", counter("undecodable") - counter("undecodable_pruned"),
            "count(*) FROM undecodable WHERE segment = \(id)")
        try compare(
            "dead", counter("dead"),
            """
            count(*) FROM dead_letter d JOIN sample p ON p.id = d.sample
            WHERE d.segment = \(id) AND p.segment = \(id) AND d.is_requeued = 0
            """)
        for kind in ["refused", "dropped"] {
            try compare(
                kind, counter(kind),
                "coalesce(sum(count), 0) FROM loss WHERE segment = \(id) AND kind = '\(kind)'")
        }
    }
}
