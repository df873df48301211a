import Basics
import Testing

@testable import Health

@Suite struct HealthHistoryTests {
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
        history.note(counts(settled: 5, pending: 1), at: .zero)
        history.note(counts(settled: 6, pending: 3), at: .zero + .seconds(60))
        history.note(counts(settled: 6, pending: 9), at: .zero + .seconds(120))
        let now = counts(settled: 6, pending: 12)
        #expect(history.stalledTime(of: 7, now: now, at: .zero + .seconds(180)) == .seconds(120))
        // One that settled since the last look moves.
        #expect(
            history.stalledTime(
                of: 7, now: counts(settled: 7, pending: 12), at: .zero + .seconds(180)) == .zero)
        #expect(history.stalledTime(of: 8, now: now, at: .zero + .seconds(180)) == .zero)
    }

    @Test func aDeliveryForWhichNothingWaitsIsNotStalled() {
        var history = HealthHistory()
        for minute in 0..<100 {
            history.note(counts(settled: 5), at: .zero + .seconds(minute * 60))
        }
        let now = counts(settled: 5, pending: 1)
        #expect(history.stalledTime(of: 7, now: now, at: .zero + .seconds(99 * 60)) == .zero)
    }

    @Test func framesThatStayInMemoryAreUncommitted() {
        var history = HealthHistory()
        history.note(counts(stored: 10, buffered: 3), at: .zero)
        history.note(counts(stored: 10, buffered: 33), at: .zero + .seconds(30))
        let now = counts(stored: 10, buffered: 70)
        #expect(history.uncommittedTime(now: now, at: .zero + .seconds(70)) == .seconds(70))
        #expect(history.unstoredTime(of: 1, now: now, at: .zero + .seconds(70)) == .seconds(70))
        #expect(
            history.uncommittedTime(now: counts(stored: 80), at: .zero + .seconds(70)) == .zero)
    }

    /// A look between the last two steps of a pairing, and a status right after it, said strap-not-stored.
    @Test func aStrapThatIsJustBeingPairedIsUnrecordedForAMoment() {
        var paired = counts()
        paired.unrecorded = [1]
        var history = HealthHistory()
        history.note(paired, at: .zero)
        let soon = history.unrecordedTime(of: 1, now: paired, at: .zero + .seconds(2))
        #expect(soon == .seconds(2) && soon <= HealthRules.unrecordedMax)
        history.note(paired, at: .zero + .seconds(15))
        #expect(
            history.unrecordedTime(of: 1, now: paired, at: .zero + .seconds(16)) == .seconds(16))
        #expect(
            history.unrecordedTime(of: 1, now: counts(), at: .zero + .seconds(16)) == .zero)
    }

    /// Looks at a backlog four times a minute; `backlog` is of the minute and its quarter.
    private func growth(minutes: Int, _ backlog: (Int, Int) -> Int) -> Int? {
        var history = HealthHistory()
        var last = counts()
        for minute in 0..<minutes {
            for quarter in 0..<4 {
                last = counts(pending: backlog(minute, quarter))
                history.note(last, at: .zero + .seconds(minute * 60 + quarter * 15))
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
        history.note(counts(settled: 5, pending: 1), at: .zero)
        history.note(HealthHistory.Counts(), at: .zero + .seconds(15))
        history.note(counts(settled: 5, pending: 1), at: .zero + .seconds(30))
        let now = counts(settled: 5, pending: 1)
        #expect(history.stalledTime(of: 7, now: now, at: .zero + .seconds(45)) == .seconds(15))
    }
}

@Suite struct HealthLogTests {
    private let radio = HealthCondition(.radioOff, message: "m")

    @Test func aConditionKeepsItsBeginningUntilItEnds() {
        var log = HealthLog(startedAt: .zero)
        _ = log.look([], at: .zero + .seconds(85))
        #expect(log.look([radio], at: .zero + .seconds(100)).began == [radio])
        #expect(log.look([radio], at: .zero + .seconds(115)) == HealthLog.Change())
        #expect(log.began(radio) == .zero + .seconds(85))
        #expect(log.look([], at: .zero + .seconds(130)).ended == [radio])
        _ = log.look([radio], at: .zero + .seconds(145))
        #expect(log.began(radio) == .zero + .seconds(130))
    }

    /// The first caller must not set the beginning that others get.
    @Test func whoAsksBetweenTwoLooksGetsTheBeginningThatTheNextLookGives() {
        var log = HealthLog(startedAt: .zero)
        _ = log.look([], at: .zero + .seconds(15))
        let asked = log.began(radio)
        _ = log.look([radio], at: .zero + .seconds(30))
        #expect(asked == log.began(radio))
    }

    /// The log said that a silent strap was well again when bluetoothd ended, and `since` began anew with it.
    @Test func aConditionThatNobodyLookedForKeepsItsBeginning() {
        var log = HealthLog(startedAt: .zero)
        let silent = HealthCondition(.strapSilent, subject: "4", message: "m")
        _ = log.look([silent], at: .zero + .seconds(15))
        let change = log.look(
            [radio], unjudged: Unjudged(HealthSnapshot(), beside: [radio]),
            at: .zero + .seconds(30))
        #expect(change.began == [radio] && change.ended == [])
        #expect(log.look([silent], at: .zero + .seconds(45)).ended == [radio])
        #expect(log.began(silent) == .zero)
    }

    @Test func twoSensorsWithTheSameConditionAreTwoItems() {
        var log = HealthLog(startedAt: .zero)
        let one = HealthCondition(.strapSilent, subject: "1", message: "m")
        let two = HealthCondition(.strapSilent, subject: "2", message: "m")
        _ = log.look([one], at: Uptime(microseconds: 1))
        _ = log.look([one, two], at: Uptime(microseconds: 2))
        #expect(log.began(one) == .zero && log.began(two) == Uptime(microseconds: 1))
    }
}
