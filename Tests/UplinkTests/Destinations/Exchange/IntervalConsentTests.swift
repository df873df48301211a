import OfflineQueue
import Testbed
import Testing

@testable import Uplink

/// Stores heart rates and refuses each interval for good.
private struct IntervalRefuser: Destination {
    func deliver(_ points: [OutgoingPoint], alone: Bool) async -> DeliveryAnswer {
        .entries(
            points.map {
                $0.point.isInterval
                    ? EntryAnswer(.refused, status: 422, diagnostics: "{'omh_data': ['unit']}")
                    : EntryAnswer(.stored)
            })
    }

    func mayTakeIntervals() async -> Bool { true }
    func isHealthy() async -> Bool { true }
    func isMended(_ reason: HoldReason) async -> Bool { true }
}

@Suite("RR intervals go out when, and only when, they are consented to")
struct IntervalConsentTests {
    private static let code = "omh:rr-interval:1.0"
    /// 72 bpm, and intervals of 800 and 843 ticks.
    private static let frame: [UInt8] = [0x10, 72, 0x20, 0x03, 0x4B, 0x03]

    private static func counts(_ exchange: StandInExchange) async -> (rates: Int, intervals: Int) {
        let stored = await exchange.stored
        return (
            stored.count { $0.code == "omh:heart-rate:2.0" },
            stored.count { $0.code == Self.code }
        )
    }

    private static func consentsRead(_ exchange: StandInExchange) async -> Int {
        await exchange.requests.count { $0.path.hasSuffix("/consents") }
    }

    @Test func withConsentEveryIntervalArrivesExactlyOnce() async throws {
        let delivery = try await DeliveryFixture(samples: 0)
        await delivery.exchange.grantConsent(patient: 40001, code: Self.code)
        try await delivery.record(150, frame: Self.frame)
        await delivery.exchange.inject(.lostAnswer, on: [.bundle])
        try await delivery.drain()
        #expect(await Self.counts(delivery.exchange) == (150, 300))
        try await delivery.checkExactlyOnce(450)
        #expect(try await delivery.queue.balance().delivered == 150)
        #expect(await Self.consentsRead(delivery.exchange) == 1)
        let values: [Double] = await delivery.exchange.stored.compactMap {
            $0.dataPoint["body"]?["rr_interval"]?["value"]?.double
        }
        let intervals: Set<Double> = [800 / 1.024, 843 / 1.024]
        #expect(Set(values) == intervals)
        await delivery.exchange.stop()
    }

    @Test func withoutConsentTheHeartRateGoesAloneInFullBundles() async throws {
        let delivery = try await DeliveryFixture(samples: 0)
        try await delivery.record(300, frame: Self.frame)
        try await delivery.drain()
        #expect(await Self.counts(delivery.exchange) == (300, 0))
        #expect(try await delivery.queue.balance().delivered == 300)
        #expect(await Self.consentsRead(delivery.exchange) == 1)
        let bundles = await delivery.exchange.requests.filter { $0.route == .bundle }
        #expect(bundles.compactMap(\.entries) == [100, 100, 100])
        await delivery.exchange.stop()
    }

    @Test func framesWithoutIntervalsAskForNoConsents() async throws {
        let delivery = try await DeliveryFixture(samples: 50)
        try await delivery.drain()
        #expect(await Self.consentsRead(delivery.exchange) == 0)
        await delivery.exchange.stop()
    }

    @Test func consentWithdrawnEndsTheIntervalsAndHoldsNothing() async throws {
        let delivery = try await DeliveryFixture(samples: 0)
        await delivery.exchange.grantConsent(patient: 40001, code: Self.code)
        try await delivery.record(10, frame: Self.frame)
        try await delivery.drain()
        await delivery.exchange.withdrawConsent(patient: 40001, code: Self.code)
        try await delivery.record(200, frame: Self.frame)
        try await delivery.drain()
        #expect(await Self.counts(delivery.exchange) == (210, 20))
        let balance = try await delivery.queue.balance()
        #expect(balance.delivered == 210 && balance.dead == 0 && balance.held.isEmpty)

        // Given again: found out within the hour.
        await delivery.exchange.grantConsent(patient: 40001, code: Self.code)
        delivery.clock.advance(by: .seconds(3_600))
        try await delivery.record(5, frame: Self.frame)
        try await delivery.drain()
        #expect(await Self.counts(delivery.exchange) == (215, 30))
        await delivery.exchange.stop()
    }

