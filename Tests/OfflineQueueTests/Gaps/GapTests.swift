import Basics
import Foundation
import GRDB
import Testing

@testable import OfflineQueue

@Suite("Time without samples, as the store tells it")
struct GapTests {
    let store: TestStore
    let clock = ManualClock()

    init() throws { store = try TestStore() }

    /// "seconds cause", "…" for what goes on.
    private func told(_ queue: SampleQueue, _ assignment: Assignment) async throws -> [String] {
        try await queue.gaps(assignment: assignment.id).map { gap in
            let seconds = gap.duration.map { "\($0.inSeconds)" } ?? "?"
            return "\(seconds) \(gap.cause.rawValue)\(gap.isOpen ? "…" : "")"
        }
    }

    private func stream(
        _ queue: SampleQueue, _ assignments: [Assignment], seconds: Int
    ) async throws {
        for _ in 0..<seconds {
            for assignment in assignments { try await queue.beat(assignment, clock) }
            clock.advance(seconds: 1)
            await queue.commitIfDue()
        }
    }

    @Test func anOrderlyStopIsExactAndTheRestIsTheGatewaysOwn() async throws {
        var queue = try await store.open(clock)
        let worn = try await Worn(queue)
        try await stream(queue, [worn.assignment], seconds: 10)
        await queue.note(.linkLost, of: worn.assignment.sensorID, at: clock.read().uptime)
        clock.advance(seconds: 20)
        #expect(try await told(queue, worn.assignment) == ["21.0 link-lost…"])
        try await queue.close()
        clock.advance(seconds: 7.5)
        queue = try await store.open(clock)
        clock.advance(seconds: 30)
        #expect(
            try await told(queue, worn.assignment) == [
                "21.0 link-lost", "7.5 gateway-off", "30.0 silent…",
            ])
    }

    /// It was said to be the strap's silence.
    @Test(arguments: [false, true])
    func theTimeOfASuspensionIsTheGatewaysOwn(losesLink: Bool) async throws {
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        try await stream(queue, [worn.assignment], seconds: 10)
        clock.suspend(seconds: 3_600)
        clock.advance(seconds: 1)
        if losesLink {
            await queue.note(.linkLost, of: worn.assignment.sensorID, at: clock.read().uptime)
            clock.advance(seconds: 9)
        }
        _ = await queue.tend()
        let off = "3602.0 gateway-off"
        #expect(
            try await told(queue, worn.assignment)
                == (losesLink ? [off, "9.0 link-lost…"] : [off + "…"]))
        try await stream(queue, [worn.assignment], seconds: 10)
        #expect(
            try await told(queue, worn.assignment) == (losesLink ? [off, "9.0 link-lost"] : [off]))
        #expect(try await queue.audit().isClean)
        try await queue.close()
    }

    @Test func aFloodAfterASilenceIsDataAlsoWhereTheGapIsStoredAlready() async throws {
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        try await stream(queue, [worn.assignment], seconds: 10)
        let begin = clock.read()
        for second in 0..<130 {
            if second == 12 {
                await queue.note(
                    .daemonGone, of: worn.assignment.sensorID, at: clock.read().uptime)
            }
            clock.advance(seconds: 1)
            await queue.commitIfDue()
        }
        #expect(try await !queue.gaps(assignment: worn.assignment.id).isEmpty)
        await queue.note(nil, of: worn.assignment.sensorID, at: clock.read().uptime)
        let now = clock.read()
        for second in 0..<130 {
            let uptime = begin.uptime + .seconds(second)
            try await queue.append(
                Arrival(
                    sensorID: worn.assignment.sensorID, at: now.at(uptime), frame: [0, 60],
                    uncertainty: .milliseconds(250), isRebuilt: true))
        }
        try await queue.flush()
        try await stream(queue, [worn.assignment], seconds: 5)
        #expect(try await told(queue, worn.assignment) == [])
        #expect(try await queue.audit().isClean)
        try await queue.close()
    }

    /// It became one gap of eight hours, with its last cause.
    @Test(
        arguments: [
            (1, ["61.0 link-lost", "28800.0 adapter-down", "69.0 no-contact"]),
            (27_940, ["61.0 link-lost", "930.0 adapter-down", "27940.0 no-contact…"]),
            (28_900, ["31.0 link-lost", "28900.0 no-contact…"]),
        ] as [(Int, [String])])
    func theNightBeforeALateSampleIsToldAsBefore(seconds: Int, expected: [String]) async throws {
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        try await stream(queue, [worn.assignment], seconds: 10)
        try await queue.flush()
        let night: [(GapCause, Double)] = [
            (.linkLost, 60), (.adapterDown, 28_800), (.noContact, 70),
        ]
        for (cause, length) in night {
            await queue.note(cause, of: worn.assignment.sensorID, at: clock.read().uptime)
            clock.advance(seconds: length)
            await queue.commitIfDue()
        }
        #expect(try store.number("SELECT count(*) FROM gap") == 3)
        let sent = clock.read().at(clock.read().uptime - .seconds(seconds))
        try await queue.append(
            Arrival(
                sensorID: worn.assignment.sensorID, at: sent, frame: [0, 60],
                uncertainty: .seconds(2), isRebuilt: true))
        try await queue.flush()
        #expect(try await told(queue, worn.assignment) == expected)
        #expect(try await queue.audit().isClean)
        try await queue.close()
    }

    /// Frames gather for seconds before the store gets them: a strap that sent all the while looked silent.
    @Test func timeFromWhichFramesMayStillComeIsNoGapYet() async throws {
        var settings = QueueSettings()
        settings.framesUnderWayMax = .seconds(4.5)
        let queue = try await store.open(clock, settings: settings)
        let worn = try await Worn(queue)
        let other = try await Worn(queue, 2)
        try await queue.beat(worn.assignment, clock)
        try await queue.flush()
        clock.advance(seconds: 5)
        // What another strap sent soon after is written because a delivery is about to fetch, or one is paired.
        let now = clock.read()
        try await queue.append(
            Arrival(
                sensorID: other.assignment.sensorID, at: now.at(now.uptime - .seconds(4)),
                frame: [0, 60]))
        try await queue.flush()
        #expect(try await told(queue, worn.assignment) == [])
        #expect(try store.number("SELECT count(*) FROM gap") == 0)
        // What came meanwhile comes now.
        for second in -4...0 {
            try await queue.append(
                Arrival(
                    sensorID: worn.assignment.sensorID, at: now.at(now.uptime + .seconds(second)),
                    frame: [0, 60]))
        }
        try await queue.flush()
        clock.advance(seconds: 7.4)
        #expect(try await told(queue, worn.assignment) == [])
        clock.advance(seconds: 0.2)
        #expect(try await told(queue, worn.assignment) == ["7.6 silent…"])
        try await queue.flush()
        #expect(try await queue.audit().isClean)
        try await queue.close()
    }

    /// A band that sent 255 all day had a coverage of 100 %.
    @Test func framesWithoutAHeartRateAreKeptAndCoverNoTime() async throws {
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        try await stream(queue, [worn.assignment], seconds: 10)
        for _ in 0..<20 {
            try await queue.append(
                Arrival(
                    sensorID: worn.assignment.sensorID, at: clock.read(), frame: [0, 255],
                    lacking: .noRate))
            clock.advance(seconds: 1)
        }
        try await stream(queue, [worn.assignment], seconds: 10)
        try await queue.flush()
        #expect(try await told(queue, worn.assignment) == ["21.0 no-rate"])
        #expect(try await queue.balance().stored == 40)
        #expect(try await queue.audit().isClean)
        try await queue.close()
    }

    /// They went to the day of the boot, and the next frame began a segment anew.
    @Test func copiesThatAreCountedAloneBeginNoSegment() async throws {
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        try await stream(queue, [worn.assignment], seconds: 10)
        await queue.note(copies: 9, of: worn.assignment.sensorID)
        try await queue.flush()
        try await stream(queue, [worn.assignment], seconds: 10)
        try await queue.close()
        #expect(try store.number("SELECT count(*) FROM segment") == 1)
    }

    @Test func copiesAreReceivedAndCountedAsDoubled() async throws {
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        try await stream(queue, [worn.assignment], seconds: 10)
        await queue.note(copies: 9, of: worn.assignment.sensorID)
        try await queue.flush()
        let balance = try await queue.balance()
        #expect(balance.doubled == 9 && balance.received == 19 && balance.isBalanced)
        #expect(try await queue.audit().isClean)
        try await queue.close()
        let again = try await store.open(clock)
        #expect(try await again.balance().doubled == 9)
        try await again.close()
    }

    /// It is stamped when it arrives, and may reach the store after a commit that called the silence
    /// before it a gap. Once every further commit failed then: "UNIQUE constraint failed".
    @Test func aFrameThatReachesTheStoreLateLeavesNoGapThatNeverEnds() async throws {
        let queue = try await store.open(clock)
        let late = try await Worn(queue, 1)
        let other = try await Worn(queue, 2)
        try await stream(queue, [late.assignment, other.assignment], seconds: 10)
        try await queue.flush()
        clock.advance(seconds: 1.9)
        let stamped = clock.read()
        clock.advance(seconds: 0.3)
        try await queue.beat(other.assignment, clock)
        try await queue.flush()
        try await queue.append(
            Arrival(sensorID: late.assignment.sensorID, at: stamped, frame: [0, 60]))
        try await queue.flush()
        #expect(try store.number("SELECT count(*) FROM gap WHERE until_boot IS NULL") == 0)
        clock.advance(seconds: 8)
        try await queue.beat(other.assignment, clock)
        try await queue.flush()
        #expect(try await told(queue, late.assignment) == ["8.3 silent…"])
        #expect(try await queue.audit().isClean)
    }

    @Test func afterAPowerCutTheGapBeginsWhereTheRunWasLastKnownToLive() async throws {
        var queue = try await store.open(clock, bootID: "boot-1")
        let one = try await Worn(queue, 1)
        let two = try await Worn(queue, 2)
        await queue.note(.outOfRange, of: two.assignment.sensorID, at: clock.read().uptime)
        try await stream(queue, [one.assignment], seconds: 11)
        // Two groups of 5 s are durable, the last frame of them came 10 s after the beginning.
        try await queue.abandon()
        clock.advance(seconds: 300)
        clock.set { $0.uptime = Uptime(microseconds: 9_000_000) }
        queue = try await store.open(clock, bootID: "boot-2")
        let alive = try store.number("SELECT max(last_uptime_us) FROM segment") - 100_000_000
        let off = Double(311_000_000 - alive) / 1e6
        #expect(try await told(queue, one.assignment) == ["\(off) gateway-off"])
        #expect(
            try await told(queue, two.assignment) == [
                "\(Double(alive) / 1e6) out-of-range", "\(off) gateway-off",
            ])
    }

    @Test func withoutCommitsTheRunSaysOnceAMinuteThatItLives() async throws {
        var queue = try await store.open(clock)
        let worn = try await Worn(queue)
        try await queue.beat(worn.assignment, clock)
        try await queue.flush()
        await queue.note(.adapterDown, of: worn.assignment.sensorID, at: clock.read().uptime)
        let before = try await queue.changes()
        for _ in 0..<630 {
            clock.advance(seconds: 1)
            await queue.commitIfDue()
        }
        #expect(try await queue.changes() - before <= 10 * 3)
        try await queue.abandon()
        clock.advance(seconds: 100)
        queue = try await store.open(clock)
        #expect(
            try await told(queue, worn.assignment) == ["600.0 adapter-down", "130.0 gateway-off"])
    }

    @Test func timeAcrossBootsIsKnownOnlyIfBothClocksAreTrusted() async throws {
        clock.set { $0.isTrusted = false }
        var queue = try await store.open(clock, bootID: "boot-1")
        let worn = try await Worn(queue)
        try await stream(queue, [worn.assignment], seconds: 5)
        try await queue.close()
        let offset = WallOffset(utc: clock.read().wall, uptime: clock.read().uptime)
        clock.advance(seconds: 600)
        clock.set { $0.uptime = Uptime(microseconds: 30_000_000) }
        queue = try await store.open(clock, bootID: "boot-2")
        #expect(try await told(queue, worn.assignment) == ["? clock-unknown"])
        clock.set { $0.isTrusted = true }
        try await queue.noteClock(clock.read())
        #expect(try await told(queue, worn.assignment) == ["? clock-unknown"])
        try await queue.release(bootID: "boot-1", wallOffset: offset.duration)
        #expect(try await told(queue, worn.assignment) == ["600.0 gateway-off"])
        // The span that is asked for is one of UTC.
        #expect(
            try await queue.gaps(since: clock.read().wall + .microseconds(1)).isEmpty)
        #expect(
            try await queue.gaps(until: clock.read().wall - .seconds(700)).isEmpty)
        #expect(
            try await queue.gaps(since: clock.read().wall - .microseconds(1)).count == 1)
    }

    /// The page showed the oldest of a day, and no gaps in its last hours.
    @Test func ofManyGapsTheNewestCanBeAskedFor() async throws {
        let queue = try await store.open(clock)
        let one = try await Worn(queue, 1)
        for _ in 0..<5 {
            try await stream(queue, [one.assignment], seconds: 5)
            clock.advance(seconds: 9)
        }
        try await stream(queue, [one.assignment], seconds: 5)
        let all = try await queue.gaps()
        #expect(all.count == 5)
        #expect(try await queue.gaps(limit: 2, isNewest: true) == Array(all.suffix(2)))
        #expect(try await queue.gaps(limit: 2) == Array(all.prefix(2)))
    }

    /// All of its day was told as without data, since its end has no time.
    @Test func timeBeforeAJumpOfTheClockIsCovered() async throws {
        let queue = try await store.open(clock)
        let one = try await Worn(queue, 1)
        try await stream(queue, [one.assignment], seconds: 600)
        clock.set { $0.wall += .seconds(2 * 365 * 86_400) }
        try await stream(queue, [one.assignment], seconds: 60)
        let coverage = try await queue.coverage(
            of: .everything, dayStartingAt: ManualClock.midnight)
        #expect((598...601).contains(coverage.coveredSeconds), "\(coverage)")
    }

    @Test func theLedgerEndsWithTheAssignment() async throws {
        let queue = try await store.open(clock)
        let one = try await Worn(queue, 1)
        try await stream(queue, [one.assignment], seconds: 5)
        await queue.note(.linkLost, of: one.assignment.sensorID, at: clock.read().uptime)
        clock.advance(seconds: 9)
        let delivery = try await queue.enroll(.example("next", patient: "p-9"))
        let next = try await queue.assign(sensor: one.sensor.id, enrollment: delivery.id)
        clock.advance(seconds: 50)
        await queue.note(.silent, of: one.assignment.sensorID, at: clock.read().uptime)
        #expect(try await told(queue, one.assignment) == ["10.0 link-lost"])
        // It is the same strap: the link is as lost as before.
        #expect(try await told(queue, next) == ["50.0 link-lost…"])
        try await queue.forgetSensor(one.sensor.id)
        clock.advance(seconds: 50)
        #expect(try await told(queue, next) == ["50.0 link-lost"])
        let all = try await queue.gaps(limit: 1)
        #expect(all.map(\.sensorID) == [one.sensor.id] && all.first?.assignmentID == 1)
    }

    /// A strap that sends every five seconds was silent at each of them, until the gateway was restarted.
    @Test func aStrapThatSendsRarelyIsNotSilentForItsNextWearer() async throws {
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        func stream(_ assignment: Assignment) async throws {
            for _ in 0..<10 {
                try await queue.beat(assignment, clock)
                clock.advance(seconds: 5)
                await queue.commitIfDue()
            }
        }
        await queue.note(cadence: .seconds(5), of: worn.sensor.id, at: clock.read().uptime)
        try await stream(worn.assignment)
        let delivery = try await queue.enroll(.example("next", patient: "p-9"))
        let next = try await queue.assign(sensor: worn.sensor.id, enrollment: delivery.id)
        try await stream(next)
        #expect(try await queue.gaps().isEmpty)
        try await queue.close()
    }

    /// A strap was forgotten and the power was cut: the gateway counted as switched off before its assignment ended.
    @Test func aStrapForgottenBeforeAPowerCutHasNoGap() async throws {
        var settings = QueueSettings()
        settings.framesUnderWayMax = .seconds(4.5)
        var queue = try await store.open(clock, settings: settings)
        let worn = try await Worn(queue)
        try await stream(queue, [worn.assignment], seconds: 10)
        clock.advance(seconds: 0.5)
        let end = clock.read().uptime
        try await queue.forgetSensor(worn.sensor.id)
        _ = try await Worn(queue, 2)
        try await queue.abandon()
        clock.advance(seconds: 100)
        queue = try await store.open(clock, settings: settings)
        #expect(try await told(queue, worn.assignment) == [])
        let assignments = try await queue.assignments()
        #expect(assignments.map(\.isOpen) == [false, true])
        #expect(
            try store.number("SELECT ended_uptime_us FROM assignment WHERE id = 1")
                == end.microseconds)
    }

    @Test func aDayAddsUp() async throws {
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        let day = clock.read().wall  // midnight
        try await stream(queue, [worn.assignment], seconds: 100)
        await queue.note(.linkLost, of: worn.assignment.sensorID, at: clock.read().uptime)
        clock.advance(seconds: 100)
        await queue.note(.outOfRange, of: worn.assignment.sensorID, at: clock.read().uptime)
        clock.advance(seconds: 86_300)
        let first = try await queue.coverage(
            of: .sensor(worn.sensor.id), dayStartingAt: day)
        #expect(first.expectedSeconds == 86_400 && first.coveredSeconds == 99)
        #expect(first.secondsByCause == [.linkLost: 101, .outOfRange: 86_200])
        #expect(first.longestGapSeconds == 86_301)
        #expect(first.percent.map { abs($0 - 9_900.0 / 86_400) < 1e-9 } == true)
        let second = try await queue.coverage(
            of: .assignment(worn.assignment.id),
            dayStartingAt: day + Coverage.day)
        #expect(second.expectedSeconds == 100 && second.percent == 0)
        let earlier = try await queue.coverage(
            of: .everything, dayStartingAt: UTC(microseconds: .min))
        #expect(earlier.expectedSeconds == 0 && earlier.percent == nil)
        _ = try await queue.coverage(of: .everything, dayStartingAt: UTC(microseconds: .max))
    }

    @Test func aFrameThatCannotBeStoredIsAGapAndSaysSo() async throws {
        var settings = QueueSettings()
        settings.bufferedSamplesMax = 3
        settings.commitAgeMax = .microseconds(Int64.max)
        let queue = try await store.open(clock, settings: settings)
        let worn = try await Worn(queue)
        for _ in 0..<20 {
            try await queue.beat(worn.assignment, clock)
            clock.advance(seconds: 1)
        }
        #expect(try await told(queue, worn.assignment) == ["18.0 queue-full…"])
        try await queue.flush()
        try await queue.beat(worn.assignment, clock)
        #expect(try await told(queue, worn.assignment) == ["18.0 queue-full"])
    }

    /// The disk took the end of an assignment, and not the samples before it.
    @Test func noAssignmentEndsBeforeItsSamplesAreStored() async throws {
        var settings = QueueSettings()
        settings.pageCountMax = 120
        var queue = try await store.open(clock, settings: settings)
        let worn = try await Worn(queue)
        while await queue.health().fault == nil {
            try await stream(queue, [worn.assignment], seconds: 1)
        }
        try await stream(queue, [worn.assignment], seconds: 40)
        let stored = try await queue.balance().stored
        let buffered = try await queue.balance().buffered
        let refusal = await #expect(throws: QueueError.self) {
            try await queue.forgetSensor(worn.sensor.id)
        }
        #expect(refusal?.code == .diskFull)
        #expect(try await queue.balance().buffered == buffered)
        #expect(try await queue.openAssignments() == [worn.assignment])
        try await queue.deliverAll(worn.enrollment.id)
        clock.advance(seconds: 3 * 86_400)
        try await queue.prune()
        try await queue.forgetSensor(worn.sensor.id)
        try await queue.close()
        queue = try await store.open(clock)
        #expect(try await queue.balance().stored == stored + buffered)
        #expect(try await queue.openAssignments().isEmpty)
    }

    @Test func strapsThatSendCostNoGapAndFewBytes() async throws {
        let queue = try await store.open(clock)
        var assignments: [Assignment] = []
        for number in 1...8 { assignments.append(try await Worn(queue, number).assignment) }
        try await queue.checkpoint()
        let before = try walBytes()
        try await stream(queue, assignments, seconds: 500)
        try await queue.flush()
        #expect(try store.number("SELECT count(*) FROM gap") == 0)
        let bytes = try Double(walBytes() - before) / (500 * 8)
        print("offline queue: \(Int(bytes)) bytes of log a sample")
        #expect(bytes < 400)
    }

    private func walBytes() throws -> Int {
        let attributes = try FileManager.default.attributesOfItem(atPath: store.path + "-wal")
        return (attributes[.size] as? NSNumber)?.intValue ?? 0
    }
}

extension SampleQueue {
    /// Rows changed since the store was opened: what the disk had to take.
    func changes() throws -> Int { try store.database.read { $0.totalChangesCount } }

    func checkpoint() throws {
        try emptyLog()
    }
}
