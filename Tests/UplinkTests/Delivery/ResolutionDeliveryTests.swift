import Basics
import Foundation
import GATTHeartRate
import Logging
import OfflineQueue
import Synchronization
import Testbed
import Testing

@testable import Uplink

/// A destination that keeps what it is sent, and checks that nothing changes from attempt to attempt.
private actor RecordingDestination: Destination {
    private(set) var stored: [String: OutgoingPoint] = [:]
    private(set) var changed: [String] = []
    private var seen: [String: OutgoingPoint] = [:]
    private var random: SeededRandom
    /// The chance of each kind of trouble.
    private let trouble: Double

    init(seed: UInt64, trouble: Double) {
        random = SeededRandom(seed: seed)
        self.trouble = trouble
    }

    func deliver(_ points: [OutgoingPoint], alone: Bool) async -> DeliveryAnswer {
        for point in points {
            let before = seen.updateValue(point, forKey: point.point.uuid)
            if let before, before != point { changed.append(point.point.uuid) }
        }
        switch Double.random(in: 0..<1, using: &random) {
        case ..<trouble: return .notSent(retryAt: nil)
        case ..<(2 * trouble): return .unanswered("timeout")
        case ..<(3 * trouble):
            // All of it is stored, and the answer is lost.
            _ = store(points)
            return .unanswered("timeout")
        case ..<(4 * trouble):
            let half = points.count / 2
            return .entries(
                store(Array(points[..<half]))
                    + points[half...].map { _ in Self.answer(422, "connection already closed") })
        default: return .entries(store(points))
        }
    }

    private func store(_ points: [OutgoingPoint]) -> [EntryAnswer] {
        points.map { point in
            stored.updateValue(point, forKey: point.point.uuid) == nil
                ? Self.answer(201) : Self.answer(409, "Identifier already exists")
        }
    }

    private static func answer(_ status: Int, _ text: String = "") -> EntryAnswer {
        EntryAnswer(status: status, diagnostics: text, endpoint: .bundle)
    }

    func mayTakeIntervals() async -> Bool { true }
    func isHealthy() async -> Bool { true }
    func isMended(_ reason: HoldReason) async -> Bool { true }
}

/// A gateway that records and delivers, and is started again at any moment.
private final class Gateway {
    let clock: StillClock
    let destination: RecordingDestination
    private let scratch: Scratch
    private let resolution: Resolution
    private(set) var queue: SampleQueue
    private var enrollment: Enrollment
    private(set) var assignments: [Assignment] = []
    private var runner: DeliveryRunner
    /// The measurements that are to go out, by sensor.
    private(set) var measured: [Int64: [(time: UTC, HeartRateMeasurement)]] = [:]

    init(_ resolution: Resolution, seed: UInt64, trouble: Double) async throws {
        scratch = try Scratch()
        clock = StillClock(wall: UTC(microseconds: ResolutionTests.minute) + .seconds(17))
        self.resolution = resolution
        queue = try await Self.open(scratch, clock)
        enrollment = try await queue.enroll(
            EnrollmentTerms(
                name: "e", origin: "https://exchange.example",
                fhirBase: "https://exchange.example/FHIR/R5", patient: "1", device: "2",
                codeSystem: "s", code: "c", identifierSystem: "i",
                resolution: resolution.rawValue))
        for number in 1...2 {
            let sensor = try await queue.addSensor(
                address: "A0:9E:1A:00:00:0\(number)", details: SensorDetails())
            let assignment = try await queue.assign(sensor: sensor.id, enrollment: enrollment.id)
            assignments.append(assignment)
        }
        destination = RecordingDestination(seed: seed, trouble: trouble)
        runner = Self.runner(enrollment, queue, destination, clock, nil)
    }

    /// A child process that another test starts just now holds the lock with us until it is another
    /// program: it is waited for.
    private static func open(_ scratch: Scratch, _ clock: StillClock) async throws -> SampleQueue {
        let deadline = ContinuousClock.now + .seconds(10)
        while true {
            do throws(QueueError) {
                return try SampleQueue(
                    path: scratch.path + "/q.sqlite", clock: clock, bootID: "one")
            } catch {
                guard error.code == .inUse, ContinuousClock.now < deadline else { throw error }
            }
            try await Task.sleep(for: .milliseconds(5))
        }
    }

    private static func runner(
        _ enrollment: Enrollment, _ queue: SampleQueue, _ destination: RecordingDestination,
        _ clock: StillClock, _ unanswered: Uptime?
    ) -> DeliveryRunner {
        var settings = DeliverySettings()
        settings.batchSamplesMax = 7
        return DeliveryRunner(
            enrollment: enrollment, queue: queue, destination: destination, clock: clock,
            logger: .quiet, settings: settings, unansweredSince: unanswered)
    }

