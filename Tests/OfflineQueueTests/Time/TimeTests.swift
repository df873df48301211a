import Basics
import Foundation
import Testing

@testable import OfflineQueue

/// What may happen to a gateway's clocks; see also ClockTests.
@Suite("Clocks that step, stop and come late")
struct TimeTests {
    let store: TestStore
    let midnight = ManualClock.midnight

    init() throws { store = try TestStore() }

    private func times(
        _ queue: SampleQueue, _ delivery: Int64
    ) async throws -> [Double] {
        try await queue.nextBatch(enrollment: delivery, limit: 1000).map {
            ($0.time - midnight).inSeconds
        }
    }

    /// A machine that boots in 1970 and is synchronised only after its gateway was restarted.
    @Test func lateSynchronisationDatesTheEarlierRunsOfItsBoot() async throws {
        let clock = ManualClock(isTrusted: false)
        clock.set { $0.wall = .epoch + .seconds(5) }
        var queue = try await store.open(clock)
        let worn = try await Worn(queue)
        for _ in 0..<3 {
            try await queue.beat(worn.assignment, clock)
            try await queue.flush()
            try await queue.abandon()
            clock.advance(seconds: 10)
            queue = try await store.open(clock)
        }
        #expect(try await queue.balance().held == ["clock-unknown": 3])
        clock.set {
            $0 = ClockReading(
                uptime: $0.uptime, wall: midnight + .seconds(100), isTrusted: true)
        }
        try await queue.noteClock(clock.read())
        #expect(try await times(queue, worn.enrollment.id) == [70, 80, 90])
        #expect(try await queue.untrustedBoots().isEmpty)
        // The gaps of that boot get their place as well.
        let gaps = try await queue.gaps(
            since: midnight, until: midnight + .seconds(200))
        #expect(gaps.map { $0.from.map { ($0 - midnight).inSeconds } } == [70, 80, 90])
    }

    /// Forward and back, by hours, and by the second that a leap second repeats.
    @Test(arguments: [3600, -3600, -1] as [Double])
    func aStepOfTheWallClockMovesOnlyWhatComesAfterIt(step: Double) async throws {
        let clock = ManualClock(isTrusted: false)
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        try await queue.beat(worn.assignment, clock)
        clock.advance(seconds: 1)
        clock.set { $0.isTrusted = true }
        try await queue.beat(worn.assignment, clock)
        clock.advance(seconds: 1)
        clock.set { $0.wall += .seconds(step) }
        try await queue.beat(worn.assignment, clock)
        clock.advance(seconds: 1)
        // No longer trusted: counted on from the newest time at which it was, the step's.
        clock.set { $0.isTrusted = false }
        try await queue.beat(worn.assignment, clock)
        try await queue.flush()
        #expect(try await times(queue, worn.enrollment.id) == [0, 1, 2 + step, 3 + step])
        let sent = try await queue.deliverAll(worn.enrollment.id)
        #expect(Set(sent.map(\.uuid)).count == 4)
        // No time passed that the uptime did not count: a step is no gap.
        #expect(try await queue.gaps().isEmpty)
    }

