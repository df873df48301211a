import Basics
import Foundation
import Logging
import OfflineQueue
import Synchronization
import Testbed
import Testing
import Uplink

/// What every destination must pass: a long recording, delivered by the real delivery over a network that fails
/// in both directions, by a gateway that is killed again and again. Nothing is lost; nothing is there twice where
/// the system can tell.
struct DestinationContract {
    /// A tenth of an hour of eight straps. `CONTRACT_SAMPLES=30186` makes it the whole hour, which is also the number
    /// that CloudCare's makers measured themselves with. Requests, faults and kills are as many either way.
    static let samples =
        ProcessInfo.processInfo.environment["CONTRACT_SAMPLES"].flatMap { Int($0) } ?? 3_000
    /// Every so many samples, two share a microsecond: a time is no identity.
    private static let pairEvery = max(samples / 60, 2)
    /// Every so many samples, the strap was away.
    private static let gapEvery = max(samples / 30, 1)
    static let gapLength = Duration.seconds(75)
    private static let gaps = (1..<samples).count { $0 % gapEvery == 0 }
    /// How many such pairs there are.
    static let pairs = (0..<samples).count { $0 % pairEvery == 1 }

    var seed: UInt64 = 1
    /// How many the samples take when nothing goes wrong.
    var requests = 300

    /// Delivers everything to `system`, which is stopped whatever happens, and judges it.
    func check(_ system: any DestinationSystem) async throws {
        let outcome: Result<Void, any Error>
        do {
            outcome = .success(try await run(system))
        } catch {
            outcome = .failure(error)
        }
        await system.stop()
        try outcome.get()
    }