    func restart() async throws {
        try await queue.close()
        queue = try await Self.open(scratch, clock)
        enrollment = try #require(try await queue.enrollments().first)
        runner = Self.runner(
            enrollment, queue, destination, clock,
            try await queue.unansweredRequest(enrollment: enrollment.id))
    }

    func record(_ frame: [UInt8], sensor: Int) async throws {
        let now = clock.read()
        try await queue.append(contentsOf: [
            Arrival(sensorID: assignments[sensor].sensorID, at: now, frame: frame)
        ])
        let measurement = try HeartRateMeasurement(frame: frame)
        if Plausibility.judge(measurement).isEmpty {
            measured[Int64(sensor) + 1, default: []].append((now.wall, measurement))
        }
    }

    func deliver() async { _ = await runner.advance() }

    /// Delivers until nothing is left.
    func drain() async throws {
        try await queue.flush()
        for _ in 0..<3000 {
            let next = await runner.advance()
            if try await queue.balance().unsent == 0 { return }
            clock.advance(to: next)
        }
        Issue.record("never drained: \(try await queue.balance())")
    }
}

@Suite struct ResolutionDeliveryTests {
    /// What is delivered is a function of what was recorded: not of the batches, the failures and the
    /// starts in between.
    @Test(arguments: [Resolution.raw, .tenSeconds, .sixtySeconds])
    func everyMeasurementIsInExactlyOneDataPointWhateverHappens(
        _ resolution: Resolution
    ) async throws {
        for seed in UInt64(1)...6 {
            var random = SeededRandom(seed: seed)
            let gateway = try await Gateway(resolution, seed: seed, trouble: 0.08)
            for _ in 0..<300 {
                gateway.clock.advance(
                    by: .microseconds(Int64.random(in: 200_000...2_500_000, using: &random)))
                let rr = (0..<Int.random(in: 0...2, using: &random)).flatMap { _ in
                    [UInt8.random(in: 0...255, using: &random), 3]
                }
                let bpm =
                    UInt8.random(in: 0..<20, using: &random) == 0
                    ? 0 : UInt8.random(in: 50...180, using: &random)
                try await gateway.record(
                    [rr.isEmpty ? 0 : 0x10, bpm] + rr,
                    sensor: Int.random(in: 0...1, using: &random))
                switch Int.random(in: 0..<60, using: &random) {
                case 0: try await gateway.restart()
                case 1...8: await gateway.deliver()
                case 9: gateway.clock.advance(by: .seconds(90))
                default: break
                }
            }
            try await gateway.drain()
            try await check(gateway, resolution, "seed \(seed)")
        }
    }

