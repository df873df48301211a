import Basics
import Foundation
import OfflineQueue
import Testbed
import Testing

@testable import Uplink

/// Eight straps of eight patients, each with a delivery, on a store in a file: what it commits, and how old
/// samples are when they are sent.
@Suite struct SharedCommitTests {
    private static let straps = 8
    private static let step = Duration.milliseconds(50)
    /// How long notifications gather: while only the store waits for them, and while somebody else does.
    private static let gatherPauses = [Duration.milliseconds(4_500), .milliseconds(500)]

    @Test(arguments: gatherPauses)
    func deliveriesThatBeginTogetherShareTheCommitsThatAreMadeAnyway(
        gatherPause: Duration
    ) async throws {
        var ward = try await Ward(
            starts: Array(repeating: .zero, count: Self.straps), gatherPause: gatherPause)
        let (commits, oldest, requests) = try await ward.minutes(3)
        #expect((36...48).contains(commits), "one each 4.5 to 5 s, few for outcomes alone")
        #expect(oldest <= .milliseconds(5_500))
        #expect(requests <= commits * Self.straps)
        try await ward.queue.close()
    }

    /// A delivery that fetched just before a commit left what was new in it until the next one, once in ten minutes.
    @Test(arguments: gatherPauses, [UInt64](1...20).map { $0 * 1_000 } + [17_000, 57_000, 117_000])
    func deliveriesThatBeginAtDifferentTimesKeepStepSoon(
        gatherPause: Duration, seed: UInt64
    ) async throws {
        var ward = try await Ward(
            starts: (0..<Self.straps).map { .milliseconds(620) * $0 }, gatherPause: gatherPause,
            seed: seed)
        let (commits, oldest, _) = try await ward.minutes(3)
        #expect((36...48).contains(commits), "one each 4.5 to 5 s, few for outcomes alone")
        #expect(oldest <= .milliseconds(5_500))
        try await ward.queue.close()
    }

    @Test(arguments: gatherPauses)
    func aDeliveryAtAnIntervalOfTenSecondsKeepsStepWithEverySecondCommit(
        gatherPause: Duration
    ) async throws {
        var slow = DeliverySettings.brisk
        slow.shortestInterval = .seconds(10)
        var ward = try await Ward(
            starts: Array(repeating: .zero, count: Self.straps), gatherPause: gatherPause,
            settings: [0: slow])
        let (commits, _, _) = try await ward.minutes(3)
        #expect((36...48).contains(commits))
        let requests = await ward.deliveries[0].destination.sentAt
        let pauses = zip(requests, requests.dropFirst()).map { $1 - $0 }
        #expect(pauses.allSatisfy { (.seconds(9)...(.seconds(10))).contains($0) }, "\(pauses)")
        try await ward.queue.close()
    }

    /// Notes how old samples are when they come.
    private actor AgeingDestination: Destination {
        nonisolated let mayRace = false
        private let clock: StillClock
        private(set) var oldest = Duration.zero
        private(set) var sentAt: [Uptime] = []

        init(_ clock: StillClock) { self.clock = clock }

        func forget() { (oldest, sentAt) = (.zero, []) }

        func deliver(_ points: [OutgoingPoint], alone: Bool) async -> DeliveryAnswer {
            let now = clock.read()
            sentAt.append(now.uptime)
            for point in points {
                if case .heartRate(_, let time) = point.point.content {
                    oldest = max(oldest, now.wall - time)
                }
            }
            return .entries(points.map { _ in EntryAnswer(.stored) })
        }

        func isHealthy() async -> Bool { true }
        func isMended(_ reason: HoldReason) async -> Bool { true }
    }

    private struct OneDelivery {
        let assignment: Assignment
        let runner: DeliveryRunner
        let destination: AgeingDestination
        let begins: Uptime
        /// When it goes on.
        var next: Uptime
    }

    /// The recorder, the store's maintenance and the deliveries of a gateway, by a clock of their own.
    private struct Ward {
        let scratch: Scratch
        let clock = StillClock(wall: UTC(microseconds: 1_795_334_400_000_000))
        let queue: SampleQueue
        private let newCommits = Box(0)
        private let gatherPause: Duration
        var deliveries: [OneDelivery] = []
        private var gathered: [Arrival] = []
        private var nextHandOver: Uptime
        private var nextTend: Uptime
        private var ticks = 0

