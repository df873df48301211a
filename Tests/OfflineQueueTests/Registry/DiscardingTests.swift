import Foundation
import Testing

@testable import OfflineQueue

/// Samples of a strap that somebody only tried: they were held for ever, and `status` was never well.
@Suite("Discarding") struct DiscardingTests {
    private let store: TestStore
    private let clock = ManualClock()
    private let queue: SampleQueue
    private let sensor: Sensor
    private let tried: Assignment

    init() async throws {
        store = try TestStore()
        queue = try await store.open(clock)
        sensor = try await queue.addSensor(address: "A0:9E:1A:00:00:01")
        tried = try await queue.assign(sensor: sensor.id, enrollment: nil)
    }

    private func beat(_ queue: SampleQueue, _ assignment: Assignment, _ count: Int) async throws {
        for _ in 0..<count {
            try await queue.beat(assignment, clock)
            clock.advance(seconds: 1)
        }
    }

    @Test func whatIsDiscardedStaysInTheBooksAndIsListedWithItsReason() async throws {
        try await beat(queue, tried, 3)
        try await queue.close()
        // Two segments, and samples that are in memory only.
        let next = try await store.open(clock, bootID: "boot-2")
        try await beat(next, tried, 2)
        #expect(try await next.discard(assignment: tried.id) == 5)
        let balance = try await next.balance()
        #expect(balance.dropped == ["discarded": 5])
        #expect(balance.isBalanced && balance.unsent == 0 && balance.oldestUnsent == nil)
        #expect(try await next.unboundSamples().isEmpty)
        let totals = try await next.totals()
        #expect(totals.notEnrolled == 0 && totals.notEnrolledEnded == 0)
        let listed = try await next.samples(state: .dropped)
        #expect(listed.map(\.reason) == Array(repeating: "discarded", count: 5))
        #expect(try await next.audit().isClean)

        // An enrollment that comes later gets what comes later, and no more.
        try await beat(next, tried, 4)
        try await next.flush()
        #expect(try await next.unboundSamples().map(\.samples) == [4])
        let ward = try await next.enroll(.example())
        #expect(try await next.bind(assignment: tried.id, enrollment: ward.id) == 4)
        #expect(try await next.deliverAll(ward.id).count == 4)
        #expect(try await next.samples(state: .dropped).count { $0.reason == "discarded" } == 5)
        #expect(try await next.samples(state: .delivered).count == 4)
        #expect(try await next.balance().dropped == ["discarded": 5])
        #expect(try await next.audit().isClean)
    }

    @Test func onlyWhatHasNoEnrollmentIsDiscarded() async throws {
        let worn = try await Worn(queue, 2)
        try await beat(queue, worn.assignment, 3)
        try await beat(queue, tried, 2)
        try await queue.flush()
        let before = try await queue.balance()
        for (assignment, code) in [
            (worn.assignment.id, QueueError.Code.alreadySet), (99, .unknownReference),
        ] {
            await #expect {
                try await queue.discard(assignment: assignment)
            } throws: {
                ($0 as? QueueError)?.code == code
            }
        }
        #expect(try await queue.balance() == before)
        #expect(try await queue.discard(assignment: tried.id) == 2)
        await #expect {
            try await queue.discard(assignment: tried.id)
        } throws: {
            ($0 as? QueueError)?.code == .unknownReference
        }
        #expect(try await queue.deliverAll(worn.enrollment.id).count == 3)
        #expect(try await queue.balance().dropped == ["discarded": 2])
    }

    @Test func aFurtherDestinationStillGetsWhatIsDiscarded() async throws {
        let elsewhere = try await queue.enroll(.elsewhere())
        try await queue.add(destination: elsewhere.id, to: tried.id, from: .now)
        try await beat(queue, tried, 5)
        try await queue.flush()
        #expect(try await queue.discard(assignment: tried.id) == 5)
        #expect(try await queue.deliverAll(elsewhere.id).count == 5)
        #expect(try await queue.furtherBalance(of: .everything).dropped.isEmpty)
        #expect(try await queue.audit().isClean)
    }

    /// A pairing, an assignment and a discard at once: each sample goes one way.
    @Test(arguments: 0..<20) func whoComesFirstDecides(turn: Int) async throws {
        try await beat(queue, tried, 5)
        try await queue.flush()
        let ward = try await queue.enroll(.example())
        let (queue, tried, sensor) = (queue, tried, sensor)
        func bind() async -> Int? {
            turn % 2 == 0
                ? try? await queue.bind(assignment: tried.id, enrollment: ward.id)
                : try? await queue.assign(sensor: sensor.id, enrollment: ward.id).id == tried.id
                    ? 5 : nil
        }
        async let bound = bind()
        async let discarded = try? queue.discard(assignment: tried.id)
        let (given, lost) = (await bound, await discarded ?? 0)
        let sent = try await queue.deliverAll(ward.id).count
        #expect(given != nil)
        #expect(sent + lost == 5 && (sent == 0 || lost == 0))
        if turn % 2 == 0 { #expect(given == sent) }
        let balance = try await queue.balance()
        #expect(balance.isBalanced && balance.dropped == (lost > 0 ? ["discarded": 5] : [:]))
        #expect(try await queue.audit().isClean)
    }

    /// A salvage leaves dead letters without the enrollment at which they died; put back, they wait for one.
    @Test func whatWasPutBackAndHasNoEnrollmentIsDiscardedToo() async throws {
        try await beat(queue, tried, 3)
        try await queue.flush()
        try await queue.close()
        try store.execute(
            """
            INSERT INTO dead_letter (sample, segment, reason, diagnostics)
            SELECT id, segment, 'r', 'd' FROM sample WHERE id = 1;
            UPDATE segment SET settled_through = 1, dead = 1
            """)
        let next = try await store.open(clock, bootID: "boot-2")
        try await next.requeue(deadLetters: [1])
        #expect(try await next.discard(assignment: tried.id) == 3)
        let balance = try await next.balance()
        #expect(balance.dropped == ["discarded": 3] && balance.isBalanced && balance.dead == 0)
        #expect(try await next.audit().isClean)
    }

    /// The books of what was discarded outlive its rows, and the store that broke.
    @Test func whatIsDiscardedIsPrunedAndStaysCounted() async throws {
        try await beat(queue, tried, 3)
        _ = try await queue.discard(assignment: tried.id)
        #expect(try await queue.purgeSettled() == 3)
        #expect(try await queue.balance().dropped == ["discarded": 3])
        #expect(try await queue.balance().isBalanced)
        #expect(try await queue.audit().isClean)
    }
}
