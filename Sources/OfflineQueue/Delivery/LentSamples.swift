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
    private struct Loan {
        let sample: PendingSample.ID
        let assignment: Int64
        var books: DeliveryBooks
    }

    private var loans: [Loan]
    private var dropped: [PendingSample.ID: String] = [:]

    init(_ samples: [PendingSample], _ enrollment: Int64) {
        loans = samples.map { sample in
            Loan(
                sample: sample.id, assignment: sample.assignmentID,
                books: DeliveryBooks(
                    segment: sample.segmentID, further: sample.isFurther ? enrollment : nil))
        }
    }

    mutating func makeOwn(_ assignment: Int64) {
        for index in loans.indices where loans[index].assignment == assignment {
            loans[index].books = DeliveryBooks(segment: loans[index].books.segment)
        }
    }

    mutating func drop(_ range: DroppedRange) {
        for loan in loans where loan.books == range.books && range.ids.contains(loan.sample) {
            dropped[loan.sample] = range.reason
        }
    }

    /// Why a lent sample was dropped meanwhile; nil if it was not.
    func reason(_ id: PendingSample.ID) -> String? { dropped[id] }

    /// Takes the outcome of a sample that was dropped while its request was under way: delivered is
    /// delivered, whatever else stays dropped.
    func settleLate(_ db: Database, _ sample: SettledSample) throws {
        guard sample.outcome == .delivered, let reason = dropped[sample.id],
            let loan = loans.first(where: { $0.sample == sample.id })
        else { return }
        try loan.books.takeBack(db, sample.id...sample.id, 1, droppedFor: reason)
    }

    mutating func settled(_ outcomes: [SettledSample]) {
        for outcome in outcomes { dropped[outcome.id] = nil }
    }
}