        /// Each delivery's first fetch is so long after the start.
        init(
            starts: [Duration], gatherPause: Duration, settings: [Int: DeliverySettings] = [:],
            seed: UInt64 = 0
        ) async throws {
            self.gatherPause = gatherPause
            scratch = try Scratch()
            let start = clock.read().uptime
            queue = try SampleQueue(path: scratch.path + "/q.sqlite", clock: clock, bootID: "one")
            nextHandOver = start
            nextTend = start
            for (number, pause) in starts.enumerated() {
                let enrollment = try await queue.enroll(
                    EnrollmentTerms(
                        name: "e\(number)", origin: "https://exchange.example",
                        fhirBase: "https://exchange.example/FHIR/R5", patient: "\(number)",
                        device: "2", codeSystem: "s", code: "c", identifierSystem: "i"))
                let sensor = try await queue.addSensor(
                    address: "A0:9E:1A:00:00:0\(number)", details: SensorDetails())
                let assignment = try await queue.assign(
                    sensor: sensor.id, enrollment: enrollment.id)
                let destination = AgeingDestination(clock)
                let begins = start + .seconds(10) + pause
                deliveries.append(
                    OneDelivery(
                        assignment: assignment,
                        runner: DeliveryRunner(
                            enrollment: enrollment, queue: queue, destination: destination,
                            clock: clock, logger: .quiet, settings: settings[number] ?? .brisk,
                            seed: UInt64(number) &+ seed),
                        destination: destination, begins: begins, next: begins))
            }
            await queue.onCommit { [newCommits] in newCommits.change { $0 += 1 } }
        }

        /// Lets time pass, a minute to keep step first. Gives the commits in the log, the age of the oldest sample
        /// that was sent, and the number of requests.
        mutating func minutes(_ count: Int) async throws -> (Int, Duration, Int) {
            for _ in 0..<1200 { try await pass() }
            for delivery in deliveries { await delivery.destination.forget() }
            let before = try commitsInLog()
            for _ in 0..<(count * 1200) { try await pass() }
            var oldest = Duration.zero
            var requests = 0
            for delivery in deliveries {
                oldest = max(oldest, await delivery.destination.oldest)
                requests += await delivery.destination.sentAt.count
            }
            return (try commitsInLog() - before, oldest, requests)
        }

        private mutating func pass() async throws {
            clock.advance(by: step)
            ticks += 1
            let reading = clock.read()
            // Twenty ticks a second: the straps' frames lie an eighth of a second apart.
            for (number, delivery) in deliveries.enumerated() where ticks % 20 == number * 5 / 2 {
                gathered.append(
                    Arrival(sensorID: delivery.assignment.sensorID, at: reading, frame: [0, 70]))
            }
            // As a timer that is a little late.
            if reading.uptime >= nextTend + .milliseconds(20) { nextTend = await queue.tend().next }
            if reading.uptime >= nextHandOver, !gathered.isEmpty {
                try await queue.append(contentsOf: gathered)
                gathered = []
                nextHandOver = reading.uptime + gatherPause
            }
            for index in deliveries.indices where deliveries[index].next <= reading.uptime {
                deliveries[index].next = await deliveries[index].runner.advance()
                await tellOfCommits()
            }
            await tellOfCommits()
        }

        private mutating func tellOfCommits() async {
            guard newCommits.now > 0 else { return }
            newCommits.set(0)
            let now = clock.read().uptime
            for index in deliveries.indices where deliveries[index].begins <= now {
                await deliveries[index].runner.samplesCommitted(
                    turn: SharedFetches.turn(index, of: deliveries.count))
                deliveries[index].next = min(deliveries[index].next, now)
            }
        }

        /// Transactions in the write-ahead log: frames that say how large the file is after them, by SQLite's
        /// "The WAL-Index File Format"; the last of a transaction may be repeated.
        private func commitsInLog() throws -> Int {
            let log = try Data(contentsOf: URL(filePath: scratch.path + "/q.sqlite-wal"))
            func number(_ offset: Int) -> Int {
                log[offset..<offset + 4].reduce(0) { $0 << 8 | Int($1) }
            }
            let page = number(8)
            var (offset, commits, ended) = (32, 0, 0)
            while offset + 24 + page <= log.count, log[offset + 8..<offset + 16] == log[16..<24] {
                let isEnd = number(offset + 4) != 0
                if isEnd, number(offset) != ended { commits += 1 }
                ended = isEnd ? number(offset) : 0
                offset += 24 + page
            }
            return commits
        }
    }
}
