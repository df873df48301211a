import Basics
import Foundation
import OfflineQueue
import Synchronization
import Testbed
import Testing

@testable import Uplink

/// A ward of gateways, relays as processes of their own, and a cluster of nats-server nodes.
///
/// The gateways' time passes only when relays and exchange have done what they had to do: on a busy machine their
/// pauses become longer, as the answers do.
@Suite struct RelayFleetTests {
    /// `RELAY_GATEWAYS`, `RELAY_SAMPLES` (of each gateway) and `RELAY_SEED` choose others.
    private static let gateways = number("RELAY_GATEWAYS") ?? 100
    private static let samplesEach = number("RELAY_SAMPLES") ?? 192
    private static let seed = UInt64(number("RELAY_SEED") ?? 1)
    /// What six straps record in the 4 s from one delivery to the next.
    private static let samplesInRequest = 24
    private static let relays = 3
    private static let nodes = 3
    /// Seconds of the gateways for each of the machine's: their pauses of 45 s are what takes the time.
    static let speed = 10
    /// The gateways' patience, in the machine's time.
    private static let patience = RelayPatience.answer / speed
    /// What the exchange takes for an entry.
    private static let pace = Duration.milliseconds(2)

    private static func number(_ variable: String) -> Int? {
        ProcessInfo.processInfo.environment[variable].flatMap { Int($0) }
    }

    @Test(.timeLimit(.minutes(30)))
    func whileRelaysAndNodesAreKilledEachSampleArrivesOnce() async throws {
        let requests = try await Self.deliverAll { await Self.kill($0, $1) }
        #expect(requests.troubles.relays > 0 && requests.troubles.nodes > 0)
    }

    /// A relay that goes on after a while has requests that another one has served since.
    @Test(.timeLimit(.minutes(30)))
    func whileRelaysStandStillEachSampleArrivesOnce() async throws {
        let requests = try await Self.deliverAll { relays, _ in await Self.suspend(relays) }
        #expect(requests.troubles.relays > 0)
    }

    /// Runs alone, in the ring `contract`: how much a relay gathers follows the machine's load.
    @Test(.timeLimit(.minutes(30)))
    func theExchangeGetsAThirdOfTheRequestsAtMost() async throws {
        let requests = try await Self.deliverAll { _, _ in (0, 0) }
        #expect(requests.exchange * 3 <= requests.answered)
    }

    /// What was sent while the whole ward delivered.
    private struct Requests {
        /// Requests of gateways that were answered entry by entry, and those that the exchange got.
        var answered, exchange: Int
        var troubles: Troubles
    }

    /// How often relays and nodes had trouble.
    private typealias Troubles = (relays: Int, nodes: Int)

