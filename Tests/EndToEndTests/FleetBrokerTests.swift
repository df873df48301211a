import Foundation
import Testbed
import Testing

@testable import EdgeGateway

/// Two real gateways, a real mosquitto, and the fleet's screen.
@Suite(.serialized) struct FleetBrokerTests {
    private static let publisher = "/usr/bin/mosquitto_pub"
    private static let subscriber = "/usr/bin/mosquitto_sub"

    private func add(
        _ name: String, _ broker: MosquittoBroker, _ gateway: GatewayProcess
    ) async throws {
        let outcome = try await gateway.command([
            "destination", "add", "mqtt", "url=mqtt://127.0.0.1:\(broker.port)",
            "gateway=\(name)", "discovery=on", "--name", "ward",
        ])
        #expect(outcome.status == 0, "\(outcome.complaint)")
    }

    private func publish(
        _ topic: String, _ payload: String, _ broker: MosquittoBroker
    ) async throws {
        let outcome = try await Command.run(
            Self.publisher,
            ["-h", "127.0.0.1", "-p", "\(broker.port)", "-r", "-t", topic]
                + [payload.isEmpty ? "-n" : "-s"], input: payload)
        #expect(outcome.status == 0, "\(outcome.complaint)")
    }

    @Test func gatewaysBehindNATAreOnOneScreen() async throws {
        let needs = MosquittoBroker.needs + [Self.publisher, Self.subscriber]
        let host = try await SystemHost.start("fleet", needs: needs) { $0 }
        defer { Task.detached { await host.stop() } }
        let broker = try await MosquittoBroker.start(on: host)
        let memory = host.path("memory.json")
        let secret = host.path("fleet-secret")
        try #require(
            FileManager.default.createFile(
                atPath: secret, contents: Data(Shares.token().utf8),
                attributes: [.posixPermissions: 0o600]))
        var setup = TestWorld.Setup()
        setup.settings = [
            "EDGE_GATEWAY_GATEWAY_NAME": "ward3-07", "EDGE_GATEWAY_GATEWAY_SITE": "Ward 3",
            "EDGE_GATEWAY_FLEET_SECRET_FILE": secret,
        ]
        try await TestWorld.run(setup) { world in
            try await world.put(on: 0)
            try await world.eventually("is well") { $0.health.isEmpty && $0.balance.stored > 0 }
            // Its page's port is the broker's: it is not well.
            let other = try GatewayProcess(
                busAddress: world.bus.address,
                settings: [
                    "EDGE_GATEWAY_GATEWAY_NAME": "ward3-08",
                    "EDGE_GATEWAY_FLEET_SECRET_FILE": secret,
                    "EDGE_GATEWAY_PAGE_LISTEN": "127.0.0.1:\(broker.port)",
                ])
            try await other.start()
            defer { Task.detached { await other.remove() } }
            try await add("a", broker, world.gateway)
            try await add("b", broker, other)

            func fleet(_ words: String...) async throws -> Command.Outcome {
                let place = ["--mqtt", "mqtt://127.0.0.1:\(broker.port)", "--state", memory]
                let isCoverage = words.first == "coverage"
                return try await world.gateway.command(
                    ["fleet"] + (isCoverage ? ["coverage"] : []) + place
                        + words.dropFirst(isCoverage ? 1 : 0))
            }
            /// The screen, once it is so.
            func screen(
                _ what: String, _ holds: ([String: FleetGateway]) -> Bool
            ) async throws -> [String: FleetGateway] {
                var rows: [String: FleetGateway] = [:]
                for _ in 0..<20 {
                    let outcome = try await fleet("--json")
                    let report = try ReportCoding.decoder().decode(
                        FleetHostsReport.self, from: Data(outcome.output.utf8))
                    rows = Dictionary(report.gateways.map { ($0.name, $0) }) { one, _ in one }
                    if holds(rows) { return rows }
                }
                Issue.record("\(what): \(rows)")
                return rows
            }
            let first = try await screen("both are there") {
                $0["ward3-07"]?.state == .well && $0["ward3-08"]?.state == .notWell
            }
            #expect(first.count == 2 && first["ward3-07"]?.site == "Ward 3")
            #expect(first["ward3-08"]?.items.isEmpty == false)

            // Nothing names a patient, an address or a rate: no strap delivers there.
            let kept = try await Command.run(
                Self.subscriber,
                ["-h", "127.0.0.1", "-p", "\(broker.port)", "-t", "#", "-v", "-W", "2"]
            ).output
            #expect(kept.contains("edge-gateway/a/status online"))
            #expect(kept.contains("edge-gateway/a/sensor/1/link streaming"))
            #expect(kept.contains("homeassistant/device/edge-gateway_a_gateway/config"))
            for hidden in [TestWorld.addresses[0], "00:00:01", "40001", "bpm", "heart-rate"] {
                #expect(!kept.contains(hidden), "\(hidden)")
            }

            // How much data there is goes out as well, and nobody else's days.
            #expect(kept.contains("edge-gateway/a/coverage {"))
            let share = try await fleet("coverage", "--json", "--last", "2d")
            #expect(share.status == 0, "\(share.complaint)")
            let table = try ReportCoding.decoder().decode(
                FleetCoverageTable.self, from: Data(share.output.utf8))
            #expect(Set(table.rows.map(\.gateway)) == ["ward3-07", "ward3-08"])
            #expect(table.rows.count == 6 && table.rows.count { $0.state == .soFar } == 1)

            // A third gateway has the same strap, and each by itself says nothing of it.
            let topic = "edge-gateway/a/health "
            let health = try #require(
                kept.split(separator: "\n").last { $0.hasPrefix(topic) }?.dropFirst(topic.count))
            try await publish("edge-gateway/c/status", "online", broker)
            try await publish(
                "edge-gateway/c/health",
                String(health.replacing("ward3-07", with: "ward3-09")), broker)
            let shared = try await screen("the strap is at both") {
                $0["ward3-07"]?.items.isEmpty == false
            }
            for (name, elsewhere) in [("ward3-07", "ward3-09"), ("ward3-09", "ward3-07")] {
                let item = shared[name]?.items.first { $0.name == "strap-elsewhere" }
                #expect(item?.detail.contains(elsewhere) == true, "\(shared)")
            }
            for part in ["status", "health"] {
                try await publish("edge-gateway/c/\(part)", "", broker)
            }

