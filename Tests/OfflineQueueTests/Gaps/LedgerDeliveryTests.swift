import Basics
import Testing

@testable import OfflineQueue

@Suite("The gap ledger on its way to destinations")
struct LedgerDeliveryTests {
    let store: TestStore
    let clock = ManualClock()

    init() throws { store = try TestStore() }

    private func beat(_ queue: SampleQueue, _ worn: Worn, _ count: Int) async throws {
        for _ in 0..<count {
            try await queue.beat(worn.assignment, clock)
            clock.advance(seconds: 1)
        }
        try await queue.flush()
    }

    /// Samples, a silence of `seconds`, samples.
    private func silence(
        _ queue: SampleQueue, _ worn: Worn, _ seconds: Double, _ cause: GapCause = .outOfRange
    ) async throws {
        try await beat(queue, worn, 5)
        await queue.note(
            cause, of: worn.assignment.sensorID, at: clock.read().uptime - .seconds(1))
        clock.advance(seconds: seconds)
        await queue.note(nil, of: worn.assignment.sensorID, at: clock.read().uptime)
        try await beat(queue, worn, 5)
    }

    private func next(
        _ queue: SampleQueue, _ destination: Int64, limit: Int = 100
    ) async throws -> [LedgerEntry] {
        try await queue.nextLedgerEntries(enrollment: destination, limit: limit)
    }

    /// Takes all that a destination has not been told yet.
    private func drain(_ queue: SampleQueue, _ destination: Int64) async throws -> [LedgerEntry] {
        var all: [LedgerEntry] = []
        while true {
            let entries = try await next(queue, destination, limit: 3)
            if entries.isEmpty { return all }
            #expect(entries.count <= 3)
            all += entries
            try await queue.settleLedger(enrollment: destination, entries)
        }
    }

    private func seconds(_ entries: [LedgerEntry]) -> [Double?] {
        entries.compactMap { entry in
            guard case .gap(_, _, _, let length) = entry.content else { return nil }
            return length?.inSeconds
        }
    }

    private func days(_ entries: [LedgerEntry]) -> [Coverage] {
        entries.compactMap { entry in
            guard case .coverage(_, let coverage) = entry.content else { return nil }
            return coverage
        }
    }

    @Test func aGapGoesOutOnceItIsOverAndAgainUntilItIsSettled() async throws {
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        try await silence(queue, worn, 120)
        let entries = try await next(queue, worn.enrollment.id)
        #expect(seconds(entries) == [121])
        let gap = try #require(entries.first)
        #expect(gap.sensorID == worn.sensor.id && gap.id.hasPrefix("boot-1-"))
        guard case .gap(.outOfRange, let from?, let until?, _) = gap.content else {
            Issue.record("\(gap.content)")
            return
        }
        #expect(until - from == .seconds(121))
        #expect(try await next(queue, worn.enrollment.id) == entries, "not settled")
        try await queue.settleLedger(enrollment: worn.enrollment.id, entries)
        #expect(try await next(queue, worn.enrollment.id).isEmpty)
        // One that goes on waits.
        clock.advance(seconds: 600)
        try await queue.flush()
        #expect(try await next(queue, worn.enrollment.id).isEmpty)
        try await beat(queue, worn, 5)
        #expect(seconds(try await drain(queue, worn.enrollment.id)) == [601])
        try await queue.close()
    }

    /// Sent again, it would have had another length: a late frame may shorten it.
    @Test func aGapOfASilenceThatGoesOnIsNotToldYet() async throws {
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        try await beat(queue, worn, 5)
        for cause in [.linkLost, .adapterDown] as [GapCause] {
            await queue.note(cause, of: worn.sensor.id, at: clock.read().uptime)
            clock.advance(seconds: 60)
            await queue.commitIfDue()
        }
        #expect(try store.number("SELECT count(*) FROM gap WHERE until_boot IS NOT NULL") == 1)
        #expect(try await next(queue, worn.enrollment.id).isEmpty)
        let late = clock.read().at(clock.read().uptime - .seconds(90))
        try await queue.append(
            Arrival(
                sensorID: worn.sensor.id, at: late, frame: [0, 60], uncertainty: .seconds(2),
                isRebuilt: true))
        try await queue.flush()
        try await beat(queue, worn, 1)
        #expect(seconds(try await drain(queue, worn.enrollment.id)) == [31, 90])
        try await queue.close()
    }

    @Test func theLastGapOfAStrapThatIsForgottenIsToldOnceNoFrameOfItComesAnyMore() async throws {
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        try await beat(queue, worn, 5)
        clock.advance(seconds: 60)
        try await queue.forgetSensor(worn.sensor.id)
        #expect(try await next(queue, worn.enrollment.id).isEmpty)
        // Nothing is written meanwhile.
        clock.advance(seconds: 3_601)
        #expect(seconds(try await drain(queue, worn.enrollment.id)) == [61])
        try await queue.close()
    }

