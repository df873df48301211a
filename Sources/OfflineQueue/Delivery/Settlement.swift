import Basics
import GRDB

/// The effect of one `settle` on one segment, checked against the rows before anything is written.
struct Settlement {
    private let books: DeliveryBooks
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
        guard let books = try DeliveryBooks(db, segment: segment, destination: enrollment) else {
            throw QueueError(.unknownReference, operation, "no such segment in this delivery")
        }
        let cursor = try books.cursor(db)
        self.books = books
        prunedThrough =
            try Int64.fetchOne(
                db.cachedStatement(sql: "SELECT pruned_through FROM segment WHERE id = ?"),
                arguments: [segment]) ?? 0
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
        for sample in requeued where try books.isRequeued(db, sample.id) != true {
            throw QueueError(.notContiguous, operation, "sample \(sample.id) is settled already")
        }
    }

    func write(_ db: Database, wall: UTC?) throws {
        for sample in requeued { try books.deleteLetter(db, sample.id) }
        var delivered = 0
        var dead = 0
        var dropped: [String: Int] = [:]
        for sample in requeued + inOrder {
            switch sample.outcome {
            case .delivered: delivered += 1
            case .dropped(let reason): dropped[reason.bounded, default: 0] += 1
            case .dead(let reason, let diagnostics):
                dead += 1
                try books.insertLetter(
                    db, of: sample.id, reason: reason, diagnostics: diagnostics, wall: wall,
                    sentAs: sample.sentAs)
            }
        }
        for (reason, count) in dropped.sorted(by: { $0.key < $1.key }) {
            try books.note(db, dropped: count, reason)
        }
        try noteDropped(db)
        try books.move(
            db, through: inOrder.last?.id, delivered: delivered, dead: dead,
            dropped: dropped.values.reduce(0, +))
        // Pruning has passed these rows already and will not come back for them.
        for sample in requeued where sample.id <= prunedThrough {
            try DeliveryBooks.deleteRow(db, sample.id, of: books.segment)
        }
    }

    /// Remembers which samples were dropped: those that follow one another for one reason in one row.
    private func noteDropped(_ db: Database) throws {
        for sample in requeued {
            guard case .dropped(let reason) = sample.outcome else { continue }
            try books.note(db, dropped: sample.id...sample.id, reason)
        }
        var open: (ids: ClosedRange<Int64>, reason: String)?
        for sample in inOrder {
            var dropped: String?
            if case .dropped(let reason) = sample.outcome { dropped = reason }
            if let known = open, known.reason == dropped {
                open = (known.ids.lowerBound...sample.id, known.reason)
                continue
            }
            if let open { try books.note(db, dropped: open.ids, open.reason) }
            open = dropped.map { (sample.id...sample.id, $0) }
        }
        if let open { try books.note(db, dropped: open.ids, open.reason) }
    }
}
