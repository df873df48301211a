import Basics
import GRDB

/// The books of one destination in one segment: the only statements that move them.
///
/// Those of the assignment's own destination are columns of `segment` and the table `dead_letter`; those of
/// a further one are in `further_delivery` and `further_dead_letter` (``Schema``).
struct DeliveryBooks: Sendable, Hashable {
    let segment: Int64
    /// The enrollment of a further destination; nil: the assignment's own.
    let further: Int64?

    init(segment: Int64, further: Int64? = nil) {
        self.segment = segment
        self.further = further
    }

    /// The books of the delivery to `destination`; nil if the segment does not go there.
    init?(_ db: Database, segment: Int64, destination: Int64) throws {
        self.segment = segment
        let own = try Int64.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT a.enrollment FROM segment s JOIN assignment a ON a.id = s.assignment
                    WHERE s.id = ?
                    """), arguments: [segment])
        if own == destination {
            further = nil
            return
        }
        further = destination
        let goesThere = try Int64.fetchOne(
            db.cachedStatement(
                sql: "SELECT segment FROM further_delivery WHERE segment = ? AND destination = ?"),
            arguments: [segment, destination])
        if goesThere == nil { return nil }
    }

    // MARK: - Cursor and counters

    /// The last sample that is done with.
    func cursor(_ db: Database) throws -> Int64 {
        try Int64.fetchOne(
            db.cachedStatement(sql: "SELECT settled_through FROM \(table) WHERE \(row)"),
            arguments: rowArguments) ?? 0
    }

    /// Moves the cursor to `through`, unless it is nil, and adds to the counters.
    func move(
        _ db: Database, through: Int64? = nil, delivered: Int = 0, dead: Int = 0, dropped: Int = 0
    ) throws {
        try db.cachedStatement(
            sql: """
                UPDATE \(table) SET settled_through = coalesce(?, settled_through),
                    delivered = delivered + ?, dead = dead + ?, dropped = dropped + ?
                WHERE \(row)
                """
        ).execute(arguments: [through, delivered, dead, dropped] + rowArguments)
    }

    /// Counts samples that a policy withheld, in table `loss`; ``move(_:through:delivered:dead:dropped:)``
    /// counts them beside.
    func note(_ db: Database, dropped count: Int, _ reason: String) throws {
        guard count != 0 else { return }
        try db.count(count, .dropped, reason, segment: segment, destination: further ?? 0)
    }

    /// Remembers which of the segment's samples they are.
    func note(_ db: Database, dropped samples: ClosedRange<Int64>, _ reason: String) throws {
        try db.cachedStatement(
            sql: "INSERT OR REPLACE INTO dropped_range VALUES (?, ?, ?, ?, ?)"
        ).execute(arguments: [
            segment, further ?? 0, samples.lowerBound, samples.upperBound, reason.bounded,
        ])
    }

    /// Takes back those of `samples` that were dropped for a reason, of which there are `count`, as if they had been
    /// delivered.
    func takeBack(
        _ db: Database, _ samples: ClosedRange<Int64>, _ count: Int, droppedFor reason: String
    ) throws {
        let place = """
            segment = ? AND destination = ? AND first_sample <= ? AND last_sample >= ?
                AND reason = ?
            """
        let arguments: StatementArguments = [
            segment, further ?? 0, samples.upperBound, samples.lowerBound, reason.bounded,
        ]
        let ends = try Row.fetchOne(
            db,
            sql: "SELECT min(first_sample), max(last_sample) FROM dropped_range WHERE \(place)",
            arguments: arguments)
        try db.execute(sql: "DELETE FROM dropped_range WHERE \(place)", arguments: arguments)
        if let first = ends?[0] as Int64?, first < samples.lowerBound {
            try note(db, dropped: first...(samples.lowerBound - 1), reason)
        }
        if let last = ends?[1] as Int64?, last > samples.upperBound {
            try note(db, dropped: (samples.upperBound + 1)...last, reason)
        }
        try db.execute(
            sql: """
                UPDATE loss SET count = count - ?1, acknowledged = min(acknowledged, count - ?1)
                WHERE segment = ?2 AND destination = ?3 AND kind = 'dropped' AND reason = ?4
                """, arguments: [count, segment, further ?? 0, reason.bounded])
        try move(db, delivered: count, dropped: -count)
    }

    // MARK: - Dead letters

    func insertLetter(
        _ db: Database, of sample: Int64, reason: String, diagnostics: String = "",
        wall: UTC? = nil, sentAs: String? = nil
    ) throws {
        let columns = "sample, segment, reason, diagnostics, died_wall_us, sent_as"
        let arguments: StatementArguments = [
            sample, segment, reason.bounded,
            String(diagnostics.prefix(SampleQueue.diagnosticsCharactersMax)), wall, sentAs?.bounded,
        ]
        if let further {
            try db.cachedStatement(
                sql: """
                    INSERT INTO further_dead_letter (\(columns), destination)
                    VALUES (?, ?, ?, ?, ?, ?, ?)
                    """
            ).execute(arguments: arguments + [further])
        } else {
            try db.cachedStatement(
                sql: "INSERT INTO dead_letter (\(columns)) VALUES (?, ?, ?, ?, ?, ?)"
            ).execute(arguments: arguments)
        }
    }

    /// Whether the sample is a dead letter that was put back; nil if it is no dead letter.
    func isRequeued(_ db: Database, _ sample: Int64) throws -> Bool? {
        try Bool.fetchOne(
            db.cachedStatement(
                sql: "SELECT is_requeued FROM \(letters) WHERE \(letter) AND segment = ?"),
            arguments: letterArguments(sample) + [segment])
    }

    /// The rows of samples that were put back, through one of them, in order, so many at most.
    func putBack(
        _ db: Database, through last: Int64 = .max, limit: Int
    ) throws -> RowCursor {
        try Row.fetchCursor(
            db.cachedStatement(sql: putBackSQL),
            arguments: [segment, last, limit] + (further.map { [$0] } ?? []))
    }

    var putBackSQL: String {
        """
        SELECT \(SampleColumn.listOfP) FROM \(letters) d JOIN sample p ON p.id = d.sample
        WHERE d.segment = ?1 AND d.sample <= ?2 AND d.is_requeued = 1
            \(further == nil ? "" : "AND d.destination = ?4")
        ORDER BY d.sample LIMIT ?3
        """
    }

    func requeueLetter(_ db: Database, _ sample: Int64) throws {
        try db.cachedStatement(sql: "UPDATE \(letters) SET is_requeued = 1 WHERE \(letter)")
            .execute(arguments: letterArguments(sample))
        try move(db, dead: -1)
    }

    func deleteLetter(_ db: Database, _ sample: Int64) throws {
        try db.cachedStatement(sql: "DELETE FROM \(letters) WHERE \(letter)")
            .execute(arguments: letterArguments(sample))
    }

    /// Drops the sample of a dead letter, which goes, and deletes its row unless another destination wants
    /// it; one that was put back is not dead any more.
    func giveUp(_ db: Database, _ sample: Int64, isDead: Bool, reason: String) throws {
        try deleteLetter(db, sample)
        try note(db, dropped: 1, reason)
        try move(db, dead: isDead ? -1 : 0, dropped: 1)
        // Another destination may want the row.
        if try !Self.deleteRow(db, sample, of: segment) {
            try note(db, dropped: sample...sample, reason)
        }
    }

    /// Deletes a sample's row if no destination waits for it or holds it as a dead letter, and counts that
    /// it is pruned. Returns whether it is gone.
    @discardableResult
    static func deleteRow(
        _ db: Database, _ sample: Int64, of segment: Int64
    ) throws -> Bool {
        try db.cachedStatement(
            sql: """
                DELETE FROM sample WHERE id = ?1
                    AND ?1 <= (SELECT \(Pruning.floorSQL) FROM segment s WHERE s.id = ?2)
                    AND NOT EXISTS (SELECT 1 FROM dead_letter WHERE sample = ?1)
                    AND NOT EXISTS (SELECT 1 FROM further_dead_letter WHERE sample = ?1)
                """
        ).execute(arguments: [sample, segment])
        guard db.changesCount > 0 else { return false }
        try db.cachedStatement(sql: "UPDATE segment SET pruned = pruned + 1 WHERE id = ?")
            .execute(arguments: [segment])
        return true
    }

    /// Moves a delivery's cursor and counts what it passes as dropped; the rows stay for `prune`.
    func drop(
        _ db: Database, after cursor: Int64, through: Int64, reason: String
    ) throws -> DroppedRange {
        let count =
            try Int.fetchOne(
                db.cachedStatement(
                    sql: "SELECT count(*) FROM sample WHERE id > ? AND id <= ? AND segment = ?"),
                arguments: [cursor, through, segment]) ?? 0
        let ids = (min(cursor, through - 1) + 1)...through
        try note(db, dropped: count, reason)
        if count > 0 { try note(db, dropped: ids, reason) }
        try move(db, through: through, dropped: count)
        return DroppedRange(books: self, ids: ids, reason: reason)
    }

    // MARK: - Delivering again

    /// Whether the segment still has its first row.
    func isUnpruned(_ db: Database) throws -> Bool {
        try Bool.fetchOne(
            db.cachedStatement(
                sql: "SELECT pruned_through < first_sample FROM segment WHERE id = ?"),
            arguments: [segment]) ?? false
    }

    /// Why the sample `p` was dropped for a destination (0: its assignment's own); NULL: it was not. The ranges of
    /// one destination do not overlap, so that the last one that begins before the sample is the only one to look at.
    static func droppedSQL(destination: String) -> String {
        """
        (SELECT iif(d.last_sample >= p.id, d.reason, NULL) FROM dropped_range d
            WHERE d.segment = p.segment AND d.destination = \(destination)
                AND d.first_sample <= p.id
            ORDER BY d.first_sample DESC LIMIT 1)
        """
    }

    /// The rows of the segment in a range, each with whether it has a dead letter here and why it was dropped.
    var settledSQL: String {
        """
        SELECT \(SampleColumn.listOfP), \(hasLetterSQL), \(Self.droppedSQL(destination: "?4"))
        FROM sample p WHERE p.id BETWEEN ?1 AND ?2 AND p.segment = ?3 ORDER BY p.id
        """
    }

    private var hasLetterSQL: String {
        """
        EXISTS (SELECT 1 FROM \(letters) l
            WHERE l.sample = p.id\(further == nil ? "" : " AND l.destination = ?4"))
        """
    }

    func settledArguments(_ ids: ClosedRange<Int64>) -> StatementArguments {
        [ids.lowerBound, ids.upperBound, segment, further ?? 0]
    }

    /// Has rows that were not dropped wait for the destination as dead letters do that were put back.
    func insertRedeliveries(
        _ db: Database, of ids: ClosedRange<Int64>, except damaged: [Int64]
    ) throws {
        try db.execute(
            sql: """
                INSERT INTO \(letters) (sample, segment, reason, diagnostics,
                    is_requeued\(further == nil ? "" : ", destination"))
                SELECT p.id, p.segment, '\(SampleQueue.redelivered)', '',
                    1\(further == nil ? "" : ", ?4")
                FROM sample p WHERE p.id BETWEEN ?1 AND ?2 AND p.segment = ?3
                    AND NOT \(hasLetterSQL) AND \(Self.droppedSQL(destination: "?4")) IS NULL
                """, arguments: settledArguments(ids))
        for sample in damaged { try deleteRedelivery(db, sample) }
    }

    private func deleteRedelivery(_ db: Database, _ sample: Int64) throws {
        try db.execute(
            sql: "DELETE FROM \(letters) WHERE \(letter) AND reason = '\(SampleQueue.redelivered)'",
            arguments: letterArguments(sample))
    }

    // MARK: - Where they stand

    /// The books of every destination in every segment; `further` is NULL for the assignment's own.
    static let allSQL = """
        (SELECT id AS segment, NULL AS further, settled_through, 0 AS before, delivered, dead, dropped
            FROM segment
        UNION ALL SELECT segment, destination, settled_through, before, delivered, dead, dropped
            FROM further_delivery)
        """

    private var table: String { further == nil ? "segment" : "further_delivery" }
    private var row: String { further == nil ? "id = ?" : "segment = ? AND destination = ?" }
    private var rowArguments: StatementArguments {
        further.map { [segment, $0] } ?? [segment]
    }

    private var letters: String { further == nil ? "dead_letter" : "further_dead_letter" }
    private var letter: String { further == nil ? "sample = ?" : "sample = ? AND destination = ?" }
    private func letterArguments(_ sample: Int64) -> StatementArguments {
        further.map { [sample, $0] } ?? [sample]
    }
}

extension Database {
    /// Gives dead letters up: those for which `condition` holds, of the letter (`d`), its segment (`s`) and the assignment
    /// of that (`a`). Returns how many, and those of them that were put back: they may be on their way.
    func giveUpLetters(
        where condition: String, _ arguments: StatementArguments, limit: Int = -1, reason: String
    ) throws -> (count: Int, dropped: [DroppedRange]) {
        let letters = try Row.fetchAll(
            self,
            sql: """
                SELECT d.sample, d.segment, d.further, d.is_requeued FROM \(SampleQueue.lettersSQL) d
                JOIN segment s ON s.id = d.segment JOIN assignment a ON a.id = s.assignment
                WHERE \(condition) LIMIT \(limit)
                """, arguments: arguments)
        var dropped: [DroppedRange] = []
        for letter in letters {
            let books = DeliveryBooks(segment: letter[1] ?? 0, further: letter[2])
            let (sample, isDead): (Int64, Bool) = (letter[0] ?? 0, letter[3] == 0)
            try books.giveUp(self, sample, isDead: isDead, reason: reason)
            if !isDead {
                dropped.append(DroppedRange(books: books, ids: sample...sample, reason: reason))
            }
        }
        return (letters.count, dropped)
    }

    /// Drops what waits at destinations: those for which `condition` holds, of the books (`d`), their segment (`s`) and
    /// the assignment of that (`a`).
    func dropWaiting(
        where condition: String, _ arguments: StatementArguments, reason: String
    ) throws -> [DroppedRange] {
        try Row.fetchAll(
            self,
            sql: """
                SELECT s.id, d.further, d.settled_through, s.last_sample
                FROM \(DeliveryBooks.allSQL) d
                JOIN segment s ON s.id = d.segment JOIN assignment a ON a.id = s.assignment
                WHERE d.settled_through < s.last_sample AND \(condition)
                """, arguments: arguments
        ).map { row in
            try DeliveryBooks(segment: row[0] ?? 0, further: row[1]).drop(
                self, after: row[2] ?? 0, through: row[3] ?? 0, reason: reason)
        }
    }
}
