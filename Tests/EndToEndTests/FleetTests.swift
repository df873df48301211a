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
        let metrics = try secret(directory, "metrics-token")
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
            "EDGE_GATEWAY_METRICS_TOKEN_FILE": metrics.path,
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
            #expect(try await status(port, "/metrics", fleet.token) == 401)
            #expect(try await status(port, "/metrics", nil) == 401)
            #expect(try await status(port, "/metrics", metrics.token) == 200)
            #expect(try await status(port, "/metrics", page.token) == 200)
            for path in ["/v1/fleet", "/v1/fleet/coverage", "/v1/live/now", "/v1/live"] {
                #expect(try await status(port, path, metrics.token) == 401, "\(path)")
            }
            #expect(try await status(port, "/v1/fleet/coverage", fleet.token) == 200)
            #expect(try await status(port, "/v1/fleet/coverage", nil) == 401)
            let link = try ReportCoding.decoder().decode(
                ShareReport.self, from: Data(try await fixture.command("share", "--json").utf8))
            let shared = try #require(link.link.split(separator: "#").last.map(String.init))
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

            // The statement of completeness: today goes on, and on the days before there was no strap.
            let asked = ["fleet", "coverage"] + words.dropFirst()
            let share = try await fixture.gateway.command(asked + ["--json", "--last", "2d"])
            #expect(share.status == 0, "\(share.complaint)")
            let table = try ReportCoding.decoder().decode(
                FleetCoverageTable.self, from: Data(share.output.utf8))
            #expect(table.rows.count == 3 && table.rows.allSatisfy { $0.gateway == "ward3-07" })
            #expect(table.rows.count { $0.state == .noStrap } == 2)
            let today = try #require(table.rows.first { $0.state == .soFar })
            #expect(today.strap?.isEmpty == false && today.figures?.percent != nil)
            #expect(!share.output.contains(TestWorld.addresses[0]))
            let low = try await fixture.gateway.command(
                asked + ["--day", "today", "--utc", "--target", "0"])
            #expect(low.status == 0 && low.output.contains("so far"), "\(low.output)")
            let csv = try await fixture.gateway.command(asked + ["--csv"])
            #expect(csv.output.hasPrefix("gateway,site,strap,day,state,until,percent,"))
            #expect(csv.output.split(separator: "\n").count == 9)

            await fixture.gateway.kill()
            let silent = try await fixture.gateway.command(asked + ["--last", "1d"])
            #expect(silent.status == 1, "\(silent.complaint)")
            // By the name that it had.
            #expect(silent.output.contains("! ward3-07"), "\(silent.output)")
            #expect(silent.output.contains("not answered"))
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

/// Servers that play a gateway and mean harm, asked by the real program.
@Suite(.serialized) struct HostileGatewayTests {
    private static let server = """
        import http.server, socketserver, sys, threading
        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *words): pass
            def do_GET(self):
                kind = self.server.kind
                if kind == "redirect":
                    self.send_response(302); self.send_header("Location", "http://127.0.0.1:1/"); self.end_headers(); return
                self.send_response(200); self.end_headers()
                try:
                    if kind == "huge":
                        for _ in range(4096): self.wfile.write(b"[" * 65536)
                    elif kind == "steering": self.wfile.write(b'{"gateway":{"name":"\\\\u001b[2J","labels":{}},"version":"\\\\u202e",'
                        b'"well":true,"items":[],"sensors":{"paired":0,"streaming":0,"silent":[]},"backlog":[]}')
                    elif kind == "types": self.wfile.write(b'{"gateway":7,"items":"x"}')
                    elif kind == "cut": self.wfile.write(b'{"gateway":')
                except OSError: pass
        for kind in sys.argv[1:]:
            one = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
            one.kind = kind
            threading.Thread(target=one.serve_forever, daemon=True).start()
            print(one.server_address[1], flush=True)
        sys.stdin.read()
        """

