import GRDB

extension SampleQueue {
    /// The dead letters, newest first, `limit` at most.
    public func deadLetters(limit: Int = 100) throws(QueueError) -> [DeadLetter] {
        try read("list dead letters") { db in
            try Row.fetchAll(
                db,
                sql: """
                    SELECT p.id, p.segment, p.uptime_us, p.wall_us, p.flags, p.crc, p.frame,
                        d.reason, d.diagnostics, d.died_wall_us, r.nonce, b.wall_offset_us,
                        a.sensor, a.enrollment, s.identity_shift
                    FROM dead_letter d
                    JOIN sample p ON p.id = d.sample
                    JOIN segment s ON s.id = d.segment
                    JOIN assignment a ON a.id = s.assignment
                    JOIN run r ON r.id = s.run
                    JOIN boot b ON b.id = r.boot
                    WHERE d.is_requeued = 0 ORDER BY d.sample DESC LIMIT ?
                    """, arguments: [max(0, limit)]
            ).map(DeadLetter.init(row:))
        }
    }

    /// Puts dead letters back into their lane: they are pending again, under the same identity.
    ///
    /// Throws `unknown-reference`, and changes nothing, if one of them is not dead.
    public func requeue(deadLetters samples: [Int64]) throws(QueueError) {
        try write("requeue dead letters") { db in
            for sample in Set(samples).sorted() {
                let segment = try Self.segment(ofDeadLetter: sample, db)
                try db.execute(
                    sql: "UPDATE dead_letter SET is_requeued = 1 WHERE sample = ?",
                    arguments: [sample])
                try db.execute(
                    sql: "UPDATE segment SET dead = dead - 1 WHERE id = ?", arguments: [segment])
            }
        }
    }

    /// Gives dead letters up: they are counted as dropped, reason `purged`, and their rows go.
    ///
    /// Throws `unknown-reference`, and changes nothing, if one of them is not dead.
    public func purge(deadLetters samples: [Int64]) throws(QueueError) {
        try write("purge dead letters") { db in
            for sample in Set(samples).sorted() {
                let segment = try Self.segment(ofDeadLetter: sample, db)
                try db.execute(
                    sql: "DELETE FROM dead_letter WHERE sample = ?", arguments: [sample])
                try db.execute(sql: "DELETE FROM sample WHERE id = ?", arguments: [sample])
                try db.count(1, .dropped, "purged", segment: segment)
                try db.execute(
                    sql: """
                        UPDATE segment SET dead = dead - 1, dropped = dropped + 1,
                            pruned = pruned + 1
                        WHERE id = ?
                        """, arguments: [segment])
            }
        }
    }

    private static func segment(ofDeadLetter sample: Int64, _ db: Database) throws -> Int64 {
        let segment = try Int64.fetchOne(
            db, sql: "SELECT segment FROM dead_letter WHERE sample = ? AND is_requeued = 0",
            arguments: [sample])
        guard let segment else {
            throw QueueError(
                .unknownReference, "find dead letter", "sample \(sample) is no dead letter")
        }
        return segment
    }
}

extension DeadLetter {
    fileprivate init(row: Row) {
        let sample = SampleRow(row)
        let nonce: Int64 = row["nonce"] ?? 0
        let shift: Int64 = row["identity_shift"] ?? 0
        sampleID = sample.id
        uuid =
            SampleIdentity(
                runNonce: UInt64(bitPattern: nonce), sample: sample.id &- shift
            ).description
        sensorID = row["sensor"] ?? 0
        enrollmentID = row["enrollment"]
        reason = row["reason"] ?? ""
        diagnostics = row["diagnostics"] ?? ""
        diedMicroseconds = row["died_wall_us"]
        timeMicroseconds = sample.time(wallOffset: row["wall_offset_us"])
        frame = sample.frame
    }
}
