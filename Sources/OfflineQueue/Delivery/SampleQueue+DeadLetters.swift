import GRDB

extension SampleQueue {
    /// The reason under which dead letters are counted that a person has given up.
    public static let purged = "purged"

    /// The dead letters of all destinations or of one, newest sample first; only those of samples numbered below
    /// `before`. At most `limit`, and the others of the last sample: who asks for those before it must not miss them.
    public func deadLetters(
        of destination: Int64? = nil, before: Int64? = nil, limit: Int = 100
    ) throws(QueueError) -> [DeadLetter] {
        try read("list dead letters") { db in
            let letters = try Self.deadLetters(
                "d.sample < ?1", before ?? .max, destination, limit: max(0, limit), db)
            guard limit > 0, letters.count >= limit else { return letters }
            let last = letters[limit - 1].sampleID
            return letters.prefix { $0.sampleID > last }
                + (try Self.deadLetters("d.sample = ?1", last, destination, limit: -1, db))
        }
    }

    /// The dead letter of one sample, of its own destination if it died there; nil if it died nowhere.
    public func deadLetter(_ sample: Int64) throws(QueueError) -> DeadLetter? {
        try read("list dead letters") { db in
            try Self.deadLetters("d.sample = ?1", sample, nil, limit: 1, db).first
        }
    }

    /// At most `limit` of each table, one statement a table, so that each walks its own key backwards; all if that is -1.
    private static func deadLetters(
        _ condition: String, _ sample: Int64, _ destination: Int64?, limit: Int, _ db: Database
    ) throws -> [DeadLetter] {
        try [("NULL", "dead_letter"), ("d.destination", "further_dead_letter")]
            .flatMap { further, table in
                try Row.fetchAll(
                    db,
                    sql: """
                        SELECT \(SampleColumn.listOfP),
                            d.reason, d.diagnostics, d.died_wall_us, r.nonce, s.wall_offset_us,
                            a.sensor, coalesce(\(further), a.enrollment) AS destination,
                            s.identity_shift, d.sent_as
                        FROM \(table) d
                        JOIN sample p ON p.id = d.sample
                        JOIN segment s ON s.id = d.segment
                        JOIN assignment a ON a.id = s.assignment
                        JOIN run r ON r.id = s.run
                        WHERE d.is_requeued = 0 AND \(condition)
                            AND (?2 IS NULL OR coalesce(\(further), a.enrollment) = ?2)
                        ORDER BY d.sample DESC LIMIT ?3
                        """, arguments: [sample, destination, limit]
                ).map(DeadLetter.init(row:))
            }
            .sorted { $0.sampleID > $1.sampleID }
    }

    /// The dead letters of every destination; `further` is NULL for the assignment's own.
    static let lettersSQL = """
        (SELECT sample, segment, reason, diagnostics, died_wall_us, is_requeued, sent_as,
            NULL AS further FROM dead_letter
        UNION ALL SELECT sample, segment, reason, diagnostics, died_wall_us, is_requeued, sent_as,
            destination FROM further_dead_letter)
        """

    /// Puts dead letters back into their deliveries: the samples are pending again wherever they had died,
    /// or at `destination` alone, under the same identity. Those that died in the same data point go with
    /// them, else it would be another one. Returns how many letters.
    ///
    /// Throws `unknown-reference`, and changes nothing, if one of them is not dead.
    @discardableResult
    public func requeue(
        deadLetters samples: [Int64], destination: Int64? = nil
    ) throws(QueueError) -> Int {
        try write("requeue dead letters") { db in
            let all = try Self.letters(of: samples, destination, db)
            for (sample, books) in all { try books.requeueLetter(db, sample) }
            return all.count
        }
    }

    /// Gives dead letters up, wherever the samples died or at `destination` alone: they are counted as
    /// dropped, reason `purged`, and their rows go, with those that died in the same data point. Returns how
    /// many letters.
    ///
    /// Throws `unknown-reference`, and changes nothing, if one of them is not dead.
    @discardableResult
    public func purge(
        deadLetters samples: [Int64], destination: Int64? = nil
    ) throws(QueueError) -> Int {
        try write("purge dead letters") { db in
            let all = try Self.letters(of: samples, destination, db)
            for (sample, books) in all {
                try books.giveUp(db, sample, isDead: true, reason: Self.purged)
            }
            return all.count
        }
    }

    /// The dead letters of these samples and of those that died in one data point with one of them, in
    /// order.
    private static func letters(
        of samples: [Int64], _ destination: Int64?, _ db: Database
    ) throws -> [(sample: Int64, books: DeliveryBooks)] {
        var found: Set<Letter> = []
        for sample in samples {
            let letters = try Row.fetchAll(
                db.cachedStatement(
                    sql: """
                        SELECT d.sample, d.segment, d.further, a.enrollment, d.sent_as
                        FROM \(lettersSQL) d
                        JOIN segment s ON s.id = d.segment JOIN assignment a ON a.id = s.assignment
                        WHERE d.sample = ? AND d.is_requeued = 0
                        """), arguments: [sample]
            ).filter { row in
                destination == nil || (row[2] as Int64? ?? row[3]) == destination
            }
            guard !letters.isEmpty else {
                throw QueueError(
                    .unknownReference, "find dead letter", "sample \(sample) is no dead letter")
            }
            for row in letters {
                found.insert(Letter(sample: row[0] ?? 0, segment: row[1] ?? 0, further: row[2]))
                guard let sentAs = row[4] as String? else { continue }
                try found.formUnion(together(sentAs, further: row[2], db))
            }
        }
        return found.sorted { ($0.sample, $0.further ?? 0) < ($1.sample, $1.further ?? 0) }
            .map { ($0.sample, DeliveryBooks(segment: $0.segment, further: $0.further)) }
    }

    private struct Letter: Hashable {
        var sample: Int64
        var segment: Int64
        var further: Int64?
    }

    /// The dead letters of one destination that died in one data point.
    private static func together(
        _ sentAs: String, further: Int64?, _ db: Database
    ) throws -> [Letter] {
        let table = further == nil ? "dead_letter" : "further_dead_letter"
        let destination = further == nil ? "" : "AND destination = ?2"
        return try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT sample, segment FROM \(table)
                    WHERE sent_as = ?1 AND is_requeued = 0 \(destination)
                    """),
            arguments: further.map { [sentAs, $0] } ?? [sentAs]
        ).map { Letter(sample: $0[0] ?? 0, segment: $0[1] ?? 0, further: further) }
    }
}

extension DeadLetter {
    fileprivate init(row: Row) throws {
        let sample = SampleRow(row)
        let nonce = try SampleIdentity.nonce(stored: row["nonce"])
        let shift: Int64 = row["identity_shift"] ?? 0
        sampleID = sample.id
        uuid =
            row["sent_as"]
            ?? SampleIdentity(
                runNonce: nonce, sample: sample.id &- shift
            ).description
        sensorID = row["sensor"] ?? 0
        enrollmentID = row["destination"]
        reason = row["reason"] ?? ""
        diagnostics = row["diagnostics"] ?? ""
        died = row["died_wall_us"]
        time = sample.time(row["wall_offset_us"])
        frame = sample.frame
    }
}
