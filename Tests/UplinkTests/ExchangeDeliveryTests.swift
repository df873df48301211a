import Foundation
import Logging
import OfflineQueue
import Testbed
import Testing

@testable import Uplink

extension Logger {
    static var quiet: Logger { Logger(label: "test") { _ in SwiftLogNoOpLogHandler() } }
}

/// A queue, a lane and a stand-in exchange, with simulated time on both sides.
private struct Delivery {
    let scratch: Scratch
    let clock = StillClock(wall: Int64(Date().timeIntervalSince1970) * 1_000_000)
    let exchange: StandInExchange
    let queue: SampleQueue
    let runner: LaneRunner
    let destination: ExchangeDestination
    let enrollment: Enrollment
    let assignment: Assignment

    init(samples: Int) async throws {
        scratch = try Scratch()
        exchange = try await StandInExchange.start()
        let transport = CurlTransport()
        let link = try InvitationLink(await exchange.invite(patient: 40001))
        let enrolled = try await Enroller(transport: transport, clock: clock).enroll(link)
        let standing = try #require(enrolled.standing)
        #expect(standing.isConsented)
        #expect(enrolled.device?.id == "70007")

        let file = TokenFile(path: scratch.path + "/tokens.json")
        try file.save(enrolled.tokens)
        queue = try SampleQueue(
            path: scratch.path + "/queue.sqlite", clock: clock, bootID: UUID().uuidString)
        enrollment = try await queue.enroll(
            EnrollmentTerms(
                name: "clinic", origin: enrolled.tokens.origin.description,
                fhirBase: enrolled.tokens.origin.description + enrolled.fhirBase,
                clientID: enrolled.tokens.clientID, patient: standing.patient,
                device: enrolled.device?.id, codeSystem: standing.code.system,
                code: standing.code.code, identifierSystem: "https://gw.example/ids"))
        let sensor = try await queue.addSensor(
            address: "A0:9E:1A:00:00:01",
            details: SensorDetails(manufacturer: "Polär Electro", model: "H10", firmware: "3.1.1"))
        assignment = try await queue.assign(sensor: sensor.id, enrollment: enrollment.id)
        let tokens = TokenSource(
            record: enrolled.tokens, file: file, transport: transport, clock: clock,
            logger: .quiet)
        destination = try #require(
            ExchangeDestination(
                terms: enrollment.terms, tokens: tokens, transport: transport, logger: .quiet))
        runner = LaneRunner(
            enrollment: enrollment, queue: queue, destination: destination, clock: clock,
            logger: .quiet)
        try await record(samples)
        await exchange.forgetRequests()
    }

    func record(_ count: Int, frame: [UInt8]? = nil) async throws {
        for number in 0..<count {
            clock.advance(microseconds: 1_000_000)
            try await queue.append(
                Arrival(
                    assignmentID: assignment.id, at: clock.read(),
                    frame: frame ?? [0x00, UInt8(60 + number % 60)]))
        }
        try await queue.flush()
    }

    /// Advances both clocks through the lane's waits until nothing of the queue is left to send.
    func drain(seconds: Int64 = 7200) async throws {
        let end = clock.read().uptimeMicroseconds + seconds * 1_000_000
        while true {
            let next = min(await runner.advance(), end)
            if try await queue.balance().unsent == 0 { return }
            let now = clock.read().uptimeMicroseconds
            guard now < end else { return }
            clock.advance(toUptime: next)
            await exchange.advanceClock(by: .microseconds(next - now))
        }
    }

    func checkExactlyOnce(_ count: Int) async throws {
        #expect(await exchange.storedCount(patient: 40001) == count)
        #expect(await exchange.duplicates.isEmpty)
        #expect(await exchange.orphans == 0)
        #expect(await exchange.overlappingRequests == 0)
        #expect(try await queue.balance().isBalanced)
    }
}

@Suite struct ExchangeDeliveryTests {
    @Test func aBacklogArrivesExactlyOnceWithItsTimesRatesAndStrap() async throws {
        let delivery = try await Delivery(samples: 250)
        try await delivery.drain()
        try await delivery.checkExactlyOnce(250)
        #expect(try await delivery.queue.balance().delivered == 250)
        #expect(await delivery.exchange.requests.count == 3)
        let stored = await delivery.exchange.stored
        #expect(stored.first?.beatsPerMinute == 60)
        #expect(stored.allSatisfy { $0.device == 70007 && $0.code == "omh:heart-rate:2.0" })
        #expect(stored.first?.effectiveTime?.hasSuffix("Z") == true)
        await delivery.exchange.stop()
    }

    @Test func samplesThatMeasuredNothingAreWithheldAndCounted() async throws {
        let delivery = try await Delivery(samples: 3)
        try await delivery.record(2, frame: [0x00, 0])
        try await delivery.record(1, frame: [0x04, 70])
        try await delivery.record(1, frame: [0x00, 250])
        try await delivery.record(1)
        try await delivery.drain()
        try await delivery.checkExactlyOnce(4)
        let balance = try await delivery.queue.balance()
        #expect(balance.dropped == ["zeroRate": 2, "contactLost": 1, "outOfRange": 1])
        await delivery.exchange.stop()
    }

