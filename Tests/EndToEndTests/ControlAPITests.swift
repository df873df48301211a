import Foundation
import Testbed
import Testing

/// The control socket of the real binary, with something in every list, by people who know nothing of it
/// but docs/api.yaml.
@Suite(.serialized) struct ControlAPITests {
    private static let root = URL(filePath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent()

    @Test func everyAnswerIsAsTheDocumentSays() async throws {
        let settings = ["EDGE_GATEWAY_PAGE_LISTEN": "127.0.0.1:\(Int.random(in: 20_000..<32_000))"]
        try await TestWorld.run(straps: 2, settings: settings, starts: false) { fixture in
            try Data("no database here".utf8).write(
                to: fixture.gateway.directory.appending(path: "state/queue.sqlite"))
            try await fixture.gateway.start()
            try await fill(fixture)
            let files = fixture.gateway.directory.appending(path: "delivered")
            try FileManager.default.createDirectory(at: files, withIntermediateDirectories: true)
            let outcome = try await Command.run(
                Self.root.appending(path: ".build-oracles/bin/python").path,
                [
                    Self.root.appending(path: "Tests/Conformance/control_api.py").path,
                    fixture.gateway.directory.appending(path: "control.sock").path, files.path,
                ])
            #expect(outcome.status == 0, "\(outcome.output)\n\(outcome.complaint)")
            let status = try await fixture.gateway.status()
            #expect(status.balance.balanced && status.balance.addsUp)
        }
    }

    /// Sensors, assignments, samples that are held, dead and delivered, a gap, uploads and a salvage.
    private func fill(_ fixture: TestWorld) async throws {
        try await fixture.command("pair", TestWorld.addresses[0])
        try await fixture.eventually("samples") { $0.balance.stored >= 3 }
        try await fixture.command("queue", "export", "held.ndjson")
        let lines = try String(
            contentsOf: fixture.gateway.directory.appending(path: "held.ndjson"), encoding: .utf8)
        for uuid in lines.matches(of: /"uuid":"([^"]+)"/).prefix(2) {
            await fixture.exchange.refuse(String(uuid.output.1))
        }
        try await fixture.put(on: 0)
        try await fixture.command("pair", TestWorld.addresses[1])
        await fixture.bluez.setOnAir(TestWorld.addresses[1], false)
        await fixture.bluez.drop(TestWorld.addresses[1])
        try await fixture.eventually("dead letters and deliveries") {
            $0.balance.dead == 2 && $0.balance.delivered > 0
        }
        let gaps = try await fixture.command("gaps", "--json")
        #expect(gaps.contains("cause"))
    }
}
