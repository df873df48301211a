import OfflineQueue
import Testbed
import Testing

@testable import Uplink

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
        let values = await delivery.exchange.stored.compactMap {
            $0.dataPoint["body"]?["rr_interval"]?["value"]?.double
        }
        #expect(Set(values) == [800 / 1.024, 843 / 1.024])
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

    @Test func consentsThatCannotBeReadHoldUpNoHeartRate() async throws {
        let delivery = try await DeliveryFixture(samples: 0)
        await delivery.exchange.grantConsent(patient: 40001, code: Self.code)
        await delivery.exchange.inject(.status(500), on: [.account])
        try await delivery.record(20, frame: Self.frame)
        try await delivery.drain()
        #expect(await Self.counts(delivery.exchange) == (20, 0))
        await delivery.exchange.stop()
    }

    @Test func withoutANetworkNothingIsDecided() async throws {
        let delivery = try await DeliveryFixture(samples: 0)
        await delivery.exchange.grantConsent(patient: 40001, code: Self.code)
        await delivery.exchange.inject(.hangUp, on: [.account])
        try await delivery.record(20, frame: Self.frame)
        try await delivery.drain()
        #expect(await Self.counts(delivery.exchange) == (20, 40))
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
