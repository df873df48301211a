import GRDB

/// What one `settle` does to one segment, checked against the rows before anything is written.
struct Settlement {
    private let segment: Int64
    private let cursor: Int64
    private let prunedThrough: Int64
    private let inOrder: [SettledSample]
    private let requeued: [SettledSample]

    /// A walk along the primary key, as long as what is settled.
    static let pendingSQL =
        "SELECT id FROM sample WHERE id > ? AND id <= ? AND segment = ? ORDER BY id"

    init(
        _ db: Database, segment: Int64, enrollment: Int64, outcomes: [SettledSample]
    ) throws {
        let operation = "settle samples"
        let row = try Row.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT s.settled_through, a.enrollment, s.pruned_through FROM segment s
                    JOIN assignment a ON a.id = s.assignment WHERE s.id = ?
                    """), arguments: [segment])
        guard let row, row[1] as Int64? == enrollment, let cursor = row[0] as Int64? else {
            throw QueueError(.unknownReference, operation, "no such segment in this delivery")
        }
        self.segment = segment
        self.cursor = cursor
        prunedThrough = row[2] ?? 0
        let sorted = outcomes.sorted { $0.id < $1.id }
        inOrder = sorted.filter { $0.id > cursor }
        requeued = sorted.filter { $0.id <= cursor }

        if let last = inOrder.last?.id {
            let pending = try Int64.fetchAll(
                db.cachedStatement(sql: Self.pendingSQL), arguments: [cursor, last, segment])
            guard pending == inOrder.map(\.id) else {
                throw QueueError(
                    .notContiguous, operation,
                    "segment \(segment): \(inOrder.count) outcomes for \(pending.count) samples "
                        + "after \(cursor)")
            }
        }
        guard Set(requeued.map(\.id)).count == requeued.count else {
            throw QueueError(.notContiguous, operation, "a sample is settled twice")
        }
        for sample in requeued {
            let isRequeued = try Bool.fetchOne(
                db, sql: "SELECT is_requeued FROM dead_letter WHERE sample = ? AND segment = ?",
                arguments: [sample.id, segment])
            guard isRequeued == true else {
                throw QueueError(
                    .notContiguous, operation, "sample \(sample.id) is settled already")
            }
        }
    }

    func write(_ db: Database, wall: Int64?) throws {
        var pruned = 0
        for sample in requeued {
            try db.execute(
                sql: "DELETE FROM dead_letter WHERE sample = ?", arguments: [sample.id])
            if case .dead = sample.outcome { continue }
            // Pruning has passed this row already and will not come back for it.
            if sample.id <= prunedThrough {
                try db.execute(sql: "DELETE FROM sample WHERE id = ?", arguments: [sample.id])
                pruned += 1
            }
        }
        var delivered = 0
        var dead = 0
        var dropped: [String: Int] = [:]
        for sample in requeued + inOrder {
            switch sample.outcome {
            case .delivered: delivered += 1
            case .dropped(let reason): dropped[reason.bounded, default: 0] += 1
            case .dead(let reason, let diagnostics):
                dead += 1
                try db.cachedStatement(
                    sql: """
                        INSERT INTO dead_letter (sample, segment, reason, diagnostics, died_wall_us,
                            sent_as)
                        VALUES (?, ?, ?, ?, ?, ?)
                        """
                ).execute(arguments: [
                    sample.id, segment, reason.bounded,
                    String(diagnostics.prefix(SampleQueue.diagnosticsCharactersMax)), wall,
                    sample.sentAs?.bounded,
                ])
            }
        }
        for (reason, count) in dropped.sorted(by: { $0.key < $1.key }) {
            try db.count(count, .dropped, reason, segment: segment)
        }
        try db.cachedStatement(
            sql: """
                UPDATE segment SET settled_through = ?, delivered = delivered + ?, dead = dead + ?,
                    dropped = dropped + ?, pruned = pruned + ?
                WHERE id = ?
                """
        ).execute(arguments: [
            inOrder.last?.id ?? cursor, delivered, dead, dropped.values.reduce(0, +), pruned,
            segment,
        ])
    }
}
