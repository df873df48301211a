import GRDB

extension SampleQueue {
    /// The dead letters, newest first, `limit` at most; only those of samples numbered below `before`.
    public func deadLetters(
        before: Int64? = nil, limit: Int = 100
    ) throws(QueueError) -> [DeadLetter] {
        try deadLetters("d.sample < ?", before ?? .max, limit: limit)
    }

    /// The dead letter of one sample; nil if it is none.
    public func deadLetter(_ sample: Int64) throws(QueueError) -> DeadLetter? {
        try deadLetters("d.sample = ?", sample, limit: 1).first
    }

    private func deadLetters(
        _ condition: String, _ sample: Int64, limit: Int
    ) throws(QueueError) -> [DeadLetter] {
        try read("list dead letters") { db in
            try Row.fetchAll(
                db,
                sql: """
                    SELECT \(SampleColumn.listOfP),
                        d.reason, d.diagnostics, d.died_wall_us, r.nonce, b.wall_offset_us,
                        a.sensor, a.enrollment, s.identity_shift, d.sent_as
                    FROM dead_letter d
                    JOIN sample p ON p.id = d.sample
                    JOIN segment s ON s.id = d.segment
                    JOIN assignment a ON a.id = s.assignment
                    JOIN run r ON r.id = s.run
                    JOIN boot b ON b.id = r.boot
                    WHERE d.is_requeued = 0 AND \(condition) ORDER BY d.sample DESC LIMIT ?
                    """, arguments: [sample, max(0, limit)]
            ).map(DeadLetter.init(row:))
        }
    }

    /// Puts dead letters back into their delivery: they are pending again, under the same identity. Those
    /// that died in the same data point go with them, else it would be another one. Returns how many.
    ///
    /// Throws `unknown-reference`, and changes nothing, if one of them is not dead.
    @discardableResult
    public func requeue(deadLetters samples: [Int64]) throws(QueueError) -> Int {
        try write("requeue dead letters") { db in
            let all = try Self.together(samples, db)
            for sample in all {
                let segment = try Self.segment(ofDeadLetter: sample, db)
                try db.execute(
                    sql: "UPDATE dead_letter SET is_requeued = 1 WHERE sample = ?",
                    arguments: [sample])
                try db.execute(
                    sql: "UPDATE segment SET dead = dead - 1 WHERE id = ?", arguments: [segment])
            }
            return all.count
        }
    }

    /// Gives dead letters up: they are counted as dropped, reason `purged`, and their rows go, with
    /// those that died in the same data point. Returns how many.
    ///
    /// Throws `unknown-reference`, and changes nothing, if one of them is not dead.
    @discardableResult
    public func purge(deadLetters samples: [Int64]) throws(QueueError) -> Int {
        try write("purge dead letters") { db in
            let all = try Self.together(samples, db)
            for sample in all {
                let segment = try Self.segment(ofDeadLetter: sample, db)
                try Self.giveUp(db, sample, of: segment, isDead: true, reason: "purged")
            }
            return all.count
        }
    }

    /// Drops the sample of a dead letter and deletes both; one that was put back is not dead any more.
    static func giveUp(
        _ db: Database, _ sample: Int64, of segment: Int64, isDead: Bool, reason: String
    ) throws {
        try db.cachedStatement(sql: "DELETE FROM dead_letter WHERE sample = ?")
            .execute(arguments: [sample])
        try db.cachedStatement(sql: "DELETE FROM sample WHERE id = ?").execute(arguments: [sample])
        try db.count(1, .dropped, reason, segment: segment)
        try db.cachedStatement(
            sql: """
                UPDATE segment SET dead = dead - ?, dropped = dropped + 1, pruned = pruned + 1
                WHERE id = ?
                """
        ).execute(arguments: [isDead ? 1 : 0, segment])
    }

    /// These samples and those that died in one data point with one of them, in order.
    private static func together(_ samples: [Int64], _ db: Database) throws -> [Int64] {
        var all = Set(samples)
        for sample in samples {
            all.formUnion(
                try Int64.fetchAll(
                    db.cachedStatement(
                        sql: """
                            SELECT o.sample FROM dead_letter d JOIN dead_letter o USING (sent_as)
                            WHERE d.sample = ? AND o.is_requeued = 0
                            """), arguments: [sample]))
        }
        return all.sorted()
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
            row["sent_as"]
            ?? SampleIdentity(
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
