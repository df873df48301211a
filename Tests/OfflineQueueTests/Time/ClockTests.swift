import Basics
import Foundation
import Testing

@testable import OfflineQueue

@Suite("Trusted times")
struct ClockTests {
    let store: TestStore

    init() throws { store = try TestStore() }

    @Test func samplesOfAnUntrustedClockAreHeldAndTheirTimesComputedBackwards() async throws {
        let clock = ManualClock(isTrusted: false)
        clock.set { $0.wall = .epoch + .seconds(1) }  // 1970, as after a power cut
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        for _ in 0..<3 {
            try await queue.beat(worn.assignment, clock)
            clock.advance(seconds: 1)
        }
        try await queue.flush()
        #expect(try await queue.balance().held == ["clock-unknown": 3])
        #expect(try await queue.balance().oldestUnsent == nil)
        #expect(try await queue.nextBatch(enrollment: worn.enrollment.id, limit: 9).isEmpty)
        #expect(await !queue.health().givesTimes)

        // NTP comes: uptime is 103 s, and it is really 2026-12-01T00:01:00Z.
        clock.set { $0.wall = ManualClock.midnight + .seconds(60) }
        try await queue.noteClock(clock.read())
        #expect(try await queue.balance().held == ["clock-unknown": 3])
        clock.set { $0.isTrusted = true }
        try await queue.noteClock(clock.read())
        #expect(try await queue.balance().pending == 3)
        let batch = try await queue.nextBatch(enrollment: worn.enrollment.id, limit: 9)
        #expect(
            batch.map(\.time) == [57, 58, 59].map { ManualClock.midnight + .seconds($0) })
        clock.set { $0.isTrusted = false }
        #expect(await queue.health().givesTimes, "this boot had a trusted time")
    }

    @Test func aStepOfTheClockMovesNoSampleThatCameBeforeIt() async throws {
        let clock = ManualClock(isTrusted: false)
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        try await queue.beat(worn.assignment, clock)
        try await queue.flush()
        clock.set { $0.isTrusted = true }
        try await queue.noteClock(clock.read())
        let delivery = worn.enrollment.id
        let before = try await queue.nextBatch(enrollment: delivery, limit: 9)
        clock.advance(seconds: 1)
        clock.set { $0.wall += .seconds(3_600) }
        try await queue.noteClock(clock.read())
        #expect(try await queue.nextBatch(enrollment: delivery, limit: 9) == before)
        // What arrives after the step has the stepped clock's own time.
        try await queue.beat(worn.assignment, clock)
        try await queue.flush()
        let after = try await queue.nextBatch(enrollment: delivery, limit: 9)
        #expect(after.last?.time == clock.read().wall)
    }

    @Test func aTrustedArrivalGivesItsBootATime() async throws {
        let clock = ManualClock(isTrusted: false)
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        try await queue.beat(worn.assignment, clock)
        clock.set { $0.isTrusted = true }
        try await queue.beat(worn.assignment, clock)
        try await queue.flush()
        #expect(try await queue.balance().pending == 2)
    }

    @Test func aBootThatEndedUntrustedStaysHeldUntilAPersonSetsItsTime() async throws {
        let clock = ManualClock(isTrusted: false)
        let first = try await store.open(clock, bootID: "boot-1")
        let worn = try await Worn(first)
        try await first.beat(worn.assignment, clock)
        try await first.close()

        let trusted = ManualClock()
        let second = try await store.open(trusted, bootID: "boot-2")
        try await second.noteClock(trusted.read())
        try await second.beat(worn.assignment, trusted)
        try await second.flush()
        var balance = try await second.balance()
        #expect(balance.held == ["clock-unknown": 1] && balance.pending == 1)
        #expect(try await second.deliverAll(worn.enrollment.id).count == 1)

        let offset = Duration.seconds(1_796_000_000)
        try await second.release(bootID: "boot-1", wallOffset: offset)
        let batch = try await second.nextBatch(enrollment: worn.enrollment.id, limit: 9)
        let time = UTC.epoch + .seconds(100) + offset
        #expect(batch.map(\.time) == [time])
        for boot in ["boot-1", "boot-2", "boot-3"] {
            await #expect(throws: QueueError.self) {
                try await second.release(bootID: boot, wallOffset: .microseconds(0))
            }
        }
        balance = try await second.balance()
        #expect(balance.isBalanced && balance.held.isEmpty)
    }

    @Test func withoutATrustedClockSamplesCannotBeReleasedIntoAnotherAge() async throws {
        let clock = ManualClock(isTrusted: false)
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        try await queue.beat(worn.assignment, clock)
        try await queue.flush()
        let future = try #require(UTCText.time("2096-01-01T00:00:00.000000Z"))
        await #expect(throws: QueueError.self) {
            try await queue.release(bootID: "boot-1", wallOffset: future - .epoch)
        }
    }

    /// `status` was well while they were held for ever: it asked only whether the clock is trusted now.
    @Test func samplesOfAnEarlierBootWithoutATimeAreCountedUntilItIsSet() async throws {
        let lost = ManualClock(isTrusted: false)
        let first = try await store.open(lost, bootID: "boot-1")
        let worn = try await Worn(first)
        let elsewhere = try await first.enroll(.elsewhere()).id
        try await first.add(destination: elsewhere, to: worn.assignment.id, from: .now)
        for _ in 0..<3 { try await first.beat(worn.assignment, lost) }
        try await first.flush()
        // The clock of the running boot may still be set.
        #expect(try await first.totals().clockUnknown == 0)
        try await first.close()

        let clock = ManualClock()
        let second = try await store.open(clock, bootID: "boot-2")
        try await second.noteClock(clock.read())
        try await second.beat(worn.assignment, clock)
        try await second.flush()
        let totals = try await second.totals()
        #expect(totals.clockUnknown == 3, "each once, whoever waits for it")
        #expect(totals.pending == [worn.enrollment.id: 1, elsewhere: 1])

        try await second.release(bootID: "boot-1", wallOffset: .seconds(1_796_000_000))
        #expect(try await second.totals().clockUnknown == 0)
        #expect(try await second.deliverAll(worn.enrollment.id).count == 4)
    }

    @Test func samplesWithoutAnEnrollmentAreNotAlsoCountedAsWithoutATime() async throws {
        let lost = ManualClock(isTrusted: false)
        let first = try await store.open(lost, bootID: "boot-1")
        let sensor = try await first.addSensor(address: "C0:00:00:00:00:01")
        let assignment = try await first.assign(
            sensor: sensor.id, enrollment: nil, patient: nil, since: nil)
        try await first.beat(assignment, lost)
        try await first.close()
        let second = try await store.open(ManualClock(), bootID: "boot-2")
        let totals = try await second.totals()
        #expect(totals.notEnrolled == 1 && totals.clockUnknown == 0)
    }

    @Test func aSecondRunOfTheSameBootInheritsItsOffset() async throws {
        let clock = ManualClock()
        try await store.open(clock).close()
        clock.set { $0.isTrusted = false }
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        try await queue.beat(worn.assignment, clock)
        try await queue.flush()
        let batch = try await queue.nextBatch(enrollment: worn.enrollment.id, limit: 9)
        #expect(batch.map(\.time) == [clock.read().wall])
    }

    @Test func absurdClocksDoNotTrap() async throws {
        let clock = ManualClock()
        clock.set {
            $0 = ClockReading(
                uptime: Uptime(microseconds: .max), wall: UTC(microseconds: .min), isTrusted: true)
        }
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        try await queue.beat(worn.assignment, clock)
        clock.set { $0.isTrusted = false }
        try await queue.beat(worn.assignment, clock)
        try await queue.flush()
        _ = try await queue.deliverAll(worn.enrollment.id)
        try await queue.prune()
        #expect(try await queue.balance().isBalanced)
    }

    /// The year 1970 would be trusted, and with it every sample of the boot.
    @Test func aClockThatIsSetWhileItIsReadIsNotTrusted() {
        var states: [Duration?] = [nil, .zero]
        let reading = SystemClock.read(
            .kernel, uptime: { Uptime(microseconds: 7) },
            wall: { UTC(microseconds: 1_796_083_200_000_000) },
            error: { states.removeFirst() })
        #expect(!reading.isTrusted)
        states = [.zero, nil]
        let lost = SystemClock.read(
            .kernel, uptime: { Uptime(microseconds: 7) },
            wall: { UTC(microseconds: 1_796_083_200_000_000) },
            error: { states.removeFirst() })
        #expect(!lost.isTrusted && states.isEmpty)
    }

    @Test func aPauseBetweenTheTwoClocksIsNoTimeBetweenThem() {
        // 300 ms pass between the first looks at the one and the other.
        var uptimes: [Int64] = [1_000, 301_000, 301_002]
        var walls: [Int64] = [1_796_083_200_300_000, 1_796_083_200_300_001]
        let reading = SystemClock.read(
            .always, uptime: { Uptime(microseconds: uptimes.removeFirst()) },
            wall: { UTC(microseconds: walls.removeFirst()) },
            error: { nil })
        #expect(reading.isTrusted)
        #expect(
            reading.wall - .epoch - (reading.uptime - .zero) == .microseconds(1_796_083_199_999_001)
        )
    }

    /// What such a clock dated stayed at the exchange for good.
    @Test func aClockBeyondTheYearsOfThisProgramIsNotTrusted() {
        let end = ClockTrust.end(ofYear: 2031)
        #expect(end == UTC(microseconds: 1_956_528_000_000_000))
        func isTrusted(_ wall: UTC, before end: UTC) -> Bool {
            SystemClock.read(
                .always, in: ClockTrust.earliestCredible..<end, uptime: { .zero }, wall: { wall },
                error: { .zero }
            ).isTrusted
        }
        #expect(isTrusted(end - .seconds(1), before: end))
        for late in [end, ClockTrust.end(ofYear: 2037), ClockTrust.end(ofYear: 2099)] {
            #expect(!isTrusted(late, before: end))
            // A person may say otherwise.
            #expect(isTrusted(late, before: ClockTrust.end(ofYear: 2199)))
        }
    }

    /// chrony without `rtcsync` leaves the kernel's flag set.
    @Test func aClockIsSynchronisedByTheRuleOfTimedatectl() {
        #expect(KernelTime.error(maxError: 10_000) == .milliseconds(10))
        #expect(KernelTime.error(maxError: 15_999_999) != nil)
        #expect(KernelTime.error(maxError: 16_000_000) == nil)
    }

    @Test func theMachinesOwnClockReads() throws {
        let first = SystemClock(trust: .always).read()
        let second = SystemClock(trust: .kernel).read()
        #expect(first.uptime > .zero)
        #expect(second.uptime >= first.uptime)
        #expect(abs((first.wall - .epoch).inSeconds - Date().timeIntervalSince1970) < 60)
        let credible = first.wall >= ClockTrust.earliestCredible
        #expect(first.isTrusted == credible)
        if second.isTrusted { #expect(first.isTrusted) }
        let uptime = try String(contentsOfFile: "/proc/uptime", encoding: .utf8)
        let seconds = try #require(Double(uptime.prefix { $0 != " " }))
        #expect(abs(seconds - (second.uptime - .zero).inSeconds) < 60)
        #expect(BootID.current()?.count == 36)
    }
}