            // A change does not wait for the minute.
            let began = ContinuousClock.now
            try await world.command("forget", TestWorld.addresses[0])
            _ = try await screen("the strap is gone") { $0["ward3-07"]?.sensors?.paired == 0 }
            #expect(ContinuousClock.now - began < ShowPace.period)
            let cleared = try await Command.run(
                Self.subscriber,
                [
                    "-h", "127.0.0.1", "-p", "\(broker.port)", "-t", "edge-gateway/a/sensor/1/link",
                    "-W", "2",
                ])
            #expect(cleared.output.isEmpty)

            // Whoever may publish means harm.
            try await publish("edge-gateway/evil/status", "online", broker)
            try await publish(
                "edge-gateway/evil/health", "\u{1B}[2J" + String(repeating: "[", count: 200_000),
                broker)
            try await publish(
                "edge-gateway/large/health", String(repeating: "x", count: 1 << 20), broker)
            try await publish("edge-gateway/large/status", "online", broker)
            let evil = try await screen("what is hostile is a row") {
                $0.values.count { $0.items.first?.name == "answer-unusable" } == 2
            }
            #expect(evil.count == 4 && evil["ward3-07"] != nil)

            await other.kill()
            let gone = try await screen("its will came") { $0["ward3-08"]?.state == .gone }
            let row = try #require(gone["ward3-08"])
            #expect(row.lastAnswer != nil && row.since == row.lastAnswer)
            let text = try await fleet()
            #expect(text.status == 1 && text.output.contains("1 gone"), "\(text.complaint)")
            #expect(!text.output.contains("\u{1B}"))
            #expect(text.output.split(separator: "\n").allSatisfy { $0.count <= 80 })

            // Who is removed leaves the screen, and its straps leave the broker.
            try await world.command("pair", TestWorld.addresses[0], "--enrollment", "e0")
            _ = try await screen("the strap is back") { $0["ward3-07"]?.sensors?.paired == 1 }
            try await world.command("destination", "remove", "ward", "--yes")
            _ = try await screen("it is taken away") { $0["ward3-07"] == nil }
            let left = try await Command.run(
                Self.subscriber,
                ["-h", "127.0.0.1", "-p", "\(broker.port)", "-t", "#", "-v", "-W", "2"]
            ).output
            #expect(
                !left.contains("edge-gateway/a/") && !left.contains("edge-gateway_a_"), "\(left)")

            // The same user and password as a destination's.
            let stranger = try await fleet(
                "--user", "gw", "--password-file", try host.write("wrong", to: "wrong"))
            #expect(stranger.status == 1 && stranger.output.contains("CONNACK 135"))
            let reader = try await fleet("--user", "gw", "--password-file", broker.passwordFile)
            #expect(reader.output.contains("the broker has no gateway"))

            let wrong = try await fleet("--password-file", "/nonexistent")
            #expect(wrong.status == 2)
            let both = try await fleet("--hosts", "hosts.yaml")
            #expect(both.status != 0 && both.complaint.contains("--hosts FILE or --mqtt"))
        }
    }
}