    /// Delivers all samples, each of which must be at the exchange once.
    ///
    /// - Parameter trouble: what is done to relays and nodes meanwhile, until the task is cancelled.
    private static func deliverAll(
        _ trouble: @escaping @Sendable (RelayProcesses, NATSCluster) async -> Troubles
    ) async throws -> Requests {
        let directory = FileManager.default.temporaryDirectory
            .appending(path: "fleet-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: directory) }
        let keys = try (0..<Self.gateways).map { _ in try RelayFixture.key() }
        let relayKey = try RelayFixture.key()
        let cluster = try await NATSCluster.start(
            nodes: Self.nodes,
            users: keys.enumerated().map { .gateway("g\($0.offset)", key: $0.element.publicKey) }
                + [.relay(key: relayKey.publicKey)])
        let exchange = try await RelayFixture.exchange(patients: Self.gateways)
        await exchange.setPace(perEntry: Self.pace)
        let relays = try await RelayProcesses(
            directory, cluster, exchange, relayKey,
            table: (0..<Self.gateways).map { ("g\($0)", RelayFixture.patient($0)) })
        for index in 0..<Self.relays { try await relays.start(index) }

        let time = try FastClock(
            speed: Int64(Self.speed), path: directory.appending(path: "time").path,
            helpers: relays.processes)
        defer { time.stop() }
        let clock = FleetTime(time)
        let counts = RequestCounts()
        var wards: [FleetGateway] = []
        for (index, key) in keys.enumerated() {
            wards.append(
                try await FleetGateway(
                    "g\(index)", patient: "\(RelayFixture.patient(index))",
                    samples: Self.samplesEach, inRequest: Self.samplesInRequest,
                    in: directory, clock,
                    CountingDestination(
                        try await RelayFixture.destination(
                            cluster, "g\(index)", key, patience: Self.patience, clock: clock),
                        counts)))
        }
        let began = ContinuousClock.now
        let chaos = Task { await trouble(relays, cluster) }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for ward in wards { group.addTask { try await ward.deliverAll() } }
            try await group.waitForAll()
        }
        let took = ContinuousClock.now - began
        chaos.cancel()
        let troubles = await chaos.value

        let total = Self.gateways * Self.samplesEach
        var delivered = 0
        for ward in wards { delivered += try await ward.close() }
        #expect(delivered == total)
        #expect(await exchange.storedCount() == total)
        #expect(await exchange.duplicates.isEmpty)
        #expect(await exchange.orphans == 0)
        #expect(await exchange.overlappingRequests == 0)
        for index in 0..<Self.gateways {
            let stored = await exchange.storedCount(patient: RelayFixture.patient(index))
            #expect(stored == Self.samplesEach, "gateway \(index)")
        }
        let bundles = await exchange.requests.count { $0.route == .bundle }
        let (answered, others) = counts.now
        print(
            "\(total) samples of \(Self.gateways) gateways in \(took): \(answered) requests were "
                + "answered with \(bundles) of the exchange; \(troubles.relays) relays and "
                + "\(troubles.nodes) nodes had trouble; not answered so: \(others)")
        await relays.stop()
        await exchange.stop()
        await cluster.stop()
        return Requests(answered: answered, exchange: bundles, troubles: troubles)
    }

    /// Kills a relay or a node every few seconds, and starts it again, until the task is cancelled.
    private static func kill(
        _ relays: RelayProcesses, _ cluster: NATSCluster
    ) async -> Troubles {
        var random = SeededRandom(seed: seed)
        var kills: Troubles = (0, 0)
        while !Task.isCancelled {
            do {
                try await Task.sleep(
                    for: .milliseconds(Int.random(in: 1_000...3_000, using: &random)))
                if kills.relays <= kills.nodes {
                    let index = Int.random(in: 0..<self.relays, using: &random)
                    kills.relays += 1
                    await relays.kill(index)
                    try await Task.sleep(
                        for: .milliseconds(Int.random(in: 200...2_000, using: &random)))
                    try await relays.start(index)
                } else {
                    let index = Int.random(in: 0..<nodes, using: &random)
                    kills.nodes += 1
                    await cluster.kill(index)
                    try await Task.sleep(
                        for: .milliseconds(Int.random(in: 200...2_000, using: &random)))
                    try await cluster.start(index)
                }
            } catch is CancellationError {
                break
            } catch {
                Issue.record(error)
                break
            }
        }
        return kills
    }

    /// Lets a relay stand still for some seconds, again and again, until the task is cancelled: about as long as
    /// gateways wait before they send again.
    private static func suspend(_ relays: RelayProcesses) async -> Troubles {
        var random = SeededRandom(seed: seed)
        var stops: Troubles = (0, 0)
        while !Task.isCancelled {
            let index = Int.random(in: 0..<self.relays, using: &random)
            try? await Task.sleep(for: .milliseconds(Int.random(in: 200...1_500, using: &random)))
            if Task.isCancelled { break }
            await relays.signal(index, SIGSTOP)
            stops.relays += 1
            try? await Task.sleep(for: .milliseconds(Int.random(in: 200...9_000, using: &random)))
            await relays.signal(index, SIGCONT)
        }
        return stops
    }
}

