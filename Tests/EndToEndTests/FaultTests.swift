import Foundation
import Testbed
import Testing

@Suite(.serialized) struct FaultTests {
    @Test func aKilledDaemonLosesNothingCommittedAndDeliversNothingTwice() async throws {
        try await TestWorld.run { fixture in
            try await fixture.put(on: 0)
            var committed = 0
            for round in 1...3 {
                let status = try await fixture.eventually("samples in round \(round)") {
                    $0.balance.stored >= committed + 3
                }
                committed = status.balance.stored
                await fixture.gateway.kill()
                try await fixture.gateway.start()
            }
            try await fixture.eventually("streaming again") { $0.balance.stored >= committed + 2 }
            let status = try await fixture.settle()
            #expect(status.balance.stored >= committed)
            // The exchange may have samples of a request whose settlement the kill prevented: they
            // were sent again under the same identity.
            await fixture.expectExactlyOnce(status.balance)
        }
    }

    @Test func sigtermWritesWhatIsInMemoryAndLeavesWithinFiveSeconds() async throws {
        var setup = TestWorld.Setup()
        setup.settings = ["EDGE_GATEWAY_STORAGE_COMMIT_SECONDS": "60"]
        // As fast as the host's, but on a busy machine.
        setup.speed = 1
        try await TestWorld.run(setup) { fixture in
            let clock = try #require(fixture.clock)
            try await fixture.put(on: 0)
            let before = try await fixture.eventually("samples in memory") {
                $0.balance.buffered >= 3
            }
            let asked = clock.seconds
            #expect(await fixture.gateway.stop().status == 0)
            #expect(clock.seconds - asked < 5)
            try await fixture.gateway.start()
            let after = try await fixture.gateway.status()
            #expect(after.balance.stored >= before.balance.stored + before.balance.buffered)
        }
    }

    @Test func aDroppedLinkIsMadeAgain() async throws {
        try await TestWorld.run { fixture in
            try await fixture.put(on: 0)
            let before = try await fixture.eventually("samples") { $0.balance.stored >= 2 }
            await fixture.bluez.drop(TestWorld.addresses[0])
            try await fixture.eventually("samples after the drop") {
                $0.balance.stored >= before.balance.stored + 3
            }
        }
    }

    @Test func aRestartOfBluetoothdIsSurvived() async throws {
        try await TestWorld.run { fixture in
            try await fixture.put(on: 0)
            try await fixture.eventually("samples") { $0.balance.stored >= 2 }
            try await fixture.bluez.setDaemon(running: false)
            try await fixture.eventually("bluetoothd missed") {
                $0.health.contains { $0.name == "bluetoothd-absent" }
            }
            let before = try await fixture.gateway.status().balance.received
            try await fixture.bluez.setDaemon(running: true)
            try await fixture.eventually("samples again") {
                $0.balance.received > before
            }
        }
    }

    @Test func theBusItselfMayGoAway() async throws {
        try await TestWorld.run { fixture in
            try await fixture.put(on: 0)
            try await fixture.eventually("samples") { $0.balance.stored >= 2 }
            await fixture.bus.halt()
            try await fixture.eventually("bus missed") { status in
                status.health.contains { $0.name == "bus-absent" }
            }
            let before = try await fixture.gateway.status().balance.received
            try await fixture.bus.restart()
            try await fixture.eventually("samples again") {
                $0.balance.received > before
            }
        }
    }

    @Test func anExpiredTokenIsRenewedAndDeliveryGoesOn() async throws {
        try await TestWorld.run { fixture in
            try await fixture.put(on: 0)
            try await fixture.eventually("a delivery") { $0.balance.delivered > 0 }
            await fixture.exchange.expireAccessTokens()
            let before = try await fixture.gateway.status().balance.delivered
            try await fixture.eventually("deliveries after") {
                $0.balance.delivered >= before + 3
            }
            let status = try await fixture.settle()
            await fixture.expectExactlyOnce(status.balance)
        }
    }

    @Test func withdrawnConsentHoldsAndNothingIsDropped() async throws {
        try await TestWorld.run { fixture in
            try await fixture.put(on: 0)
            try await fixture.eventually("a delivery") { $0.balance.delivered > 0 }
            await fixture.exchange.withdrawConsent(patient: 40001)
            let held = try await fixture.eventually("held") {
                $0.balance.held["no-consent", default: 0] > 0
            }
            #expect(held.health.contains { $0.name == "consent-missing" })
            #expect(held.balance.dead == 0)
        }
    }

    @Test func logsAndListingsHoldNoSecret() async throws {
        try await TestWorld.run(settings: ["EDGE_GATEWAY_LOG_LEVEL": "debug"]) { fixture in
            let link = await fixture.exchange.invite(patient: 40001)
            try await fixture.command("enroll", "-", input: link)
            try await fixture.command("pair", TestWorld.addresses[0])
            try await fixture.eventually("a delivery") { $0.balance.delivered > 0 }
            await fixture.exchange.expireAccessTokens()
            try await fixture.eventually("more") { $0.balance.delivered > 3 }
            await fixture.gateway.stop()
            let log = try String(contentsOf: fixture.gateway.logFile, encoding: .utf8)
            try #require(!log.isEmpty)
            #expect(!log.contains(String(link.suffix(32))), "the invitation's token")
            #expect(!log.contains(TestWorld.addresses[0]), "a full sensor address")
            #expect(!log.contains("40001"), "a patient id")
            let state = fixture.gateway.directory.appending(path: "state")
            for name in try FileManager.default.contentsOfDirectory(atPath: state.path) {
                let path = state.appending(path: name).path
                let mode = try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions]
                #expect(mode as? Int == 0o600, "\(name)")
                guard name.hasPrefix("tokens-") else { continue }
                let tokens = try JSONSerialization.jsonObject(
                    with: Data(contentsOf: URL(filePath: path)))
                for secret in Self.strings(in: tokens) where secret.count >= 20 {
                    if !secret.hasPrefix("http"), !secret.hasPrefix("edgegateway") {
                        #expect(!log.contains(secret), "a token")
                    }
                }
            }
        }
    }

    private static func strings(in json: Any) -> [String] {
        switch json {
        case let text as String: [text]
        case let list as [Any]: list.flatMap(strings)
        case let map as [String: Any]: map.values.flatMap(strings)
        default: []
        }
    }
}