    @Test func eachDayThatIsOverIsToldOnceAndItsCausesAddUp() async throws {
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        // From midnight on, three times at the same hour.
        for _ in 0..<3 {
            try await silence(queue, worn, 86_390, .noContact)
        }
        let entries = try await drain(queue, worn.enrollment.id)
        let coverage = days(entries)
        #expect(coverage.count == 3)
        for day in coverage {
            #expect(day.expectedSeconds == 86_400)
            let sum = day.secondsByCause.values.reduce(day.coveredSeconds, +)
            #expect(abs(sum - day.expectedSeconds) < 0.001)
            #expect(day.secondsByCause[.noContact] ?? 0 > 86_000)
        }
        #expect(Set(entries.map(\.id)).count == entries.count)
        #expect(try await drain(queue, worn.enrollment.id).isEmpty)
        try await queue.close()
    }

    @Test func aDestinationOfNowIsToldOfNowAndOneWithWhatIsKeptOfEverything() async throws {
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        try await silence(queue, worn, 100)
        clock.advance(seconds: 86_400)
        try await beat(queue, worn, 5)
        let fromNow = try await queue.enroll(.elsewhere("now")).id
        let fromKept = try await queue.enroll(.elsewhere("kept")).id
        try await queue.add(destination: fromNow, to: worn.assignment.id, from: .now)
        try await queue.add(destination: fromKept, to: worn.assignment.id, from: .kept)
        try await silence(queue, worn, 50)
        #expect(seconds(try await drain(queue, fromNow)) == [51])
        let everything = try await drain(queue, fromKept)
        #expect(seconds(everything) == [101, 86_401, 51])
        #expect(days(everything).count == 1)
        #expect(everything.allSatisfy { $0.patient == "p-1" })
        clock.advance(seconds: 86_400)
        try await beat(queue, worn, 2)
        #expect(days(try await drain(queue, fromNow)).count == 1)

        try await queue.remove(destination: fromNow, from: worn.assignment.id)
        try await silence(queue, worn, 70)
        #expect(try await drain(queue, fromNow).isEmpty)
        try await queue.add(destination: fromNow, to: worn.assignment.id, from: .now)
        #expect(try await drain(queue, fromNow).isEmpty)
        try await silence(queue, worn, 80)
        #expect(seconds(try await drain(queue, fromNow)) == [81])
        try await queue.close()
    }

    @Test func timeThatTheGatewayWasOffGoesOutAfterTheNextStart() async throws {
        var queue = try await store.open(clock)
        let worn = try await Worn(queue)
        try await beat(queue, worn, 5)
        try await queue.close()
        clock.set {
            $0.uptime = Uptime(microseconds: 20_000_000)
            $0.wall += .seconds(3_600)
            $0.isTrusted = false
        }
        queue = try await store.open(clock, bootID: "boot-2")
        try await beat(queue, worn, 5)
        #expect(try await next(queue, worn.enrollment.id).isEmpty, "the clock is not set yet")
        clock.set { $0.isTrusted = true }
        try await beat(queue, worn, 5)
        let entries = try await drain(queue, worn.enrollment.id)
        guard case .gap(.gatewayOff, .some, .some, let length?)? = entries.first?.content else {
            Issue.record("\(entries)")
            return
        }
        #expect(abs(length.inSeconds - 3_600) < 30)
        try await queue.close()
    }

    @Test func aGapOfABootWhoseClockWasNeverSetGoesOutWithoutTimes() async throws {
        clock.set { $0.isTrusted = false }
        var queue = try await store.open(clock)
        let worn = try await Worn(queue)
        try await silence(queue, worn, 100)
        try await queue.close()
        clock.set {
            $0.uptime = Uptime(microseconds: 20_000_000)
            $0.isTrusted = true
        }
        queue = try await store.open(clock, bootID: "boot-2")
        try await beat(queue, worn, 5)
        let entries = try await drain(queue, worn.enrollment.id)
        guard case .gap(_, nil, nil, let length)? = entries.first?.content else {
            Issue.record("\(entries)")
            return
        }
        #expect(length == .seconds(101))
        try await queue.close()
    }

    @Test func erasingAPatientErasesHowFarTheLedgerCame() async throws {
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        try await silence(queue, worn, 100)
        let late = try await drain(queue, worn.enrollment.id)
        #expect(late.count == 1)
        #expect(try store.number("SELECT count(*) FROM ledger_delivery") == 1)
        try await queue.forgetSensor(worn.sensor.id)
        while try await !queue.erase(Erasure(enrollment: worn.enrollment.id)) {}
        #expect(try store.number("SELECT count(*) FROM ledger_delivery") == 0)
        // What was under way meanwhile brings nothing back.
        try await queue.settleLedger(enrollment: worn.enrollment.id, late)
        #expect(try store.number("SELECT count(*) FROM ledger_delivery") == 0)
        try await queue.close()
    }
}