    private func check(
        _ gateway: Gateway, _ resolution: Resolution, _ seed: Comment
    ) async throws {
        #expect(await gateway.destination.changed.isEmpty, seed)
        let balance = try await gateway.queue.balance()
        #expect(balance.isBalanced && balance.dead == 0, seed)
        #expect(
            balance.delivered == gateway.measured.values.reduce(0) { $0 + $1.count }, seed)
        for (sensor, measured) in gateway.measured {
            let points = await gateway.destination.stored.values
                .filter { $0.sensorID == sensor }.map(\.point)
            var intervals: [UInt16: Int] = [:]
            var rates: [Range<UTC>: (count: Int, tenths: Int)] = [:]
            for point in points {
                switch point.content {
                case .interval(let ticks, _): intervals[ticks, default: 0] += 1
                case .heartRate(let bpm, let time):
                    let window = time..<time + .microseconds(1)
                    rates[window, default: (0, 0)].count += 1
                    rates[window, default: (0, 0)].tenths += bpm * 10
                case .averageHeartRate(let tenths, let count, let window):
                    rates[window, default: (0, 0)].count += count
                    rates[window, default: (0, 0)].tenths += tenths * count
                }
            }
            let sent = measured.flatMap(\.1.rrIntervals)
            #expect(intervals == Dictionary(grouping: sent) { $0 }.mapValues(\.count), seed)
            let expected = Dictionary(grouping: measured) {
                resolution.window(around: $0.time) ?? $0.time..<$0.time + .microseconds(1)
            }
            #expect(Set(rates.keys) == Set(expected.keys), seed)
            for (window, samples) in expected {
                let found = rates[window] ?? (0, 0)
                #expect(found.count == samples.count, seed)
                let sum = samples.reduce(0) { $0 + Int($1.1.bpm) * 10 }
                // Each data point of the window may be rounded by half a tenth.
                #expect(abs(found.tenths - sum) <= samples.count, seed)
            }
        }
    }

    @Test(
        "a backlog goes out in one go, however few data points a look into the store brings",
        arguments: [
            (.raw, 250, 3), (.tenSeconds, 2450, 3),
            // Of a segment 2,000 samples are read at a time, which are 33 minutes.
            (.sixtySeconds, 4500, 3),
        ] as [(Resolution, Int, Int)])
    func backlog(_ resolution: Resolution, samples: Int, requests: Int) async throws {
        let delivery = try await DeliveryFixture(samples: samples, resolution: resolution)
        let now = delivery.clock.read().uptime
        #expect(await delivery.runner.advance() == now + .seconds(30))
        #expect(await delivery.exchange.requests.count { $0.route == .bundle } == requests)
        try await delivery.queue.flush()
        // The last window may wait for its end.
        #expect(try await delivery.queue.balance().unsent < 180)
        await delivery.exchange.stop()
    }

    @Test func samplesOfABootWhoseClockIsTrustedLateMakeDataPointsOfTheirOwn() async throws {
        let delivery = try await DeliveryFixture(samples: 0, resolution: .sixtySeconds)
        // Recorded while the clock was not trusted.
        let untrusted = StillClock(
            uptime: delivery.clock.read().uptime, isTrusted: false)
        for second in 0..<30 {
            try await delivery.queue.append(contentsOf: [
                Arrival(
                    sensorID: delivery.assignment.sensorID,
                    at: untrusted.read().at(untrusted.read().uptime + .seconds(second)),
                    frame: [0, 60])
            ])
        }
        try await delivery.record(200)
        try await delivery.drain()
        let balance = try await delivery.queue.balance()
        #expect(balance.delivered == 230 && balance.isBalanced)
        let stored = await delivery.exchange.stored
        let counts = stored.compactMap {
            $0.dataPoint["header"]?["acquisition_rate"]?["number_of_times"]?.double
        }
        #expect(counts.reduce(0, +) == 230)
        #expect(await delivery.exchange.orphans == 0)
        await delivery.exchange.stop()
    }

    @Test(arguments: [Resolution.tenSeconds, .sixtySeconds])
    func windowsArriveExactlyOnceThroughLostAnswersAndADyingDatabase(
        _ resolution: Resolution
    ) async throws {
        let delivery = try await DeliveryFixture(samples: 900, resolution: resolution)
        await delivery.exchange.inject(.lostAnswer, on: [.bundle])
        await delivery.exchange.inject(.databaseLost(afterEntries: 3), on: [.bundle])
        await delivery.exchange.inject(.cutAnswer, on: [.bundle])
        try await delivery.drain()
        let seconds = Int(try #require(resolution.window) / .seconds(1))
        let stored = await delivery.exchange.stored
        #expect((900 / seconds...900 / seconds + 1).contains(stored.count))
        try await delivery.checkExactlyOnce(stored.count)
        #expect(try await delivery.queue.balance().delivered == 900)
        for observation in stored {
            let body = try #require(observation.dataPoint["body"])
            #expect(body["descriptive_statistic"]?.string == "average")
            let start = try #require(observation.effectiveTime)
            // "…:20.000Z": aligned to UTC.
            #expect(start.hasSuffix(resolution == .tenSeconds ? "0.000Z" : ":00.000Z"), "\(start)")
        }
        await delivery.exchange.stop()
    }

    @Test func aPoisonousWindowDiesWithAllItsSamplesAndHoldsNoOther() async throws {
        let delivery = try await DeliveryFixture(samples: 300, resolution: .tenSeconds)
        let first = try await delivery.queue.nextPending(
            enrollment: delivery.enrollment.id, limit: 30
        ).samples
        let groups = SampleGroup.complete(
            of: PendingRange(samples: first, isEnded: false), .tenSeconds, now: nil)
        let victim = try #require(groups.last)
        await delivery.exchange.poison(
            ExchangeIdentifier(
                system: "https://gw.example/ids",
                value: victim.samples[0].identity(of: .tenSecondAverage).description))
        try await delivery.drain()
        let balance = try await delivery.queue.balance()
        #expect(balance.dead == victim.samples.count)
        #expect(balance.delivered == 300 - victim.samples.count)
        #expect(balance.isBalanced)
        let letters = try await delivery.queue.deadLetters(limit: 100)
        #expect(Set(letters.map(\.reason)) == ["refused-400"])
        await delivery.exchange.stop()
    }

    @Test func twentySensorsOfOneDeliveryDoNotWaitForEachOther() async throws {
        let delivery = try await DeliveryFixture(samples: 0, resolution: .sixtySeconds)
        var assignments = [delivery.assignment]
        for number in 0..<39 {
            let sensor = try await delivery.queue.addSensor(
                address: "A0:9E:1A:00:01:\(number + 10)", details: SensorDetails())
            assignments.append(
                try await delivery.queue.assign(
                    sensor: sensor.id, enrollment: delivery.enrollment.id))
        }
        for _ in 0..<70 {
            delivery.clock.advance(by: .seconds(1))
            let now = delivery.clock.read()
            try await delivery.queue.append(
                contentsOf: assignments.map {
                    Arrival(sensorID: $0.sensorID, at: now, frame: [0, 70])
                })
        }
        try await delivery.drain()
        #expect(try await delivery.queue.balance().delivered == 2800)
        await delivery.exchange.stop()
    }
}