    private func run(_ system: any DestinationSystem) async throws {
        let directory = FileManager.default.temporaryDirectory
            .appending(path: "contract-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: directory) }
        let clock = ContractClock()
        let queue = try SampleQueue(
            path: directory.appending(path: "queue.sqlite").path, clock: clock, bootID: "boot")
        let enrollment = try await record(in: queue, clock)

        let quiet = Logger(label: "contract") { _ in SwiftLogNoOpLogHandler() }
        let tokens = Mutex<TokenRecord?>(nil)
        var calm = DestinationParts(
            transport: CurlTransport(), network: system.network, clock: clock, logger: quiet)
        let kind = try system.destination()
        let report = try await kind.probe(calm)
        #expect(!report.checked.isEmpty)
        #expect(try await system.counts() == (0, 0), "the probe leaves nothing behind")
        tokens.withLock { $0 = report.tokens }

        let takesLedger = kind.make(calm).takesLedger
        let (events, sink) = AsyncStream<Event>.makeStream()
        let faults = FaultScript(seed: seed) { sink.yield(.killed) }
        let isHTTP = kind is any HTTPKind
        if isHTTP { calm.transport = FaultyNetwork(faults) }
        var settings = DeliverySettings()
        settings.batchSamplesMax = max(Self.samples / requests, 1)
        var lives = 0
        func begin() async throws -> DeliveryRunner {
            lives += 1
            var parts = calm
            parts.tokens = tokens.withLock { $0 }
            parts.saveTokens = { record in tokens.withLock { $0 = record } }
            let destination = kind.make(parts)
            return DeliveryRunner(
                enrollment: enrollment, queue: queue,
                destination: isHTTP ? destination : FaultyDestination(destination, faults),
                clock: clock, logger: quiet, settings: settings,
                unansweredSince: try await queue.unansweredRequest(enrollment: enrollment.id))
        }
        var runner = try await begin()
        func advance() { Task { [runner] in sink.yield(.waits(until: await runner.advance())) } }
        advance()
        for await event in events {
            switch event {
            case .killed:
                // The dead one never comes back from its request.
                runner = try await begin()
            case .waits(let until):
                let rest = try await queue.nextLedgerEntries(enrollment: enrollment.id, limit: 1)
                if try await queue.balance().unsent == 0, !takesLedger || rest.isEmpty {
                    sink.finish()
                }
                clock.advance(to: until)
            }
            advance()
        }
        let balance = try await queue.balance()
        #expect(balance.delivered == Self.samples && balance.isBalanced, "\(balance)")
        let counts = try await system.counts()
        #expect(counts.stored == Self.samples)
        if let ledger = try await system.ledgerCounts() {
            #expect(takesLedger && ledger.gaps == Self.gaps && 1...2 ~= ledger.days, "\(ledger)")
        }
        // VictoriaMetrics may, InfluxDB does not.
        #expect(type(of: kind).promise.mayRepeat || !system.mayRepeat)
        if !system.mayRepeat { #expect(counts.repeated == 0) }
        #expect(lives > 5 && faults.lostAnswers > 10)
        print(
            "\(type(of: kind).name): \(Self.samples) samples, \(faults.requests) requests, "
                + "\(faults.lostAnswers) answers lost, \(lives - 1) kills, \(counts.repeated) repeated"
        )
        faults.release()
        try await queue.close()
    }

    private enum Event: Sendable { case waits(until: Uptime), killed }

    private func record(in queue: SampleQueue, _ clock: ContractClock) async throws -> Enrollment {
        let enrollment = try await queue.enroll(
            EnrollmentTerms(
                name: "contract", kind: .destination, origin: "file:///contract", fhirBase: "",
                patient: "40001", identifierSystem: "urn:contract"))
        let sensor = try await queue.addSensor(
            address: "C0:00:00:00:00:01",
            details: SensorDetails(manufacturer: "Polar Electro Oy", model: "H10"))
        let assignment = try await queue.assign(sensor: sensor.id, enrollment: enrollment.id)
        for number in 0..<Self.samples {
            if number % Self.pairEvery != 1 { clock.advance(by: .microseconds(1_000_123)) }
            if number > 0, number % Self.gapEvery == 0 { clock.advance(by: Self.gapLength) }
            try await queue.append(contentsOf: [
                Arrival(
                    sensorID: assignment.sensorID, at: clock.read(),
                    frame: [0x00, UInt8(60 + number % 90)])
            ])
        }
        try await queue.flush()
        clock.advance(by: ContractClock.day)
        return enrollment
    }
}

/// What goes wrong, request by request: requests and answers are lost, the server fails before and after its
/// work, and the power goes while a request is under way.
final class FaultScript: Sendable {
    enum Fault: CaseIterable {
        case noConnection, requestLost, answerLost, answerCut, failsBefore, failsAfter, busy, killed
        case killedAfter

        /// Whether the server acts on the request, and the gateway never learns it.
        var isAfterTheWork: Bool {
            switch self {
            case .answerLost, .answerCut, .failsAfter, .killedAfter: true
            case .noConnection, .requestLost, .failsBefore, .busy, .killed: false
            }
        }
    }

    private struct State {
        var random: SeededRandom
        var requests = 0
        var lostAnswers = 0
        var dead: [CheckedContinuation<Void, Never>] = []
    }

    private let state: Mutex<State>
    private let kill: @Sendable () -> Void

    /// One request in so many goes wrong.
    static let oneIn = 4

    init(seed: UInt64, kill: @escaping @Sendable () -> Void) {
        state = Mutex(State(random: SeededRandom(seed: seed)))
        self.kill = kill
    }

    var requests: Int { state.withLock { $0.requests } }
    /// Requests that the server acted on and of which the gateway never learned.
    var lostAnswers: Int { state.withLock { $0.lostAnswers } }

    /// What happens to the next request; nil: nothing.
    func next() -> Fault? {
        state.withLock { state in
            state.requests += 1
            guard Int.random(in: 0..<Self.oneIn, using: &state.random) == 0 else { return nil }
            let fault = Fault.allCases.randomElement(using: &state.random)
            if fault?.isAfterTheWork == true { state.lostAnswers += 1 }
            return fault
        }
    }

    /// Kills the gateway. Returns when the test is over.
    func die() async {
        kill()
        await withCheckedContinuation { continuation in
            state.withLock { $0.dead.append(continuation) }
        }
    }

    /// Lets go of the requests whose gateways were killed.
    func release() {
        let dead = state.withLock { state in
            defer { state.dead = [] }
            return state.dead
        }
        for continuation in dead { continuation.resume() }
    }
}

/// A network, and a server behind it, that fail as the script says.
struct FaultyNetwork: HTTPTransport {
    private let inner = CurlTransport()
    private let faults: FaultScript

    init(_ faults: FaultScript) { self.faults = faults }

    func send(_ request: HTTPRequest) async throws(TransportFault) -> HTTPAnswer {
        guard let fault = faults.next() else { return try await inner.send(request) }
        if fault.isAfterTheWork { _ = try await inner.send(request) }
        switch fault {
        case .noConnection: throw .connect
        case .requestLost, .answerCut: throw .cut
        case .answerLost: throw .timeout
        case .failsBefore: return HTTPAnswer(status: 500)
        case .failsAfter: return HTTPAnswer(status: 502)
        case .busy: return HTTPAnswer(status: 503, retryAfter: "7")
        case .killed, .killedAfter:
            await faults.die()
            throw .cancelled
        }
    }
}

/// The same for a destination that does not speak HTTP, whose network has to fail by itself as well.
struct FaultyDestination: Destination {
    private let inner: any Destination
    private let faults: FaultScript

    init(_ inner: any Destination, _ faults: FaultScript) {
        self.inner = inner
        self.faults = faults
    }

    var mayRace: Bool { inner.mayRace }
    var takesLedger: Bool { inner.takesLedger }
    var fault: String? { get async { await inner.fault } }
    func mayTakeIntervals() async -> Bool { await inner.mayTakeIntervals() }
    func isHealthy() async -> Bool { await inner.isHealthy() }
    func isMended(_ reason: HoldReason) async -> Bool { await inner.isMended(reason) }
    func begin() async { await inner.begin() }
    func finish() async { await inner.finish() }

    func deliver(_ points: [OutgoingPoint], alone: Bool) async -> DeliveryAnswer {
        guard let fault = faults.next() else {
            return await inner.deliver(points, alone: alone)
        }
        if fault.isAfterTheWork { _ = await inner.deliver(points, alone: alone) }
        switch fault {
        case .noConnection: return .notSent(retryAt: nil)
        case .requestLost, .answerLost, .answerCut: return .unanswered("\(fault)")
        case .failsBefore, .failsAfter: return .unclear("\(fault)")
        case .busy: return .throttled(retryAfter: .seconds(7))
        case .killed, .killedAfter:
            // Its connection dies with it.
            await inner.finish()
            await faults.die()
            return .notSent(retryAt: nil)
        }
    }
}

extension FaultyDestination {
    func deliver(ledger entries: [LedgerEntry]) async -> LedgerAnswer {
        guard let fault = faults.next() else { return await inner.deliver(ledger: entries) }
        if fault.isAfterTheWork { _ = await inner.deliver(ledger: entries) }
        if fault == .killed || fault == .killedAfter {
            await inner.finish()
            await faults.die()
        }
        return .failed("\(fault)")
    }
}

/// A clock that stands still until it is moved. It begins so far in the past that what is recorded ends now:
/// a server may not show what is of the future.
final class ContractClock: GatewayClock {
    private let reading = Mutex(
        ClockReading(
            uptime: .zero + .seconds(1_000),
            wall: .now() - .seconds(DestinationContract.samples + 3_000) - day, isTrusted: true))

    /// So long nothing is recorded at the end, that a day is over.
    static let day = Duration.seconds(86_400)

    func read() -> ClockReading { reading.withLock { $0 } }

    func advance(by time: Duration) {
        reading.withLock {
            $0.uptime += time
            $0.wall += time
        }
    }

    func advance(to uptime: Uptime) { advance(by: max(uptime - read().uptime, .zero)) }
}
