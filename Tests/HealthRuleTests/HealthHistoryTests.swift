import Testing

@testable import Health

@Suite struct HealthHistoryTests {
    private static let second: Int64 = 1_000_000

    private func counts(
        stored: Int = 0, buffered: Int = 0, settled: Int = 0, pending: Int = 0
    ) -> HealthHistory.Counts {
        var counts = HealthHistory.Counts()
        counts.stored[1] = stored
        counts.written = stored
        counts.buffered = buffered
        counts.deliveries[7] = .init(settled: settled, pending: pending)
        return counts
    }

    @Test func aDeliveryThatSettlesNothingIsStalledSinceItLastDid() {
        var history = HealthHistory()
        history.note(counts(settled: 5, pending: 1), at: 0)
        history.note(counts(settled: 6, pending: 3), at: 60 * Self.second)
        history.note(counts(settled: 6, pending: 9), at: 120 * Self.second)
        let now = counts(settled: 6, pending: 12)
        #expect(history.stalledSeconds(of: 7, now: now, at: 180 * Self.second) == 120)
        // One that settled since the last look moves.
        #expect(
            history.stalledSeconds(
                of: 7, now: counts(settled: 7, pending: 12), at: 180 * Self.second) == 0)
        #expect(history.stalledSeconds(of: 8, now: now, at: 180 * Self.second) == 0)
    }

    @Test func aDeliveryForWhichNothingWaitsIsNotStalled() {
        var history = HealthHistory()
        for minute in 0..<100 {
            history.note(counts(settled: 5), at: Int64(minute) * 60 * Self.second)
        }
        let now = counts(settled: 5, pending: 1)
        #expect(history.stalledSeconds(of: 7, now: now, at: 99 * 60 * Self.second) == 0)
    }

    @Test func framesThatStayInMemoryAreUncommitted() {
        var history = HealthHistory()
        history.note(counts(stored: 10, buffered: 3), at: 0)
        history.note(counts(stored: 10, buffered: 33), at: 30 * Self.second)
        let now = counts(stored: 10, buffered: 70)
        #expect(history.uncommittedSeconds(now: now, at: 70 * Self.second) == 70)
        #expect(history.unstoredSeconds(of: 1, now: now, at: 70 * Self.second) == 70)
        #expect(
            history.uncommittedSeconds(now: counts(stored: 80), at: 70 * Self.second) == 0)
    }

    /// Looks at a backlog four times a minute; `backlog` is of the minute and its quarter.
    private func growth(minutes: Int, _ backlog: (Int, Int) -> Int) -> Int? {
        var history = HealthHistory()
        var last = counts()
        for minute in 0..<minutes {
            for quarter in 0..<4 {
                last = counts(pending: backlog(minute, quarter))
                history.note(last, at: Int64(minute * 60 + quarter * 15) * Self.second)
            }
        }
        return history.growth(of: 7, now: last)
    }

    @Test func aBacklogThatGrewForAnHourIsSaid() {
        // A request a minute takes 40 of the 60 samples that came.
        #expect(growth(minutes: 70) { $0 * 20 + $1 * 15 } ?? 0 > 1_000)
    }

    @Test func aBacklogThatGoesUpAndDownDoesNotGrow() {
        #expect(growth(minutes: 300) { _, quarter in quarter * 15 } == nil)
        #expect(growth(minutes: 300) { minute, _ in minute % 25 * 10 } == nil)
    }

    @Test func aBacklogThatShrinksDoesNotGrow() {
        #expect(growth(minutes: 120) { minute, _ in 100_000 - minute * 100 } == nil)
    }

    @Test func anHourMustHavePassed() {
        #expect(growth(minutes: 55) { minute, _ in minute * 60 } == nil)
    }

    @Test func theHistoryOfADeliveryThatIsGoneIsGone() {
        var history = HealthHistory()
        history.note(counts(settled: 5, pending: 1), at: 0)
        history.note(HealthHistory.Counts(), at: 15 * Self.second)
        history.note(counts(settled: 5, pending: 1), at: 30 * Self.second)
        let now = counts(settled: 5, pending: 1)
        #expect(history.stalledSeconds(of: 7, now: now, at: 45 * Self.second) == 15)
    }
}

@Suite struct HealthLogTests {
    private static let second: Int64 = 1_000_000
    private let radio = HealthCondition(.radioOff, message: "m")

    @Test func aConditionKeepsItsBeginningUntilItEnds() {
        var log = HealthLog(startedAt: 0)
        _ = log.look([], at: 85 * Self.second)
        #expect(log.look([radio], at: 100 * Self.second).began == [radio])
        #expect(log.look([radio], at: 115 * Self.second) == HealthLog.Change())
        #expect(log.began(radio) == 85 * Self.second)
        #expect(log.look([], at: 130 * Self.second).ended == [radio])
        _ = log.look([radio], at: 145 * Self.second)
        #expect(log.began(radio) == 130 * Self.second)
    }

    /// The first caller must not set the beginning that others get.
    @Test func whoAsksBetweenTwoLooksGetsTheBeginningThatTheNextLookGives() {
        var log = HealthLog(startedAt: 0)
        _ = log.look([], at: 15 * Self.second)
        let asked = log.began(radio)
        _ = log.look([radio], at: 30 * Self.second)
        #expect(asked == log.began(radio))
    }

    @Test func twoSensorsWithTheSameConditionAreTwoItems() {
        var log = HealthLog(startedAt: 0)
        let one = HealthCondition(.strapSilent, subject: "1", message: "m")
        let two = HealthCondition(.strapSilent, subject: "2", message: "m")
        _ = log.look([one], at: 1)
        _ = log.look([one, two], at: 2)
        #expect(log.began(one) == 0 && log.began(two) == 1)
    }
}