    @Test func a401IsMetByOneRefresh() async throws {
        let delivery = try await Delivery(samples: 150)
        await delivery.exchange.expireAccessTokens()
        try await delivery.drain()
        try await delivery.checkExactlyOnce(150)
        #expect(await delivery.exchange.requests.count { $0.route == .token } == 1)
        await delivery.exchange.stop()
    }

    @Test func aPoisonousSampleIsFoundByHalving() async throws {
        let delivery = try await Delivery(samples: 100)
        let victim = try await delivery.queue.nextBatch(
            enrollment: delivery.enrollment.id, limit: 100)[37]
        await delivery.exchange.poison(
            ExchangeIdentifier(system: "https://gw.example/ids", value: victim.uuid))
        try await delivery.drain()
        try await delivery.checkExactlyOnce(99)
        #expect(await delivery.exchange.requests.count < 20)
        let balance = try await delivery.queue.balance()
        #expect(balance.dead == 1 && balance.delivered == 99)
        await delivery.exchange.stop()
    }

    @Test func withdrawnConsentHoldsTheLaneAndGivenAgainDrainsIt() async throws {
        let delivery = try await Delivery(samples: 120)
        await delivery.exchange.withdrawConsent(patient: 40001)
        try await delivery.drain(seconds: 600)
        #expect(await delivery.exchange.storedCount(patient: 40001) == 0)
        #expect(try await delivery.queue.balance().held == ["no-consent": 120])
        #expect(await delivery.exchange.requests.count { $0.route == .bundle } == 1)

        await delivery.exchange.grantConsent(patient: 40001)
        try await delivery.drain()
        try await delivery.checkExactlyOnce(120)
        #expect(try await delivery.queue.enrollments().first?.holdReason == nil)
        await delivery.exchange.stop()
    }

    @Test(
        "whatever happens to an answer, each sample is stored once",
        arguments: [
            .lostAnswer, .cutAnswer, .truncatedAnswer, .notJSONAnswer, .miscountedAnswer(by: 1),
            .miscountedAnswer(by: -1), .hugeAnswer(bytes: 4_000_000), .hangUp, .databaseDown,
            .databaseLost(afterEntries: 7), .workerKilled(afterEntries: 9),
            .workerKilled(afterEntries: 9, answers: false), .status(502), .status(504),
            .status(429, retryAfterSeconds: 120), .status(503), .status(413),
        ] as [ExchangeFault])
    func faults(fault: ExchangeFault) async throws {
        let delivery = try await Delivery(samples: 60)
        await delivery.exchange.inject(fault, on: [.bundle], for: .requests(2))
        try await delivery.drain()
        try await delivery.checkExactlyOnce(60)
        #expect(try await delivery.queue.balance().delivered == 60)
        await delivery.exchange.stop()
    }

    @Test func aCutNetworkIsWaitedFor() async throws {
        let delivery = try await Delivery(samples: 60)
        await delivery.exchange.cutNetwork()
        try await delivery.drain(seconds: 3600)
        #expect(try await delivery.queue.balance().pending == 60)
        try await delivery.exchange.restoreNetwork()
        try await delivery.drain(seconds: 120)
        try await delivery.checkExactlyOnce(60)
        await delivery.exchange.stop()
    }

    @Test func aLostRefreshAnswerIsMetByTheInvitation() async throws {
        let delivery = try await Delivery(samples: 20)
        await delivery.exchange.expireAccessTokens()
        await delivery.exchange.inject(.lostAnswer, on: [.token])
        try await delivery.drain()
        try await delivery.checkExactlyOnce(20)
        #expect(await delivery.exchange.requests.count { $0.route == .invitation } == 1)
        await delivery.exchange.stop()
    }

    @Test func aLostEnrollmentHoldsAndRecordingGoesOn() async throws {
        let delivery = try await Delivery(samples: 20)
        await delivery.exchange.revokeTokens()
        await delivery.exchange.cancelInvitations(patient: 40001)
        try await delivery.drain(seconds: 600)
        try await delivery.record(5)
        #expect(try await delivery.queue.balance().held == ["enroll-again": 25])
        #expect(try await delivery.queue.enrollments().first?.state == .enrollAgain)
        #expect(await delivery.exchange.requests.count { $0.route == .token } == 1)
        await delivery.exchange.stop()
    }

    @Test("a gateway restarted in the middle of a request leaves the exchange alone for 30 s")
    func restartInTheMiddleOfARequest() async throws {
        let delivery = try await Delivery(samples: 40)
        await delivery.exchange.inject(.lostAnswer, on: [.bundle])
        _ = await delivery.runner.advance()
        // The process is gone before it learns anything; the next run asks the store.
        let unanswered = try await delivery.queue.unansweredRequest(
            enrollment: delivery.enrollment.id)
        let since = try #require(unanswered)
        let next = LaneRunner(
            enrollment: delivery.enrollment, queue: delivery.queue,
            destination: delivery.destination, clock: delivery.clock, logger: .quiet,
            unansweredSince: since)
        let requests = await delivery.exchange.requests.count
        #expect(await next.advance() == since + 30_000_000)
        #expect(await delivery.exchange.requests.count == requests)
        delivery.clock.advance(toUptime: since + 30_000_000)
        await delivery.exchange.advanceClock(by: .seconds(30))
        _ = await next.advance()
        try await delivery.checkExactlyOnce(40)
        let left = try await delivery.queue.unansweredRequest(enrollment: delivery.enrollment.id)
        #expect(left == nil)
        await delivery.exchange.stop()
    }
}
