import GRDB

/// Samples that deliveries were given and have not settled yet. A request may be under way with them when
/// room has to be made; what the destination then says of them still counts.
struct LentSamples: Sendable {
    private var deliveries: [Int64: LentBatch] = [:]

    /// `samples` are the delivery's newest batch; nothing of an older one is under way any more.
    mutating func lend(_ samples: [PendingSample], to enrollment: Int64) {
        deliveries[enrollment] = LentBatch(samples, enrollment)
    }

    mutating func drop(_ ranges: [DroppedRange]) {
        guard !ranges.isEmpty else { return }
        for enrollment in deliveries.keys {
            for range in ranges { deliveries[enrollment]?.drop(range) }
        }
    }

    /// A loan that an assignment had made to a further destination is its own destination's now.
    mutating func makeOwn(_ enrollment: Int64, of assignment: Int64) {
        deliveries[enrollment]?.makeOwn(assignment)
    }

    /// The samples that one delivery was given.
    func of(_ enrollment: Int64) -> LentBatch {
        deliveries[enrollment] ?? LentBatch([], enrollment)
    }

    mutating func settled(_ outcomes: [SettledSample], by enrollment: Int64) {
        deliveries[enrollment]?.settled(outcomes)
    }
}

/// The newest batch of one delivery.
struct LentBatch: Sendable {
    private var books: [PendingSample.ID: DeliveryBooks]
    private let assignments: [PendingSample.ID: Int64]
    private var dropped: [PendingSample.ID: String] = [:]

    init(_ samples: [PendingSample], _ enrollment: Int64) {
        books = Dictionary(
            samples.map { sample in
                (
                    sample.id,
                    DeliveryBooks(
                        segment: sample.segmentID, further: sample.isFurther ? enrollment : nil)
                )
            }, uniquingKeysWith: { first, _ in first })
        assignments = Dictionary(
            samples.map { ($0.id, $0.assignmentID) }, uniquingKeysWith: { first, _ in first })
    }

    mutating func makeOwn(_ assignment: Int64) {
        for (id, books) in books where assignments[id] == assignment {
            self.books[id] = DeliveryBooks(segment: books.segment)
        }
    }

    mutating func drop(_ range: DroppedRange) {
        for (id, books) in books where books == range.books && range.ids.contains(id) {
            dropped[id] = range.reason
        }
    }

    /// Why a lent sample was dropped meanwhile; nil if it was not.
    func reason(_ id: PendingSample.ID) -> String? { dropped[id] }

    /// Takes the outcome of a sample that was dropped while its request was under way: delivered is
    /// delivered, whatever else stays dropped.
    func settleLate(_ db: Database, _ sample: SettledSample) throws {
        guard sample.outcome == .delivered, let reason = dropped[sample.id],
            let books = books[sample.id]
        else { return }
        try books.takeBack(db, sample.id...sample.id, 1, droppedFor: reason)
    }

    mutating func settled(_ outcomes: [SettledSample]) {
        for outcome in outcomes { dropped[outcome.id] = nil }
    }
}