    private static func refusals(
        _ delivery: DeliveryFixture
    ) async -> [DataPointBooks.Kind: DataPointBooks.Count] {
        await delivery.runner.facts.dataPoints.counts
    }

    /// All intervals were refused and nothing anywhere said so; after the consent came back none was sent for an
    /// hour.
    @Test func aWithdrawnConsentIsToldAndAConsentThatComesBackIsFoundWithinAMinute() async throws {
        let delivery = try await DeliveryFixture(samples: 0)
        await delivery.exchange.grantConsent(patient: 40001, code: Self.code)
        try await delivery.record(10, frame: Self.frame)
        try await delivery.drain()
        #expect(await delivery.runner.facts.partialFault == nil)
        #expect(
            await Self.refusals(delivery) == [
                .heartRate: .init(delivered: 10), .rrInterval: .init(delivered: 20),
            ])

        await delivery.exchange.withdrawConsent(patient: 40001, code: Self.code)
        try await delivery.record(10, frame: Self.frame)
        try await delivery.drain()
        let told = await delivery.runner.facts.partialFault
        #expect(told?.contains("RR intervals are not sent: the patient has not consented") == true)
        #expect(
            await Self.refusals(delivery) == [
                .heartRate: .init(delivered: 20),
                .rrInterval: .init(delivered: 20, refused: ["no-consent": 20]),
            ])
        let outcomes = try await delivery.queue.uploads().map(\.outcome)
        #expect(outcomes.contains("delivered, RR intervals refused"))

        await delivery.exchange.grantConsent(patient: 40001, code: Self.code)
        delivery.clock.advance(by: .seconds(60))
        try await delivery.record(5, frame: Self.frame)
        try await delivery.drain()
        #expect(await Self.counts(delivery.exchange) == (25, 30))
        #expect(await delivery.runner.facts.partialFault == nil)
        await delivery.exchange.stop()
    }

    @Test func aCodeThatTheExchangeDoesNotKnowIsToldAndTriedAgainAMinuteLater() async throws {
        let delivery = try await DeliveryFixture(samples: 0)
        await delivery.exchange.grantConsent(patient: 40001, code: Self.code)
        await delivery.exchange.forgetCode(Self.code)
        try await delivery.record(10, frame: Self.frame)
        try await delivery.drain()
        #expect(await Self.counts(delivery.exchange) == (10, 0))
        let told = await delivery.runner.facts.partialFault
        #expect(told == "RR intervals are not sent: the exchange does not know their code")
        #expect(await Self.refusals(delivery)[.rrInterval]?.refused == ["code-unknown": 20])
        let reads = await Self.consentsRead(delivery.exchange)
        delivery.clock.advance(by: .seconds(60))
        try await delivery.record(1, frame: Self.frame)
        try await delivery.drain()
        #expect(await Self.consentsRead(delivery.exchange) == reads + 1)
        #expect(try await delivery.queue.balance().delivered == 11)
        await delivery.exchange.stop()
    }

    /// Heart rates that the exchange had stored counted as dead because their intervals were refused.
    @Test func intervalsThatAreRefusedForGoodTakeNothingFromTheHeartRate() async throws {
        let scratch = try Scratch()
        let clock = StillClock()
        let queue = try SampleQueue(path: scratch.path + "/q.sqlite", clock: clock, bootID: "one")
        let enrollment = try await queue.enroll(
            EnrollmentTerms(
                name: "e", origin: "https://exchange.example",
                fhirBase: "https://exchange.example/FHIR/R5", patient: "1", device: "2",
                codeSystem: "s", code: "c", identifierSystem: "i"))
        let sensor = try await queue.addSensor(address: "A0:9E:1A:00:00:01")
        let assignment = try await queue.assign(sensor: sensor.id, enrollment: enrollment.id)
        try await queue.append(contentsOf: [
            Arrival(sensorID: assignment.sensorID, at: clock.read(), frame: Self.frame)
        ])
        try await queue.flush()
        let runner = DeliveryRunner(
            enrollment: enrollment, queue: queue, destination: IntervalRefuser(), clock: clock,
            logger: .quiet)
        _ = await runner.advance()
        try await queue.flush()
        let balance = try await queue.balance()
        #expect(balance.delivered == 1 && balance.dead == 0 && balance.unsent == 0)
        #expect(
            await runner.facts.dataPoints.counts == [
                .heartRate: .init(delivered: 1), .rrInterval: .init(refused: ["refused-422": 2]),
            ])
        try await queue.close()
    }

    @Test func consentsThatCannotBeReadHoldUpNoHeartRate() async throws {
        let delivery = try await DeliveryFixture(samples: 0)
        await delivery.exchange.grantConsent(patient: 40001, code: Self.code)
        await delivery.exchange.inject(.status(500), on: [.account])
        try await delivery.record(20, frame: Self.frame)
        try await delivery.drain()
        #expect(await Self.counts(delivery.exchange) == (20, 0))
        await delivery.exchange.stop()
    }

    /// A proxy's 502 was taken for an exchange that cannot tell, and the intervals were lost.
    @Test(arguments: [ExchangeFault.hangUp, .status(502), .status(503), .status(429)])
    func withoutAnAnswerNothingIsDecided(fault: ExchangeFault) async throws {
        let delivery = try await DeliveryFixture(samples: 0)
        await delivery.exchange.grantConsent(patient: 40001, code: Self.code)
        await delivery.exchange.inject(fault, on: [.account])
        try await delivery.record(20, frame: Self.frame)
        try await delivery.drain()
        #expect(await Self.counts(delivery.exchange) == (20, 40))
        await delivery.exchange.stop()
    }

    @Test func whereTheConsentsAreRedirectedTheExchangeHasMoved() async throws {
        let delivery = try await DeliveryFixture(samples: 0)
        await delivery.exchange.inject(.status(302), on: [.account], for: .untilCleared)
        try await delivery.record(5, frame: Self.frame)
        _ = await delivery.runner.advance()
        #expect(
            try await delivery.queue.balance().held == [HoldReason.moved.rawValue: 5])
        await delivery.exchange.stop()
    }

    @Test func aLostAuthorizationHoldsTheDeliveryBeforeAnyConsentIsRead() async throws {
        let delivery = try await DeliveryFixture(samples: 0)
        await delivery.exchange.revokeTokens()
        await delivery.exchange.cancelInvitations(patient: 40001)
        try await delivery.record(5, frame: Self.frame)
        try await delivery.drain(seconds: 300)
        #expect(
            try await delivery.queue.balance().held == [HoldReason.enrollAgain.rawValue: 5])
        await delivery.exchange.stop()
    }

    @Test func withdrawnHeartRateHoldsTheDeliveryAndGivenAgainDrainsBoth() async throws {
        let delivery = try await DeliveryFixture(samples: 0)
        await delivery.exchange.grantConsent(patient: 40001, code: Self.code)
        await delivery.exchange.withdrawConsent(patient: 40001)
        try await delivery.record(20, frame: Self.frame)
        try await delivery.drain(seconds: 600)
        #expect(
            try await delivery.queue.balance().held == [HoldReason.noConsent.rawValue: 20])
        await delivery.exchange.grantConsent(patient: 40001)
        try await delivery.drain()
        #expect(await Self.counts(delivery.exchange) == (20, 40))
        try await delivery.checkExactlyOnce(60)
        await delivery.exchange.stop()
    }

    @Test(arguments: [Resolution.tenSeconds, .sixtySeconds])
    func averagesGoWithEveryInterval(_ resolution: Resolution) async throws {
        let delivery = try await DeliveryFixture(samples: 0, resolution: resolution)
        await delivery.exchange.grantConsent(patient: 40001, code: Self.code)
        try await delivery.record(120, frame: Self.frame)
        try await delivery.drain()
        let counts = await Self.counts(delivery.exchange)
        #expect(counts.intervals == 240)
        #expect(counts.rates <= (resolution == .tenSeconds ? 13 : 3))
        #expect(try await delivery.queue.balance().delivered == 120)
        await delivery.exchange.stop()
    }
}
