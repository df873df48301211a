import Basics
import OfflineQueue
import Testbed
import Testing

@testable import Uplink

@Suite struct ExchangeDeliveryTests {
    @Test func aBacklogArrivesExactlyOnceWithItsTimesRatesAndStrap() async throws {
        let delivery = try await DeliveryFixture(samples: 250)
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
        let delivery = try await DeliveryFixture(samples: 3)
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
        let delivery = try await DeliveryFixture(samples: 150)
        await delivery.exchange.expireAccessTokens()
        try await delivery.drain()
        try await delivery.checkExactlyOnce(150)
        #expect(await delivery.exchange.requests.count { $0.route == .token } == 1)
        await delivery.exchange.stop()
    }

    /// The exchange's database was restored from a backup: nothing was sent, so nobody heard of the 401, for a week.
    @Test func aTokenThatDiesWhileTheDeliveryIsHeldIsRenewed() async throws {
        let delivery = try await DeliveryFixture(samples: 1)
        await delivery.exchange.expireAccessTokens()
        #expect(await delivery.destination.isMended(.exchangeFault))
        #expect(await delivery.exchange.requests.count { $0.route == .token } == 1)
        await delivery.exchange.stop()
    }

    @Test func thatAHeldDeliveryHasNoTokensAnyMoreBecomesItsReason() async throws {
        let delivery = try await DeliveryFixture(samples: 3)
        await delivery.exchange.revokeTokens()
        await delivery.exchange.cancelInvitations(patient: 40001)
        // A sample is tried.
        #expect(await delivery.destination.isMended(.exchangeFault))
        try await delivery.drain(seconds: 600)
        #expect(try await delivery.queue.balance().held == ["enroll-again": 3])
        await delivery.exchange.stop()
    }

    /// Status named the consent, which the patient had given, until somebody started the gateway again.
    @Test func thatADeliveryWithoutConsentHasNoTokensAnyMoreBecomesItsReason() async throws {
        let delivery = try await DeliveryFixture(samples: 3)
        await delivery.exchange.withdrawConsent(patient: 40001)
        try await delivery.drain(seconds: 60)
        #expect(try await delivery.queue.balance().held == ["no-consent": 3])
        await delivery.exchange.revokeTokens()
        await delivery.exchange.cancelInvitations(patient: 40001)
        await delivery.exchange.grantConsent(patient: 40001)
        try await delivery.drain(seconds: 600)
        #expect(try await delivery.queue.balance().held == ["enroll-again": 3])
        await delivery.exchange.stop()
    }

    @Test func aPoisonousSampleIsFoundByHalving() async throws {
        let delivery = try await DeliveryFixture(samples: 100)
        let victim = try await delivery.queue.nextPending(
            enrollment: delivery.enrollment.id, limit: 100
        ).samples[37]
        await delivery.exchange.poison(
            ExchangeIdentifier(system: "https://gw.example/ids", value: victim.uuid))
        try await delivery.drain()
        try await delivery.checkExactlyOnce(99)
        #expect(await delivery.exchange.requests.count < 20)
        let balance = try await delivery.queue.balance()
        #expect(balance.dead == 1 && balance.delivered == 99)
        await delivery.exchange.stop()
    }

    @Test func withdrawnConsentHoldsTheDeliveryAndGivenAgainDrainsIt() async throws {
        let delivery = try await DeliveryFixture(samples: 120)
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
        let delivery = try await DeliveryFixture(samples: 60)
        await delivery.exchange.inject(fault, on: [.bundle], for: .requests(2))
        try await delivery.drain()
        try await delivery.checkExactlyOnce(60)
        #expect(try await delivery.queue.balance().delivered == 60)
        await delivery.exchange.stop()
    }

