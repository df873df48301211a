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

    @Test(.enabled(if: geteuid() == 0, "mounting a small file system takes root"))
    func aFullDiskLosesNothingAndIsSaid() async throws {
        try await Self.onSmallDisk { fixture, filler in
            _ = try await Self.fill(fixture, filler)
            try Self.makeRoom(filler)
            let status = try await fixture.settle()
            await fixture.expectExactlyOnce(status.balance)
            let sent = await fixture.bluez.framesSentCount(TestWorld.addresses[0])
            #expect(status.balance.received == sent, "what waited in memory is there")
        }
    }

    @Test(.enabled(if: geteuid() == 0, "mounting a small file system takes root"))
    func aStopAndAStartOnAFullDiskLoseNothing() async throws {
        try await Self.onSmallDisk { fixture, filler in
            let before = try await Self.fill(fixture, filler).balance
            let stop = await fixture.gateway.stop()
            #expect(stop.status == 0)
            try await fixture.gateway.start()
            let again = try await fixture.eventually("records on a full disk") { status in
                status.health.contains { $0.name == "store-unwritable" }
                    && status.balance.buffered >= 2
            }.balance
            try Self.makeRoom(filler)
            let status = try await fixture.settle()
            await fixture.expectExactlyOnce(status.balance)
            #expect(status.balance.stored >= before.stored + before.buffered + again.buffered)
        }
    }

    @Test(.enabled(if: geteuid() == 0, "mounting a small file system takes root"))
    func onAFullDiskNothingIsPairedOrForgottenByHalf() async throws {
        try await Self.onSmallDisk { fixture, filler in
            let (worn, other) = (TestWorld.addresses[0], TestWorld.addresses[1])
            _ = try await Self.fill(fixture, filler)
            let pairing = try await fixture.gateway.command(["pair", other, "--enrollment", "e0"])
            #expect(pairing.status == 1)
            #expect(pairing.complaint.contains("disk"), "\(pairing.complaint)")
            #expect(await fixture.bluez.wait { !$0.isConnected(other) }, "its link is undone")
            let forgetting = try await fixture.gateway.command(["forget", worn])
            #expect(forgetting.status == 1, "\(forgetting.complaint)")
            #expect(try await fixture.gateway.status().sensors.map(\.address) == [worn])
            let sent = await fixture.bluez.framesSentCount(worn)
            #expect(await fixture.bluez.wait { $0.framesSentCount(worn) > sent }, "it streams on")
            try Self.makeRoom(filler)
            try await fixture.eventually("room again") { status in
                !status.health.contains { $0.name == "store-unwritable" }
            }
            try await fixture.command("pair", other, "--enrollment", "e0")
            try await fixture.eventually("both deliver") { status in
                status.sensors.count == 2 && status.sensors.allSatisfy { $0.stored > 0 }
            }
            await fixture.expectExactlyOnce(try await fixture.settle().balance)
        }
    }

    /// The filler is emptied first: a child that another test starts may have inherited it, and would keep
    /// its bytes.
    private static func makeRoom(_ filler: String) throws {
        truncate(filler, 0)
        try FileManager.default.removeItem(atPath: filler)
    }

    /// Runs a world whose state directory is on a disk of a megabyte, with a strap on; `body` gets the path
    /// of the file to fill it with.
    private static func onSmallDisk(
        _ body: (TestWorld, String) async throws -> Void
    ) async throws {
        let disk = FileManager.default.temporaryDirectory
            .appending(path: "disk-\(UInt32.random(in: 0 ... .max))").path
        try FileManager.default.createDirectory(atPath: disk, withIntermediateDirectories: true)
        let mounted = try await Command.run(
            "/bin/mount", ["-t", "tmpfs", "-o", "size=1m", "tmpfs", disk])
        try #require(mounted.status == 0)
        var setup = TestWorld.Setup()
        setup.settings = ["EDGE_GATEWAY_STATE": disk + "/state"]
        setup.straps = 2
        try await TestWorld.run(setup) { fixture in
            try await fixture.put(on: 0)
            try await fixture.eventually("samples") { $0.balance.delivered >= 2 }
            try await body(fixture, disk + "/filler")
        }
        _ = try await Command.run("/bin/umount", ["-l", disk])
        try? FileManager.default.removeItem(atPath: disk)
    }

    /// Fills the disk, and waits until that is reported and samples wait in memory.
    private static func fill(_ fixture: TestWorld, _ filler: String) async throws -> GatewayStatus {
        // It ends when the disk is full.
        _ = try await Command.run("/bin/dd", ["if=/dev/zero", "of=\(filler)", "bs=4k"])
        return try await fixture.eventually("a full disk said") { status in
            status.health.contains { $0.name == "store-unwritable" }
                && status.balance.buffered >= 4
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
