import Basics
import Foundation
import Logging
import OfflineQueue
import Testbed
import Testing

@testable import Uplink

extension Logger {
    static var quiet: Logger { Logger(label: "test") { _ in SwiftLogNoOpLogHandler() } }
}

/// A queue, a delivery and a stand-in exchange, with simulated time on both sides.
struct DeliveryFixture {
    let scratch: Scratch
    /// Not now: segments of the store end with their UTC day, so a test of simulated hours that begins late
    /// in the evening has one more than it expects.
    let clock = StillClock()
    let exchange: StandInExchange
    let queue: SampleQueue
    let runner: DeliveryRunner
    let destination: ExchangeDestination
    let enrollment: Enrollment
    let assignment: Assignment
    /// What lies between the delivery and the exchange, after the enrollment.
    let proxy: FaultProxy?

    /// How long the client waits for an answer that comes through a proxy: real time, of which an
    /// exchange that works needs a tenth.
    static let patience = Duration.milliseconds(500)

    init(
        samples: Int, through script: NetworkFaultScript? = nil,
        settings: DeliverySettings = DeliverySettings(), resolution: Resolution = .raw,
        seed: ExchangeSeed = .standard, knowsPerson: Bool = false
    ) async throws {
        scratch = try Scratch()
        exchange = try await StandInExchange.start(
            seed: seed, time: .standing(at: Double(clock.read().wall.microseconds) / 1e6))
        var transport = CurlTransport()
        let link = try InvitationLink(await exchange.invite(patient: 40001))
        let enrolled = try await Enroller(transport: transport, clock: clock).enroll(link)
        let access = try #require(enrolled.access)
        #expect(access.isConsented)
        let device = try #require(access.device(asked: nil, earlier: nil))
        #expect(device.id == "70007")

        let file = TokenFile(path: scratch.path + "/tokens.json")
        try file.save(enrolled.tokens)
        queue = try SampleQueue(
            path: scratch.path + "/queue.sqlite", clock: clock, bootID: UUID().uuidString)
        var terms = EnrollmentTerms(
            name: "clinic", origin: enrolled.tokens.origin.description,
            fhirBase: enrolled.tokens.origin.description + enrolled.fhirBase,
            clientID: enrolled.tokens.clientID, patient: access.patient,
            device: device.id, codeSystem: access.code.system,
            code: access.code.code, identifierSystem: "https://gw.example/ids",
            resolution: resolution.rawValue)
        if knowsPerson, let person = enrolled.account {
            terms.patientFingerprints[person.patient] = person.fingerprint()
        }
        enrollment = try await queue.enroll(terms)
        let sensor = try await queue.addSensor(
            address: "A0:9E:1A:00:00:01",
            details: SensorDetails(manufacturer: "Polär Electro", model: "H10", firmware: "3.1.1"))
        assignment = try await queue.assign(sensor: sensor.id, enrollment: enrollment.id)
        if let script {
            let path = scratch.path + "/network"
            proxy = try FaultProxy(
                socketPath: path, serverPort: exchange.port, script: script,
                patience: Self.patience)
            var settings = CurlSettings()
            settings.unixSocketPath = path
            settings.totalTimeout = Self.patience
            transport = CurlTransport(settings)
        } else {
            proxy = nil
        }
        let tokens = RenewingTokens(
            record: enrolled.tokens, file: file, transport: transport, clock: clock,
            logger: .quiet)
        destination = try #require(
            ExchangeDestination(
                terms: enrollment.terms, tokens: tokens, transport: transport, clock: clock,
                logger: .quiet))
        runner = DeliveryRunner(
            enrollment: enrollment, queue: queue, destination: destination, clock: clock,
            logger: .quiet, settings: settings)
        try await record(samples)
        await exchange.forgetRequests()
    }

    func record(_ count: Int, frame: [UInt8]? = nil) async throws {
        for number in 0..<count {
            clock.advance(by: .seconds(1))
            try await queue.append(contentsOf: [
                Arrival(
                    sensorID: assignment.sensorID, at: clock.read(),
                    frame: frame ?? [0x00, UInt8(60 + number % 60)])
            ])
        }
        try await queue.flush()
    }

    /// Advances both clocks through the delivery's waits until nothing of the queue is left to send.
    func drain(seconds: Int64 = 7200) async throws {
        let end = clock.read().uptime + .seconds(seconds)
        while true {
            let next = min(await runner.advance(), end)
            // As the group commit does, outcomes included.
            try await queue.flush()
            if try await queue.balance().unsent == 0 { return }
            let now = clock.read().uptime
            guard now < end else { return }
            // What is still on its way arrives within the pause, which is 30 s or more.
            await proxy?.settle()
            while await exchange.samplesUnderWay > 0 { await Task.yield() }
            clock.advance(to: next)
            await exchange.advanceClock(by: next - now)
        }
    }

    /// Has what was delivered since `time` wait again.
    func redeliver(since time: UTC, _ resolution: Resolution = .raw) async throws -> Int {
        try await queue.redeliver(
            Redelivery(
                destination: enrollment.id, since: time, window: resolution.window))
    }

    func checkExactlyOnce(_ count: Int) async throws {
        #expect(await exchange.storedCount(patient: 40001) == count)
        #expect(await exchange.duplicates.isEmpty)
        #expect(await exchange.orphans == 0)
        #expect(await exchange.overlappingRequests == 0)
        #expect(try await queue.balance().isBalanced)
    }
}

extension PendingSample {
    /// The identifier of its heart-rate data point.
    var uuid: String { identity().description }
}
