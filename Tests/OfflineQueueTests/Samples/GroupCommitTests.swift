import Basics
import Testing

@testable import OfflineQueue

@Suite("When a group is written")
struct GroupCommitTests {
    @Test func nothingWaitingIsNeverDue() {
        let group = GroupCommit()
        #expect(group.deadline == nil && !group.isDue(uptime: .max))
    }

    @Test func dueAtFiftySamples() {
        var group = GroupCommit()
        for number in 1...50 {
            group.add(uptime: 1_000)
            #expect(group.isDue(uptime: 1_000) == (number == 50))
        }
    }

    @Test func dueWhenTheOldestIsFiveSecondsOld() {
        var group = GroupCommit()
        group.add(uptime: 1_000_000)
        group.add(uptime: 4_000_000)
        #expect(group.deadline == 6_000_000)
        #expect(!group.isDue(uptime: 5_999_999) && group.isDue(uptime: 6_000_000))
        group.committed()
        #expect(group.deadline == nil)
    }

    @Test func aFailurePutsOffEvenAFullGroup() {
        var group = GroupCommit(samplesMax: 2)
        group.add(uptime: 0)
        group.add(uptime: 0)
        group.failed(uptime: 10)
        #expect(!group.isDue(uptime: 5_000_009) && group.isDue(uptime: 5_000_010))
        group.add(uptime: 20)
        #expect(group.deadline == 5_000_010)
        group.committed(remaining: 1, oldestUptime: 20)
        #expect(group.deadline == 5_000_020)
    }

    @Test func extremeUptimesDoNotTrap() {
        var group = GroupCommit(samplesMax: 0, ageMicrosecondsMax: .max)
        group.add(uptime: .max)
        #expect(group.deadline == .max && group.isDue(uptime: 0))
        group.failed(uptime: .max)
        #expect(group.deadline != nil)
    }

    @Test func theQueueCommitsByCountAndByAge() async throws {
        let store = try TestStore()
        let clock = ManualClock()
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        for _ in 0..<49 { try await queue.beat(worn.assignment, clock) }
        #expect(try await queue.balance().stored == 0)
        #expect(try await queue.balance().buffered == 49)
        try await queue.beat(worn.assignment, clock)
        #expect(try await queue.balance().stored == 50)

        try await queue.beat(worn.assignment, clock)
        let deadline = await queue.nextCommitDeadline
        #expect(deadline == clock.read().uptime + .seconds(5))
        clock.advance(seconds: 4.9)
        await queue.commitIfDue()
        #expect(try await queue.balance().stored == 50)
        clock.advance(seconds: 0.1)
        await queue.commitIfDue()
        let balance = try await queue.balance()
        #expect(balance.stored == 51 && balance.buffered == 0)
        #expect(await queue.nextCommitDeadline == nil)
    }
}
