import Testing

@testable import OfflineQueue

/// A strap whose samples go to its own destination and to a further one.
struct TwoDestinations {
    let queue: SampleQueue
    let own: Int64
    let elsewhere: Int64
    let assignment: Assignment
    let clock: ManualClock

    init(
        _ store: TestStore, _ clock: ManualClock, settings: QueueSettings = QueueSettings(),
        isAdded: Bool = true, beats count: Int = 0
    ) async throws {
        queue = try await store.open(clock, settings: settings)
        let worn = try await Worn(queue)
        own = worn.enrollment.id
        assignment = worn.assignment
        elsewhere = try await queue.enroll(.elsewhere()).id
        self.clock = clock
        if isAdded {
            try await queue.add(destination: elsewhere, to: assignment.id, from: .now)
        }
        if count > 0 { try await beat(count) }
    }

    func beat(_ count: Int) async throws {
        for number in 0..<count {
            try await queue.beat(assignment, bpm: UInt8(60 + number % 60), clock)
            clock.advance(seconds: 1)
        }
        try await queue.flush()
    }

    func balance(_ destination: Int64) async throws -> Balance {
        let balance = try await queue.balance(of: .enrollment(destination))
        #expect(balance.isBalanced)
        return balance
    }

    /// The next samples of a destination die there.
    func refuse(_ destination: Int64, _ count: Int) async throws {
        try await settle(destination, count, .dead(reason: "invalid", diagnostics: ""))
    }

    /// The next samples of a destination come to this.
    func settle(
        _ destination: Int64, _ count: Int, _ outcome: SettledSample.Outcome
    ) async throws {
        let batch = try await queue.nextBatch(enrollment: destination, limit: count)
        try await queue.settle(
            enrollment: destination, batch.map { SettledSample($0, outcome) })
    }
}
