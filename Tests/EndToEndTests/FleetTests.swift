import Foundation
import Testbed
import Testing

@testable import EdgeGateway

/// The fleet's screen with the real program on both sides.
@Suite(.serialized) struct FleetCommandTests {
    private static func port() -> Int { Int.random(in: 20_000..<32_000) }

    private func secret(_ fixture: URL, _ name: String) throws -> (token: String, path: String) {
        let token = Shares.token()
        let path = fixture.appending(path: name).path
        #expect(
            FileManager.default.createFile(
                atPath: path, contents: Data(token.utf8), attributes: [.posixPermissions: 0o600]))
        return (token, path)
    }

    private func status(_ port: Int, _ path: String, _ token: String?) async throws -> Int {
        let words = token.map { ["-H", "Authorization: Bearer \($0)"] } ?? []
        let outcome = try await Command.run(
            "/usr/bin/curl",
            ["-s", "--max-time", "2", "-o", "/dev/null", "-w", "%{http_code}"] + words
                + ["http://127.0.0.1:\(port)\(path)"])
        return Int(outcome.output) ?? 0
    }

    @Test func anOperatorSeesWhoIsWellWhoIsNotAndWhoIsGone() async throws {
        let port = Self.port()
        let directory = FileManager.default.temporaryDirectory.appending(path: "fleet-\(port)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: directory) }
        let fleet = try secret(directory, "fleet-token")
        let page = try secret(directory, "page-token")
        let hosts = directory.appending(path: "hosts.yaml").path
        try """
        token_file: fleet-token
        gateways:
          - address: http://127.0.0.1:\(port)
            labels: {floor: 3}
        """.write(toFile: hosts, atomically: true, encoding: .utf8)
        let settings = [
            "EDGE_GATEWAY_PAGE_LISTEN": "0.0.0.0:\(port)",
            "EDGE_GATEWAY_PAGE_TOKEN_FILE": page.path,
            "EDGE_GATEWAY_FLEET_TOKEN_FILE": fleet.path,
            "EDGE_GATEWAY_GATEWAY_NAME": "ward3-07", "EDGE_GATEWAY_GATEWAY_SITE": "Ward 3",
        ]
        try await TestWorld.run(settings: settings) { fixture in
            try await fixture.put(on: 0)
            try await fixture.eventually("is well") { $0.health.isEmpty && $0.balance.stored > 0 }

            // One scope a token.
            #expect(try await status(port, "/v1/fleet", nil) == 401)
            #expect(try await status(port, "/v1/fleet", fleet.token) == 200)
            #expect(try await status(port, "/v1/fleet", page.token) == 200)
            for path in ["/v1/live/now", "/v1/live", "/v1/live/uploads"] {
                #expect(try await status(port, path, fleet.token) == 401, "\(path)")
            }
            #expect(try await status(port, "/metrics", fleet.token) == 404)
            let share = try ReportCoding.decoder().decode(
                ShareReport.self, from: Data(try await fixture.command("share", "--json").utf8))
            let shared = try #require(share.link.split(separator: "#").last.map(String.init))
            #expect(try await status(port, "/v1/fleet", shared) == 401)

            let words = ["fleet", "--hosts", hosts, "--state", directory.path + "/memory.json"]
            let json = try await fixture.gateway.command(words + ["--json"])
            #expect(json.status == 0, "\(json.complaint)")
            let report = try ReportCoding.decoder().decode(
                FleetHostsReport.self, from: Data(json.output.utf8))
            let row = try #require(report.gateways.first)
            #expect(row.name == "ward3-07" && row.site == "Ward 3" && row.labels == ["floor": "3"])
            #expect(row.state == .well && row.sensors?.paired == 1)
            #expect(!json.output.contains(TestWorld.addresses[0]))
            #expect(!json.output.contains("40001") && !json.output.contains("bpm"))

            await fixture.gateway.kill()
            let text = try await fixture.gateway.command(words)
            #expect(text.status == 1, "\(text.complaint)")
            #expect(text.output.contains("1 gone") && text.output.contains("ward3-07"))
            #expect(text.output.contains("no-answer"))
            #expect(text.output.split(separator: "\n").allSatisfy { $0.count <= 80 })

            try "gateways:\n  - adress: x\n".write(
                toFile: hosts, atomically: true, encoding: .utf8)
            let wrong = try await fixture.gateway.command(words)
            #expect(wrong.status == 2 && wrong.complaint.contains("line 2"))
        }
    }
}
