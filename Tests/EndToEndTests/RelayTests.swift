import Foundation
import Testbed
import Testing

/// The real program as a gateway, with a strap, and as its relay, with a nats-server between.
@Suite(.serialized) struct RelayTests {
    private static let program = GatewayProcess.program("edge-gateway").path
    private static let key = Data(
        "practitionerStandInClient0000000000000000:practitionerStandInSecret".utf8
    ).base64EncodedString()

    private static func relay(_ words: String...) async throws -> String {
        let outcome = try await Command.run(program, ["relay"] + words)
        guard outcome.status == 0 else {
            throw SystemFault("relay \(words[0]) left with \(outcome.status): \(outcome.complaint)")
        }
        return outcome.output.trimmingCharacters(in: .whitespacesAndNewlines)
    }

    @Test func aStrapDeliversThroughARelayAndTheGatewayHoldsNoToken() async throws {
        let directory = FileManager.default.temporaryDirectory
            .appending(path: "relay-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: directory) }
        func path(_ name: String) -> String { directory.appending(path: name).path }
        let cluster = try await NATSCluster.start(users: [
            .gateway("ward", key: try await Self.relay("key", path("ward.seed"))),
            .relay(key: try await Self.relay("key", path("relay.seed"))),
        ])
        let outcome: Result<Void, any Error>
        do {
            var setup = TestWorld.Setup()
            setup.settings = ["EDGE_GATEWAY_UPLINK_CA_FILE": cluster.authorityFile]
            outcome = .success(
                try await TestWorld.run(setup) { try await Self.deliver($0, cluster, path) })
        } catch {
            outcome = .failure(error)
        }
        await cluster.stop()
        try outcome.get()
    }

    private static func deliver(
        _ world: TestWorld, _ cluster: NATSCluster, _ path: (String) -> String
    ) async throws {
        let addresses = await cluster.addresses
        let files = [
            "practitioner-key": key, "patients": "# gateway  patient\n",
            "relay.yaml": """
            nats:
              servers: [\(addresses)]
              ca_file: \(cluster.authorityFile)
              seed_file: relay.seed
            exchange:
              url: \(world.exchange.baseURL)
              key_file: practitioner-key
              device: "70007"
            patients_file: patients
            """,
        ]
        for (name, text) in files {
            try #require(
                FileManager.default.createFile(
                    atPath: path(name), contents: Data(text.utf8),
                    attributes: [.posixPermissions: 0o600]))
        }
        let words = ["destination", "add", "nats", "url=\(addresses)", "gateway=ward"]
        // Nothing is stored before a relay answers.
        let early = try await world.gateway.command(words + ["seed=@\(path("ward.seed"))"])
        #expect(early.status != 0 && early.complaint.contains("no relay listens"), "\(early)")
        let process = try await ChildProcess.launch(
            program, ["relay", "--config", path("relay.yaml")],
            environment: ["PATH": "/usr/bin:/bin"], log: path("relay.log"))
        var added = early
        for _ in 0..<100 where added.status != 0 {
            try await Task.sleep(for: .milliseconds(200))
            added = try await world.gateway.command(words + ["seed=@\(path("ward.seed"))"])
        }
        #expect(added.status == 0 && added.output.contains("a relay answers"), "\(added)")
        let patient = "\(TestWorld.patients[0])"
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
        _ = try await relay("allow", "ward", patient, "--table", path("patients"))
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
        await process.stop()
    }
}