/// The time of the gateways' world.
private struct FleetTime: GatewayClock {
    /// How old the gateways' machine was when the world began.
    private static let bootTime = Duration.seconds(1_000)
    private let time: FastClock
    /// What the straps recorded is of yesterday.
    private let start = UTC.now() - .seconds(86_400)

    init(_ time: FastClock) { self.time = time }

    func read() -> ClockReading {
        let passed = time.now - FastClock.epoch
        return ClockReading(
            uptime: .zero + Self.bootTime + passed, wall: start + passed, isTrusted: true)
    }

    func sleep(until uptime: Uptime) async throws {
        await time.sleep(for: uptime - read().uptime)
        try Task.checkCancellation()
    }
}

/// One gateway with what its straps recorded while it had no network: the real store and the real delivery.
private struct FleetGateway: Sendable {
    let queue: SampleQueue
    let runner: DeliveryRunner
    let destination: CountingDestination
    let clock: FleetTime

    init(
        _ name: String, patient: String, samples: Int, inRequest: Int, in directory: URL,
        _ clock: FleetTime, _ destination: CountingDestination
    ) async throws {
        self.clock = clock
        self.destination = destination
        queue = try SampleQueue(
            path: directory.appending(path: "\(name).sqlite").path, clock: clock, bootID: "boot")
        let enrollment = try await queue.enroll(
            EnrollmentTerms(
                name: "relay", kind: .destination, origin: "nats:", fhirBase: "",
                identifierSystem: "urn:edge-gateway:sample"))
        let sensor = try await queue.addSensor(
            address: "C0:00:00:00:00:01",
            details: SensorDetails(manufacturer: "Polar Electro Oy", model: "H10"))
        let now = clock.read()
        let assignment = try await queue.assign(
            sensor: sensor.id, enrollment: enrollment.id, patient: patient,
            since: now.uptime - .seconds(samples))
        try await queue.append(
            contentsOf: (0..<samples).map { number in
                Arrival(
                    sensorID: assignment.sensorID,
                    at: now.at(now.uptime - .seconds(samples - number)),
                    frame: [0x00, UInt8(60 + number % 90)])
            })
        try await queue.flush()
        var settings = DeliverySettings()
        settings.batchSamplesMax = inRequest
        settings.resendPause = RelayPatience.resendPause
        runner = DeliveryRunner(
            enrollment: enrollment, queue: queue, destination: destination, clock: clock,
            logger: RelayFixture.quiet, settings: settings)
    }

    func deliverAll() async throws {
        while try await queue.balance().unsent > 0 {
            try await clock.sleep(until: await runner.advance())
        }
    }

    /// Returns how many samples are delivered.
    func close() async throws -> Int {
        let balance = try await queue.balance()
        #expect(balance.isBalanced)
        await destination.finish()
        try await queue.close()
        return balance.delivered
    }
}

/// How many requests were answered entry by entry, and what became of the others.
private final class RequestCounts: Sendable {
    private let state = Mutex((answered: 0, others: [String: Int]()))

    var now: (answered: Int, others: [String: Int]) { state.withLock { $0 } }

    func note(_ answer: DeliveryAnswer) {
        state.withLock { state in
            if case .entries = answer {
                state.answered += 1
            } else {
                state.others[answer.word, default: 0] += 1
            }
        }
    }
}

/// A destination whose answers are counted.
private struct CountingDestination: Destination {
    let inner: any Destination
    let counts: RequestCounts

    init(_ inner: any Destination, _ counts: RequestCounts) {
        self.inner = inner
        self.counts = counts
    }

    var mayRace: Bool { inner.mayRace }
    var servesMany: Bool { inner.servesMany }
    var fault: String? { get async { await inner.fault } }
    func isHealthy() async -> Bool { await inner.isHealthy() }
    func isMended(_ reason: HoldReason) async -> Bool { await inner.isMended(reason) }
    func finish() async { await inner.finish() }

    func deliver(_ points: [OutgoingPoint], alone: Bool) async -> DeliveryAnswer {
        let answer = await inner.deliver(points, alone: alone)
        counts.note(answer)
        return answer
    }
}
