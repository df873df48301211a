import Foundation
import Testbed
import Testing

/// The real program as a gateway, with a strap, and as its relay, with a nats-server between.
@Suite struct RelayTests {
    private static let key = Data(
        "practitionerStandInClient0000000000000000:practitionerStandInSecret".utf8
    ).base64EncodedString()

    @Test func whoeverChangesATableAtOnceLosesNobodysLine() async throws {
        let directory = FileManager.default.temporaryDirectory
            .appending(path: "table-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: directory) }
        let table = directory.appending(path: "patients").path
        let (kept, old, new) = (0..<8, 100..<124, 200..<224)
        func line(_ number: Int) -> String { "ward-\(number)  \(40_000 + number)" }
        let before = (Array(kept) + Array(old)).map(line).joined(separator: "\n") + "\n"
        try #require(
            FileManager.default.createFile(
                atPath: table, contents: Data(before.utf8),
                attributes: [.posixPermissions: 0o640]))
        func change(_ word: String, _ number: Int) async throws {
            _ = try await RelayStage.relay(
                word, "ward-\(number)", "\(40_000 + number)", "--table", table)
        }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (gone, come) in zip(old, new) {
                group.addTask { try await change("forbid", gone) }
                group.addTask { try await change("allow", come) }
            }
            try await group.waitForAll()
        }
        let lines = try String(contentsOfFile: table, encoding: .utf8).split(separator: "\n")
        #expect(lines.map(String.init).sorted() == (Array(kept) + Array(new)).map(line).sorted())
        let mode = try FileManager.default.attributesOfItem(atPath: table)[.posixPermissions]
        #expect(mode as? Int == 0o640)
        #expect(
            try FileManager.default.contentsOfDirectory(atPath: directory.path).sorted()
                == ["patients", "patients.lock"])
    }

    @Test func aStrapDeliversThroughARelayAndTheGatewayHoldsNoToken() async throws {
        try await RelayStage.run { stage in
            try await TestWorld.run(settings: stage.settings) {
                try await Self.deliver($0, stage)
            }
        }
    }

    /// The start refused to record without them.
    @Test(arguments: ["CA_FILE", "CLIENT_CERTIFICATE_FILE"])
    func withoutACertificateThatTheSettingsNameTheGatewayRecordsAndSendsNothing(
        setting: String
    ) async throws {
        try await RelayStage.run { stage in
            try await TestWorld.run(settings: stage.settings) { world in
                let relay = try await stage.start(
                    exchange: world.exchange.baseURL, practitionerKey: Self.key, device: "70007")
                _ = try await stage.addWhenItListens(to: world.gateway)
                let patient = "\(TestWorld.patients[0])"
                try await stage.allow(patient)
                try await world.command(
                    "pair", TestWorld.addresses[0], "--enrollment", "nats", "--patient", patient)
                try await world.eventually("delivered") { $0.balance.delivered >= 3 }
                // Nothing may be under way in the relay when the gateway is stopped.
                _ = try await world.settle()
                await world.gateway.stop()
                let delivered = await world.exchange.storedCount()
                await world.bluez.setSendsFrames(true)
                try await world.gateway.start(
                    with: ["EDGE_GATEWAY_UPLINK_\(setting)": "/nonexistent.pem"])
                let status = try await world.eventually("not well", withinSeconds: 300) { status in
                    status.balance.stored >= delivered + 10
                        && status.health.contains {
                            $0.name == "exchange-unreachable"
                                && $0.message.contains("cannot be read")
                        }
                }
                #expect(status.balance.pending > 0)
                #expect(await world.exchange.storedCount() == delivered)
                await world.gateway.stop()
                try await world.gateway.start()
                let settled = try await world.settle()
                #expect(await world.deliveryFaults(settled.balance) == [])
                await relay.stop()
            }
        }
    }

    private static func deliver(_ world: TestWorld, _ stage: RelayStage) async throws {
        // Nothing is stored before a relay answers.
        let early = try await stage.add(to: world.gateway)
        #expect(early.status != 0 && early.complaint.contains("no relay listens"), "\(early)")
        let relay = try await stage.start(
            exchange: world.exchange.baseURL, practitionerKey: key, device: "70007")
        let added = try await stage.addWhenItListens(to: world.gateway)
        #expect(added.output.contains("a relay answers"), "\(added)")
        let patient = "\(TestWorld.patients[0])"
        let mistyped = try await world.gateway.command([
            "pair", TestWorld.addresses[0], "--enrollment", "nats", "--patient", "4OOO1",
        ])
        #expect(mistyped.status != 0 && mistyped.complaint.contains("is a number"))
        try await world.command(
            "pair", TestWorld.addresses[0], "--enrollment", "nats", "--patient", patient)
        // Not before a person says so at the relay.
        let held = try await world.eventually("held") {
            $0.health.contains { $0.message.contains("wrong-patient") }
        }
        #expect(held.balance.delivered == 0)
        let text = try await world.gateway.command(["status"]).output
        #expect(text.contains("relay allow GATEWAY PATIENT"), "\(text)")
        #expect(await world.exchange.storedCount() == 0)
        try await stage.allow(patient)
        try await world.eventually("delivered") { $0.balance.delivered >= 3 }
        await world.gateway.kill()
        try await world.gateway.start()
        let status = try await world.settle()
        #expect(await world.deliveryFaults(status.balance) == [])
        // What a thief finds: the seed, and nothing that the exchange takes.
        let state = world.gateway.directory.appending(path: "state")
        for name in try FileManager.default.contentsOfDirectory(atPath: state.path)
        where name.hasPrefix("tokens-") {
            let secrets = try String(
                contentsOf: state.appending(path: name), encoding: .utf8)
            #expect(secrets.contains("seed") && !secrets.contains("access"))
        }
        await relay.stop()
    }
}
