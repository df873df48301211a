import Basics
import Testing

@testable import OfflineQueue

@Suite("When a group is written")
struct GroupCommitTests {
    @Test func nothingWaitingIsNeverDue() {
        let group = GroupCommit()
        #expect(group.deadline == nil && !group.isDue(uptime: .microseconds(.max)))
    }

    @Test func dueAtFiftySamples() {
        var group = GroupCommit()
        for number in 1...50 {
            group.add(uptime: .microseconds(1_000))
            #expect(group.isDue(uptime: .microseconds(1_000)) == (number == 50))
        }
    }

    @Test func dueWhenTheOldestIsFiveSecondsOld() {
        var group = GroupCommit()
        group.add(uptime: .microseconds(1_000_000))
        group.add(uptime: .microseconds(4_000_000))
        #expect(group.deadline == .microseconds(6_000_000))
        #expect(
            !group.isDue(uptime: .microseconds(5_999_999))
                && group.isDue(uptime: .microseconds(6_000_000)))
        group.committed()
        #expect(group.deadline == nil)
    }

    @Test func aFailurePutsOffEvenAFullGroup() {
        var group = GroupCommit(samplesMax: 2)
        group.add(uptime: .microseconds(0))
        group.add(uptime: .microseconds(0))
        group.failed(uptime: .microseconds(10))
        #expect(
            !group.isDue(uptime: .microseconds(5_000_009))
                && group.isDue(uptime: .microseconds(5_000_010)))
        group.add(uptime: .microseconds(20))
        #expect(group.deadline == .microseconds(5_000_010))
        group.committed(remaining: 1, oldestUptime: .microseconds(20))
        #expect(group.deadline == .microseconds(5_000_020))
    }

    @Test func extremeUptimesDoNotTrap() {
        var group = GroupCommit(samplesMax: 0, ageMax: Duration.microseconds(Int64.max))
        group.add(uptime: .microseconds(.max))
        #expect(group.deadline == .microseconds(.max) && group.isDue(uptime: .microseconds(0)))
        group.failed(uptime: .microseconds(.max))
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