    /// The first lines that a program writes; fewer if it ends.
    private func lines(_ count: Int, of pipe: Pipe) -> [String] {
        var text = Data()
        while text.count(where: { $0 == 0x0A }) < count {
            let more = pipe.fileHandleForReading.availableData
            guard !more.isEmpty else { break }
            text += more
        }
        return String(decoding: text, as: UTF8.self).split(separator: "\n").map(String.init)
    }

    @Test func aHostileGatewayIsAFaultOfItsRowAndNothingElse() async throws {
        let directory = FileManager.default.temporaryDirectory
            .appending(path: "hostile-\(UInt32.random(in: 0 ... .max))")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: directory) }
        let kinds = ["redirect", "huge", "steering", "types", "cut"]
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/python3")
        process.arguments = ["-c", Self.server] + kinds
        let output = Pipe()
        let input = Pipe()
        process.standardOutput = output
        process.standardInput = input
        try process.run()
        defer {
            try? input.fileHandleForWriting.close()
            process.waitUntilExit()
        }
        let ports = lines(kinds.count, of: output)
        try #require(ports.count == kinds.count)
        var hosts = "gateways:\n"
        for (kind, port) in zip(kinds, ports) {
            hosts += "  - {name: \(kind), address: \"http://127.0.0.1:\(port)\"}\n"
        }
        let file = directory.appending(path: "hosts.yaml").path
        try hosts.write(toFile: file, atomically: true, encoding: .utf8)
        let program = GatewayProcess.program("edge-gateway").path
        let words = ["fleet", "--hosts", file, "--state", directory.path + "/memory.json"]
        let outcome = try await Command.run(program, words + ["--json"])
        #expect(outcome.status == 1, "\(outcome.complaint)")
        let report = try ReportCoding.decoder().decode(
            FleetHostsReport.self, from: Data(outcome.output.utf8))
        let items = Dictionary(
            uniqueKeysWithValues: report.gateways.map { ($0.name, $0.items.map(\.name)) })
        #expect(
            items == [
                "redirect": ["answer-refused"], "huge": ["answer-unusable"], "steering": [],
                "types": ["answer-unusable"], "cut": ["answer-unusable"],
            ])
        let text = try await Command.run(program, words)
        #expect(!text.output.contains("\u{1B}") && !text.output.contains("\u{202E}"))
        #expect(text.output.split(separator: "\n").allSatisfy { $0.count <= 80 })
    }

    @Test func thePageServesTheTilesAndTheRowsOnThisMachineOnly() async throws {
        let port = Int.random(in: 20_000..<32_000)
        let directory = FileManager.default.temporaryDirectory.appending(path: "page-\(port)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: directory) }
        let file = directory.appending(path: "hosts.yaml").path
        try "gateways:\n  - {name: nobody, address: \"http://127.0.0.1:1\"}\n".write(
            toFile: file, atomically: true, encoding: .utf8)
        let program = GatewayProcess.program("edge-gateway")
        let words = [
            "fleet", "--hosts", file, "--state", directory.path + "/memory.json", "--page",
        ]
        let far = try await Command.run(program.path, words + ["0.0.0.0:\(port)"])
        #expect(far.status == 2 && far.complaint.contains("no token"))

        let process = Process()
        process.executableURL = program
        process.arguments = words + ["127.0.0.1:\(port)"]
        let said = Pipe()
        process.standardError = said
        try process.run()
        defer {
            process.terminate()
            process.waitUntilExit()
        }
        #expect(lines(1, of: said).first?.contains("127.0.0.1:\(port)") == true)
        func curl(_ path: String, _ words: [String] = []) async throws -> String {
            try await Command.run(
                "/usr/bin/curl", ["-si"] + words + ["http://127.0.0.1:\(port)\(path)"]
            ).output
        }
        let rows = try await curl("/v1/fleet/hosts")
        #expect(rows.contains("200 OK") && rows.contains("\"state\":\"gone\""))
        let page = try await curl("/")
        #expect(page.contains("Gateways") && page.contains("default-src 'none'"))
        #expect(try await curl("/", ["-H", "Host: evil.example"]).contains("421"))
    }
}