    /// Synchronised an hour ahead for six seconds, then right, then right for nine hours without a server.
    @Test func samplesWithoutAServerDoNotGoOutWithTheTimeOfAnOldClock() async throws {
        let clock = ManualClock(isTrusted: false)
        var queue = try await store.open(clock)
        let worn = try await Worn(queue)
        func record(_ seconds: Int) async throws {
            for _ in 0..<seconds {
                _ = await queue.tend()
                try await queue.beat(worn.assignment, clock)
                clock.advance(seconds: 1)
            }
            try await queue.flush()
        }
        clock.set {
            $0.wall += .seconds(3_600)
            $0.isTrusted = true
            $0.error = .milliseconds(30)
        }
        try await record(6)
        clock.set { $0.wall = $0.wall - .seconds(3_600) }
        try await record(2)
        clock.set { $0.isTrusted = false }
        try await record(3)
        #expect(
            try await times(queue, worn.enrollment.id)
                == [3600, 3601, 3602, 3603, 3604, 3605, 6, 7, 8, 9, 10])
        let step = try #require(await queue.health().clockSteps.last)
        #expect(step.size == .seconds(-3_600))
        #expect(step.at == .seconds(106))
        // The boot goes on, in another run.
        try await queue.close()
        queue = try await store.open(clock)
        #expect(await queue.health().clockSteps == [step])
        try await queue.beat(worn.assignment, clock)
        try await queue.flush()
        #expect(try await times(queue, worn.enrollment.id).last == 11)
        #expect(try await queue.audit().isClean)
    }

    @Test func samplesAroundAStepOfFortySecondsAreMarkedWithTheirUncertainty() async throws {
        let clock = ManualClock()
        clock.set { $0.error = .milliseconds(12) }
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        try await queue.beat(worn.assignment, clock)
        clock.advance(seconds: 1)
        // The server is gone, and the clock has gone wrong when it is back.
        clock.set { $0.isTrusted = false }
        try await queue.beat(worn.assignment, clock)
        try await queue.flush()
        clock.advance(seconds: 1)
        clock.set {
            $0.wall += .seconds(40)
            $0.isTrusted = true
        }
        try await queue.noteClock(clock.read())
        try await queue.beat(worn.assignment, clock)
        try await queue.flush()
        let sent = try await queue.nextBatch(enrollment: worn.enrollment.id, limit: 9)
        #expect(
            sent.map(\.timeUncertainty)
                == [.milliseconds(12), .milliseconds(40_013), .milliseconds(12)])
        #expect(
            try await queue.samples().reversed().map(\.timeUncertainty)
                == sent.map(\.timeUncertainty))
        let hour = try await queue.hourlyHeartRate(
            sensor: worn.sensor.id, until: midnight, hours: 1, needsContact: true)
        #expect(hour.map(\.timeUncertainty) == [.milliseconds(40_013)])
    }

    /// A frame that a hang had held up was delivered and exported as if only the clock could be wrong; so was one that came
    /// alone and may have been sent seconds before.
    @Test func aFrameThatMayHaveBeenSentEarlierIsAsUncertainAsItsTimeAndTheClockTogether()
        async throws
    {
        let clock = ManualClock()
        clock.set { $0.error = .milliseconds(12) }
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        // Sooner it might be the frame of whoever wore the strap before.
        clock.advance(seconds: 60)
        try await queue.append(
            Arrival(
                sensorID: worn.sensor.id, at: clock.read(), frame: [0, 60],
                uncertainty: .milliseconds(4_900)))
        clock.advance(seconds: 1)
        try await queue.append(
            Arrival(
                sensorID: worn.sensor.id, at: clock.read(), frame: [0, 60],
                uncertainty: .milliseconds(250)))
        clock.set { $0.isTrusted = false }
        clock.advance(seconds: 1)
        try await queue.append(
            Arrival(
                sensorID: worn.sensor.id, at: clock.read(), frame: [0, 61],
                uncertainty: .seconds(2), isRebuilt: true))
        try await queue.flush()
        let sent = try await queue.nextBatch(enrollment: worn.enrollment.id, limit: 9)
        #expect(
            sent.map(\.timeUncertainty) == [
                .milliseconds(4_912), .milliseconds(12), .milliseconds(2_013),
            ])
    }

    /// One commit had a step and, after it, a jump: the step gave the samples of the jump a time.
    @Test func aStepGivesNoTimeToWhatAJumpHoldsInTheSameCommit() async throws {
        let clock = ManualClock()
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        for ahead in [0, 40, 2 * 365 * 86_400] {
            try await queue.append(
                Arrival(
                    sensorID: worn.sensor.id,
                    at: ClockReading(
                        uptime: clock.read().uptime, wall: clock.read().wall + .seconds(ahead),
                        isTrusted: true), frame: [0, 60]))
            clock.advance(seconds: 1)
        }
        try await queue.flush()
        #expect(try await times(queue, worn.enrollment.id) == [0, 41])
        #expect(try await queue.balance().held == ["clock-unknown": 1])
    }

    /// A store with one sample, whose clock has jumped by the years that are the last value.
    private func jumped(_ clock: ManualClock) async throws -> (SampleQueue, Worn, Duration) {
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        try await queue.beat(worn.assignment, clock)
        try await queue.flush()
        clock.advance(seconds: 1)
        let years = Duration.seconds(2 * 365 * 86_400)
        clock.set { $0.wall += years }
        return (queue, worn, years)
    }

    /// The samples of the jump got their time, and nothing said that it may be wrong.
    @Test func aClockThatIsBackFromAJumpGivesWhatWasHeldItsTime() async throws {
        let clock = ManualClock()
        let (queue, worn, years) = try await jumped(clock)
        try await queue.beat(worn.assignment, clock)
        try await queue.flush()
        clock.advance(seconds: 1)
        clock.set { $0.wall = $0.wall - years + .seconds(40) }
        try await queue.beat(worn.assignment, clock)
        try await queue.flush()
        #expect(try await times(queue, worn.enrollment.id) == [0, 41, 42])
        #expect(await queue.health().clockSteps.map(\.size) == [.seconds(40)])
        #expect(try await queue.audit().isClean)
    }

    @Test func aJumpOfYearsHoldsWhatFollowsUntilAPersonSaysWhichDateIsRight() async throws {
        let clock = ManualClock()
        clock.set { $0.error = .milliseconds(12) }
        let (queue, worn, years) = try await jumped(clock)
        for _ in 0..<3 {
            try await queue.beat(worn.assignment, clock)
            clock.advance(seconds: 1)
        }
        try await queue.flush()
        #expect(try await times(queue, worn.enrollment.id) == [0])
        #expect(try await queue.balance().held == ["clock-unknown": 3])
        #expect(try await queue.totals().clockUnknown == 3, "status tells of them")
        #expect(await !queue.health().givesTimes)
        let boot = try #require(try await queue.untrustedBoots().first)
        #expect(boot.held == 3 && boot.isRunning)
        clock.set { $0.wall = $0.wall - years }
        try await queue.release(
            bootID: "boot-1", wallOffset: clock.read().wall - .epoch - (clock.read().uptime - .zero)
        )
        #expect(try await times(queue, worn.enrollment.id) == [0, 1, 2, 3])
        let sent = try await queue.nextBatch(enrollment: worn.enrollment.id, limit: 9)
        #expect(sent.map(\.timeUncertainty) == [.milliseconds(12), nil, nil, nil])
        #expect(try await queue.totals().clockUnknown == 0)
        #expect(try await queue.untrustedBoots().isEmpty)
    }

    /// A time server was forty days ahead: all that waited was dropped within ten minutes, and half a day was told as
    /// over.
    @Test func nothingAgesAndNoDayEndsWhileTheClockIsInDoubt() async throws {
        let clock = ManualClock()
        var settings = QueueSettings()
        settings.maxAge = .seconds(7 * 86_400)
        let queue = try await store.open(clock, settings: settings)
        let worn = try await Worn(queue)
        var terms = EnrollmentTerms.elsewhere()
        terms.keep = .seconds(30 * 86_400)
        let elsewhere = try await queue.enroll(terms).id
        try await queue.add(destination: elsewhere, to: worn.assignment.id, from: .now)
        try await queue.beat(worn.assignment, clock)
        try await queue.flush()
        clock.advance(seconds: 3_600)
        let days = Duration.seconds(40 * 86_400)
        clock.set { $0.wall += days }
        // It is remembered once it was looked at, and counts before that.
        for _ in 0..<2 {
            #expect(await queue.presentTime == nil)
            try await queue.prune()
            for destination in [worn.enrollment.id, elsewhere] {
                #expect(try await queue.balance(of: .enrollment(destination)).dropped.isEmpty)
                #expect(
                    try await queue.nextLedgerEntries(enrollment: destination, limit: 9).isEmpty)
            }
            try await queue.noteClock(clock.read())
        }
        clock.set { $0.wall = $0.wall - days }
        #expect(await queue.presentTime == clock.read().wall)
        clock.advance(seconds: 40 * 86_400)
        try await queue.noteClock(clock.read())
        try await queue.prune()
        #expect(try await queue.balance().dropped == [LossReason.maxAge.rawValue: 1])
        #expect(try await !queue.nextLedgerEntries(enrollment: elsewhere, limit: 9).isEmpty)
    }

    @Test func aPersonMayStateADateThatAClockInDoubtCallsTheFuture() async throws {
        let clock = ManualClock()
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        try await queue.beat(worn.assignment, clock)
        try await queue.flush()
        clock.advance(seconds: 1)
        let offset = WallOffset(utc: clock.read().wall, uptime: clock.read().uptime)
        clock.set { $0.wall = $0.wall - .seconds(20 * 86_400) }
        try await queue.beat(worn.assignment, clock)
        try await queue.flush()
        #expect(try await queue.balance().held == ["clock-unknown": 1])
        try await queue.release(bootID: "boot-1", wallOffset: offset.duration)
        #expect(try await times(queue, worn.enrollment.id) == [0, 1])
    }

    @Test func suspendIsTimeThatPassed() async throws {
        let clock = ManualClock(isTrusted: false)
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        try await queue.beat(worn.assignment, clock)
        clock.advance(seconds: 7200)
        try await queue.beat(worn.assignment, clock)
        clock.set { $0.isTrusted = true }
        try await queue.noteClock(clock.read())
        try await queue.flush()
        #expect(try await times(queue, worn.enrollment.id) == [0, 7200])
        #expect(try await queue.gaps().map(\.duration) == [.seconds(7_200)])
        let coverage = try await queue.coverage(
            of: .everything, dayStartingAt: midnight)
        #expect(coverage.expectedSeconds == 7200 && coverage.longestGapSeconds == 7200)
    }

    @Test func aBootThatNeverSynchronisedIsListedWithItsBounds() async throws {
        let clock = ManualClock()
        var queue = try await store.open(clock, bootID: "before")
        let worn = try await Worn(queue)
        try await queue.beat(worn.assignment, clock)
        try await queue.close()

        clock.advance(seconds: 3600)
        let trusted = clock.read()
        clock.set {
            $0 = ClockReading(
                uptime: .zero + .seconds(40), wall: .epoch, isTrusted: false)
        }
        queue = try await store.open(clock, bootID: "lost")
        try await queue.beat(worn.assignment, clock)
        clock.advance(seconds: 60)
        try await queue.beat(worn.assignment, clock)
        try await queue.flush()
        let running = try #require(try await queue.untrustedBoots().first)
        #expect(running.isRunning && running.latestOffset == nil)
        try await queue.close()

        clock.set {
            $0 = ClockReading(
                uptime: .zero + .seconds(20), wall: trusted.wall + .seconds(7_200),
                isTrusted: true)
        }
        queue = try await store.open(clock, bootID: "after")
        let boot = try #require(try await queue.untrustedBoots().first)
        #expect(boot.bootID == "lost" && !boot.isRunning && boot.held == 2)
        #expect(boot.uptimes == Uptime.zero + .seconds(40)...Uptime.zero + .seconds(100))
        // From the last frame of the boot before to the start of the one after.
        let sinceEpoch = midnight - .epoch
        #expect(boot.earliestOffset == sinceEpoch - .seconds(40))
        #expect(boot.latestOffset == sinceEpoch + .seconds(10_800) - .seconds(100))

        let delivery = worn.enrollment.id
        for offset in [
            .microseconds(Int64.max), .microseconds(Int64.min), .zero, .microseconds(-1),
            sinceEpoch + .seconds(10_800) - .microseconds(99_999_999),
            ClockTrust.earliestCredible - .epoch - .microseconds(40_000_001),
        ] as [Duration] {
            await #expect {
                try await queue.release(bootID: "lost", wallOffset: offset)
            } throws: {
                ($0 as? QueueError)?.code == .invalidArgument
            }
        }
        // What was refused changed nothing: not even as dead letters do they leave.
        #expect(try await queue.deliverAll(delivery).count == 1)
        #expect(try await queue.balance().held == ["clock-unknown": 2])
        #expect(try await queue.balance().dead == 0)
        try await queue.release(
            bootID: "lost", wallOffset: sinceEpoch + .seconds(5_000))
        #expect(try await times(queue, delivery) == [5040, 5100])
        await #expect {
            try await queue.release(bootID: "lost", wallOffset: sinceEpoch)
        } throws: {
            ($0 as? QueueError)?.code == .alreadySet
        }
        #expect(try await queue.untrustedBoots().isEmpty)
    }

    /// Summer time is a matter of those who look.
    @Test func theTimeZoneOfTheMachineChangesNothing() async throws {
        await #expect(processExitsWith: .success) {
            func offset() -> Int64 {
                let reading = SystemClock(trust: .always).read()
                return reading.wall.microseconds - reading.uptime.microseconds
            }
            let before = offset()
            for zone in ["Europe/Berlin", "Pacific/Kiritimati", "America/St_Johns"] {
                setenv("TZ", zone, 1)
                tzset()
                let isSame = abs(offset() - before) < 60_000_000
                if !isSame { exit(1) }
            }
        }
        // 2026-10-25, on which Europe's day has 25 hours.
        let clock = ManualClock()
        clock.set { $0.wall = midnight - Coverage.day * 40 }
        let queue = try await store.open(clock)
        _ = try await Worn(queue)
        clock.advance(seconds: 5 * 86_400)
        for day in -40 ..< -35 as Range<Int64> {
            let coverage = try await queue.coverage(
                of: .everything,
                dayStartingAt: midnight + Coverage.day * Int(day))
            #expect(coverage.expectedSeconds == 86_400)
        }
    }
}
