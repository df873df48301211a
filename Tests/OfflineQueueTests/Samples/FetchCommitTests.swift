import Basics
import Testing

@testable import OfflineQueue

@Suite("What is committed before a delivery fetches")
struct FetchCommitTests {
    @Test func aCommitThatIsDueSoonIsLeftToItsTime() async throws {
        let store = try TestStore()
        let clock = ManualClock()
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        let commits = Count()
        await queue.onCommit { commits.add() }
        try await queue.beat(worn.assignment, clock)
        let due = clock.read().uptime + .seconds(5)

        clock.advance(seconds: 4)
        #expect(try await queue.flush(unlessWithin: .seconds(1)) == due)
        #expect(commits.now == 0)
        #expect(try await queue.balance().stored == 0)
        clock.advance(seconds: 1)
        await queue.commitIfDue()
        #expect(commits.now == 1)
        #expect(try await queue.balance().stored == 1)
        try await queue.close()
    }

    @Test(arguments: [(3.9, 1.0), (4.5, 0), (5.2, 1.0)])
    func aCommitThatIsFarOffOrOverdueIsMadeAtOnce(age: Double, moment: Double) async throws {
        let store = try TestStore()
        let clock = ManualClock()
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        let commits = Count()
        await queue.onCommit { commits.add() }
        try await queue.beat(worn.assignment, clock)
        clock.advance(seconds: age)
        #expect(try await queue.flush(unlessWithin: .milliseconds(Int(moment * 1000))) == nil)
        #expect(commits.now == 1)
        #expect(try await queue.balance().stored == 1)
        try await queue.close()
    }

    @Test func whereNothingWaitsNothingIsCommitted() async throws {
        let store = try TestStore()
        let clock = ManualClock()
        let queue = try await store.open(clock)
        _ = try await Worn(queue)
        let commits = Count()
        await queue.onCommit { commits.add() }
        #expect(try await queue.flush(unlessWithin: .seconds(1)) == nil)
        #expect(commits.now == 0)
        try await queue.close()
    }

    @Test func aHandlerIsReplacedByTheNext() async throws {
        let store = try TestStore()
        let clock = ManualClock()
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        let (first, second) = (Count(), Count())
        await queue.onCommit { first.add() }
        await queue.onCommit { second.add() }
        try await queue.beat(worn.assignment, clock)
        try await queue.flush()
        await queue.onCommit(nil)
        try await queue.beat(worn.assignment, clock)
        try await queue.flush()
        #expect((first.now, second.now) == (0, 1))
        try await queue.close()
    }
}