    /// Profile and health answer while the table of observations is locked.
    @Test(
        arguments: [
            (nil, true), (.hangUp, false), (.status(504), false), (.status(502), false),
            (.status(500), true), (.status(404), true), (.status(401), true),
        ] as [(ExchangeFault?, Bool)])
    func aSilenceIsOverWhenObservationsAreRead(fault: ExchangeFault?, isOver: Bool) async throws {
        let delivery = try await DeliveryFixture(samples: 0)
        if let fault { await delivery.exchange.inject(fault, on: [.read], for: .untilCleared) }
        #expect(await delivery.destination.isSilenceOver() == isOver)
        #expect(await delivery.exchange.requests.map(\.route) == [.read])
        #expect(await delivery.destination.isHealthy() == isOver)
        await delivery.exchange.stop()
    }

    @Test func afterALostAnswerTheExchangeIsAskedBeforeTheSamplesGoOutAgain() async throws {
        let delivery = try await DeliveryFixture(samples: 10)
        await delivery.exchange.inject(.lostAnswer, on: [.bundle])
        await delivery.exchange.inject(.hangUp, on: [.read], for: .requests(3))
        try await delivery.drain()
        try await delivery.checkExactlyOnce(10)
        let routes = await delivery.exchange.requests.map(\.route)
        #expect(routes == [.bundle, .read, .read, .read, .read, .bundle])
        await delivery.exchange.stop()
    }

    /// A person is to learn that the authorization is gone, also while an answer is missing.
    @Test func aLostAuthorizationIsSeenBehindAnUnansweredRequest() async throws {
        let delivery = try await DeliveryFixture(samples: 10)
        await delivery.exchange.inject(.hangUp, on: [.bundle])
        _ = await delivery.runner.advance()
        await delivery.exchange.revokeTokens()
        await delivery.exchange.cancelInvitations(patient: 40001)
        try await delivery.drain(seconds: 300)
        #expect(try await delivery.queue.balance().held == ["enroll-again": 10])
        await delivery.exchange.stop()
    }

    @Test func aCutNetworkIsWaitedFor() async throws {
        let delivery = try await DeliveryFixture(samples: 60)
        await delivery.exchange.cutNetwork()
        try await delivery.drain(seconds: 3600)
        #expect(try await delivery.queue.balance().pending == 60)
        try await delivery.exchange.restoreNetwork()
        try await delivery.drain(seconds: 120)
        try await delivery.checkExactlyOnce(60)
        await delivery.exchange.stop()
    }

    @Test func aLostRefreshAnswerIsMetByTheInvitation() async throws {
        let delivery = try await DeliveryFixture(samples: 20)
        await delivery.exchange.expireAccessTokens()
        await delivery.exchange.inject(.lostAnswer, on: [.token])
        try await delivery.drain()
        try await delivery.checkExactlyOnce(20)
        #expect(await delivery.exchange.requests.count { $0.route == .invitation } == 1)
        await delivery.exchange.stop()
    }

    @Test func aLostEnrollmentHoldsAndRecordingGoesOn() async throws {
        let delivery = try await DeliveryFixture(samples: 20)
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
        let delivery = try await DeliveryFixture(samples: 40)
        await delivery.exchange.inject(.lostAnswer, on: [.bundle])
        _ = await delivery.runner.advance()
        // The process is gone before it learns anything; the next run asks the store.
        let unanswered = try await delivery.queue.unansweredRequest(
            enrollment: delivery.enrollment.id)
        let since = try #require(unanswered)
        let next = DeliveryRunner(
            enrollment: delivery.enrollment, queue: delivery.queue,
            destination: delivery.destination, clock: delivery.clock, logger: .quiet,
            unansweredSince: since)
        let requests = await delivery.exchange.requests.count
        #expect(await next.advance() == since + .seconds(30))
        #expect(await delivery.exchange.requests.count == requests)
        delivery.clock.advance(to: since + .seconds(30))
        await delivery.exchange.advanceClock(by: .seconds(30))
        _ = await next.advance()
        try await delivery.checkExactlyOnce(40)
        let left = try await delivery.queue.unansweredRequest(enrollment: delivery.enrollment.id)
        #expect(left == nil)
        await delivery.exchange.stop()
    }
}
