import Foundation
import Testbed
import Testing

@testable import EdgeGateway

/// The page's server and its links, with a client that is not ours (curl).
@Suite(.serialized) struct LivePageTests {
    private static func port() -> Int { Int.random(in: 20_000..<32_000) }

    /// Runs curl against the page and returns status and body; a stream ends after `seconds`.
    private func curl(
        _ port: Int, _ path: String, _ words: [String] = [], seconds: Int = 10
    ) async throws -> (status: Int, body: String) {
        let outcome = try await Command.run(
            "/usr/bin/curl",
            ["-sN", "--max-time", "\(seconds)", "-w", "\n%{http_code}"] + words
                + ["http://127.0.0.1:\(port)\(path)"])
        let lines = outcome.output.split(separator: "\n", omittingEmptySubsequences: false)
        return (
            Int(lines.last ?? "") ?? 0, lines.dropLast().joined(separator: "\n")
        )
    }

    private func post(_ body: String, _ words: [String] = []) -> [String] {
        ["-X", "POST", "-H", "Content-Type: application/json", "-d", body] + words
    }

    @Test func aBeatIsOnThePageOfThisMachineWithoutAnAddressOrAPatient() async throws {
        let port = Self.port()
        try await TestWorld.run(settings: ["EDGE_GATEWAY_PAGE_LISTEN": "127.0.0.1:\(port)"]) {
            fixture in
            try await fixture.put(on: 0)
            let page = try await curl(port, "/", ["-i"])
            #expect(page.status == 200 && page.body.contains("default-src 'none'"))
            #expect(page.body.contains("nonce-") && !page.body.contains("{{NONCE}}"))
            let live = try await curl(port, "/v1/live", ["-i"], seconds: 3)
            #expect(live.body.lowercased().contains("x-accel-buffering: no"))
            #expect(live.body.contains("event: straps") && live.body.contains("event: gateway"))
            #expect(live.body.contains("\"bpm\":"))
            #expect(!live.body.contains(TestWorld.addresses[0]) && !live.body.contains("40001"))
            let history = try await curl(port, "/v1/live/history?assignment=1&minutes=10")
            #expect(history.status == 200 && history.body.contains("\"bucket_seconds\":5"))
            #expect(try await curl(port, "/v1/live/history?assignment=1&minutes=11").status == 400)
            #expect(try await curl(port, "/v1/live/history?assignment=9&minutes=10").status == 400)
            #expect(try await curl(port, "/v1/live/uploads").status == 200)
            #expect(try await curl(port, "/metrics").body.contains("edge_gateway_well"))
            // Another site's name that leads here.
            #expect(try await curl(port, "/", ["-H", "Host: evil.example"]).status == 421)
            // Nothing can be changed here, and a form of another site gets nowhere.
            #expect(try await curl(port, "/v1/forget", post("{}")).status == 404)
            #expect(try await curl(port, "/v1/session", ["-d", "token=x"]).status == 415)
        }
    }

    @Test func whoHasAShareSeesRatesOnlyAndUntilItIsStopped() async throws {
        let port = Self.port()
        let token = Shares.token()
        let file = FileManager.default.temporaryDirectory.appending(path: "page-token-\(port)")
        try token.write(to: file, atomically: true, encoding: .utf8)
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: file.path)
        defer { try? FileManager.default.removeItem(at: file) }
        let settings = [
            "EDGE_GATEWAY_PAGE_LISTEN": "0.0.0.0:\(port)",
            "EDGE_GATEWAY_PAGE_TOKEN_FILE": file.path,
            "EDGE_GATEWAY_PAGE_ORDER": "Strap 2",
        ]
        try await TestWorld.run(straps: 2, settings: settings) { fixture in
            try await fixture.put(on: 0)
            try await fixture.put(on: 1)
            #expect(try await curl(port, "/v1/live").status == 401)
            #expect(try await curl(port, "/metrics").status == 401)
            let whole = try await curl(
                port, "/v1/live", ["-H", "Authorization: Bearer \(token)"], seconds: 2)
            #expect(whole.body.contains("\"scope\":\"full\""))
            let now = try await curl(
                port, "/v1/live/now", ["-H", "Authorization: Bearer \(token)"])
            let places = try ReportCoding.decoder().decode(
                LiveReport.self, from: Data(now.body.utf8))
            #expect(places.straps.map(\.sensor) == [2, 1], "\(places.straps.map(\.name))")

            let printed = try await fixture.command(
                "share", "--strap", TestWorld.addresses[1], "--json")
            let report = try ReportCoding.decoder().decode(
                ShareReport.self, from: Data(printed.utf8))
            let link = report.link
            let shared = try #require(link.split(separator: "#").last.map(String.init))
            let session = try await curl(
                port, "/v1/session", post(#"{"token":"\#(shared)"}"#, ["-i"]))
            #expect(session.status == 204)
            #expect(session.body.contains("HttpOnly; SameSite=Strict"))
            let cookie = ["-H", "Cookie: edge-gateway=\(shared)"]
            let live = try await curl(port, "/v1/live", cookie, seconds: 3)
            #expect(live.body.contains("\"scope\":\"share\"") && live.body.contains("\"bpm\":"))
            #expect(live.body.contains("\"sensor\":2") && !live.body.contains("\"sensor\":1"))
            for hidden in ["event: gateway", "battery", "link", "contact", "rr_ms", "enroll"] {
                #expect(!live.body.contains(hidden), "\(hidden)")
            }
            #expect(
                try await curl(port, "/v1/live/history?assignment=1&minutes=10", cookie).status
                    == 400)
            let history = try await curl(port, "/v1/live/history?assignment=2&minutes=10", cookie)
            #expect(history.status == 200 && !history.body.contains("cause"))
            #expect(try await curl(port, "/v1/live/uploads", cookie).status == 401)

            // A stream that runs ends with the share.
            let heard = fixture.gateway.directory.appending(path: "heard").path
            async let running = curl(port, "/v1/live", cookie + ["-o", heard], seconds: 60)
            try await fixture.eventually("the stream runs") { _ in
                (try? Data(contentsOf: URL(fileURLWithPath: heard)))?.isEmpty == false
            }
            try await fixture.command("share", "--stop")
            #expect(try await running.status == 200)
            #expect(try await curl(port, "/v1/live", cookie).status == 401)
            #expect(!fixture.gateway.logTail(lines: 1000).contains(shared))
            // A minute may end meanwhile, and the counting begin anew.
            var statuses: Set<Int> = []
            for _ in 0...2 * PageAccess.wrongPerMinuteMax where !statuses.contains(429) {
                statuses.insert(
                    try await curl(port, "/v1/session", post(#"{"token":"guess"}"#)).status)
            }
            #expect(statuses == [401, 429])
        }
    }

    /// The family of one patient saw the next one live, and the next one's chart showed the patient before.
    @Test func aLinkToAStrapIsToOnePatientsHeartRate() async throws {
        let port = Self.port()
        try await TestWorld.run(settings: ["EDGE_GATEWAY_PAGE_LISTEN": "127.0.0.1:\(port)"]) {
            fixture in
            func cookie() async throws -> [String] {
                let printed = try await fixture.command(
                    "share", "--strap", TestWorld.addresses[0], "--json")
                let report = try ReportCoding.decoder().decode(
                    ShareReport.self, from: Data(printed.utf8))
                return [
                    "-H", "Cookie: edge-gateway=\(report.link.split(separator: "#").last ?? "")",
                ]
            }
            func live(_ cookie: [String]) async throws -> [LiveStrap] {
                let now = try await curl(port, "/v1/live/now", cookie).body
                return try ReportCoding.decoder().decode(LiveReport.self, from: Data(now.utf8))
                    .straps
            }
            func chart(_ assignment: Int, _ cookie: [String]) async throws -> LiveHistoryReport? {
                let path = "/v1/live/history?assignment=\(assignment)&minutes=10"
                let body = try await curl(port, path, cookie).body
                return try? ReportCoding.decoder().decode(
                    LiveHistoryReport.self, from: Data(body.utf8))
            }
            try await fixture.put(on: 0)
            let first = try await cookie()
            try await fixture.eventually("the first patient has a chart") { _ in
                try await chart(1, first)?.points.isEmpty == false
            }
            #expect(try await live(first).map(\.assignment) == [1])

            let link = await fixture.exchange.invite(patient: TestWorld.patients[1])
            try await fixture.command("enroll", "-", "--name", "next", input: link)
            let began = Date()
            try await fixture.command("pair", TestWorld.addresses[0], "--enrollment", "next")
            #expect(try await live(first).isEmpty)
            #expect(try await live([]).map(\.assignment) == [2])
            let second = try await cookie()
            for assignment in [1, 2] { #expect(try await chart(assignment, first) == nil) }
            try await fixture.eventually("the next patient has a chart") { _ in
                try await chart(2, second)?.points.isEmpty == false
            }
            let report = try #require(try await chart(2, second))
            #expect(report.points.allSatisfy { $0.at.addingTimeInterval(5) > began })
            #expect(report.gaps.allSatisfy { $0.from > began.addingTimeInterval(-1) })
            #expect(try await chart(1, second) == nil)
        }
    }

    /// A link that had ended turned into the whole page.
    @Test func aLinkThatHasEndedIsNotTheWholePageUntilThePageIsOpenedAgain() async throws {
        let port = Self.port()
        try await TestWorld.run(settings: ["EDGE_GATEWAY_PAGE_LISTEN": "127.0.0.1:\(port)"]) { _ in
            let cookie = ["-i", "-H", "Cookie: edge-gateway=\(Shares.token())"]
            let live = try await curl(port, "/v1/live", cookie)
            #expect(live.status == 401 && !live.body.lowercased().contains("set-cookie"))
            let page = try await curl(port, "/", cookie)
            #expect(page.status == 200 && page.body.contains("edge-gateway=; Path=/"))
            #expect(page.body.contains("Max-Age=0"))
            #expect(try await curl(port, "/v1/live/now").status == 200)
            #expect(try await !curl(port, "/", ["-i"]).body.lowercased().contains("set-cookie"))
        }
    }

    @Test func othersAreNotListenedToWithoutAToken() async throws {
        let settings = ["EDGE_GATEWAY_PAGE_LISTEN": "0.0.0.0:\(Self.port())"]
        try await TestWorld.run(settings: settings) { fixture in
            // Recording does not depend on the page.
            try await fixture.put(on: 0)
            let status = try await fixture.eventually("says that there is no page") { status in
                status.balance.stored >= 2
                    && status.health.contains { $0.name == "page-unavailable" }
            }
            let item = status.health.first { $0.name == "page-unavailable" }
            #expect(item?.message.contains("page.token_file") == true)
            let check = try await fixture.gateway.command(["config", "check"])
            #expect(check.status == 1)
            #expect(check.complaint.contains("page.token_file"))
        }
    }

    /// Prometheus's own parser, and the sums of docs/operate/operations.md over what it read.
    private static let judge = """
        import sys
        from prometheus_client.parser import text_string_to_metric_families as parse
        values, kinds = {}, set()
        for family in parse(sys.stdin.read()):
            kinds.add(family.type)
            for sample in family.samples:
                values.setdefault(sample.name.removeprefix("edge_gateway_"), []).append(sample.value)
        total = lambda name: sum(values.get(name, []))
        assert kinds == {"counter", "gauge"}, kinds
        stored = total("samples_stored_total")
        assert stored > 0
        assert total("frames_received_total") == stored + total("frames_undecodable_total") \\
            + total("frames_refused_total")
        assert stored == total("samples_delivered_total") + total("samples_pending") \\
            + total("samples_held") + total("samples_dead") + total("samples_dropped_total")
        print("read", len(values))
        """

    @Test func prometheusReadsTheMetricsAndTheSumsHold() async throws {
        let root = URL(filePath: #filePath).deletingLastPathComponent()
            .deletingLastPathComponent().deletingLastPathComponent()
        let port = Self.port()
        try await TestWorld.run(settings: ["EDGE_GATEWAY_PAGE_LISTEN": "127.0.0.1:\(port)"]) {
            fixture in
            try await fixture.put(on: 0)
            try await fixture.eventually("samples") { $0.balance.delivered >= 1 }
            _ = try await fixture.settle()
            let text = try await curl(port, "/metrics").body
            #expect(!text.contains(TestWorld.addresses[0]) && !text.contains("40001"))
            let outcome = try await Command.run(
                root.appending(path: ".build-oracles/bin/python").path, ["-c", Self.judge],
                input: text + "\n")
            #expect(outcome.status == 0, "\(outcome.complaint)")
        }
    }

    @Test func watchWritesALineForEachFrame() async throws {
        try await TestWorld.run { fixture in
            try await fixture.put(on: 0)
            let text = try await fixture.command("watch", "--for", "4s")
            #expect(text.contains(" bpm") && text.split(separator: "\n").count >= 2)
            let json = try await fixture.command("watch", "--for", "2s", "--json")
            let line = try #require(json.split(separator: "\n").first)
            let report = try ReportCoding.decoder().decode(
                LiveReport.self, from: Data(line.utf8))
            #expect(report.straps.first?.name == "Strap 1")
            let outcome = try await fixture.gateway.command([
                "watch", "--strap", "C0:00:00:00:00:99",
            ])
            #expect(outcome.status == 2)
        }
    }
}

@Suite(.serialized) struct DoctorCommandTests {
    @Test func aReportHoldsNoSecretPatientOrAddress() async throws {
        try await TestWorld.run { fixture in
            try await fixture.put(on: 0)
            try await fixture.eventually("delivered") { $0.balance.delivered > 0 }
            let printed = try await fixture.gateway.command(["doctor"])
            #expect(
                printed.output.contains("ok   store:") && printed.output.contains("ok   exchange:"))
            let file = fixture.gateway.directory.appending(path: "report.txt").path
            try await fixture.command("bugreport", "--output", file)
            let text = try String(contentsOfFile: file, encoding: .utf8)
            for section in ["== doctor", "== settings", "== status", "\"delivered\""] {
                #expect(text.contains(section))
            }
            #expect(!text.contains(TestWorld.addresses[0]) && !text.contains("40001"))
            let state = fixture.gateway.directory.appending(path: "state/tokens-1.json")
            let tokens = try String(contentsOf: state, encoding: .utf8)
            let secrets = tokens.split { !$0.isLetter && !$0.isNumber }.filter { $0.count >= 24 }
            #expect(!secrets.isEmpty)
            for secret in secrets { #expect(!text.contains(secret)) }
            let mode = try FileManager.default.attributesOfItem(atPath: file)[.posixPermissions]
            #expect(mode as? Int == 0o600)
            // What is there already is not overwritten.
            #expect(try await fixture.gateway.command(["bugreport", "--output", file]).status == 2)
            #expect(try String(contentsOfFile: file, encoding: .utf8) == text)
        }
    }

    @Test func aReportOfTheMachineIsWrittenOnceAndHoldsNoPatientOrAddress() async throws {
        try await TestWorld.run { fixture in
            try await fixture.put(on: 0)
            try await fixture.eventually("delivered") { $0.balance.delivered > 0 }
            let file = fixture.gateway.directory.appending(path: "pi.txt").path
            let printed = try await fixture.gateway.command(["doctor", "--report", file])
            #expect(printed.output.contains("wrote \(file)"))
            let text = try String(contentsOfFile: file, encoding: .utf8)
            for fact in [
                "== machine", "page size: ", "kernel: ", "== packages", "memory of its own: ",
                "written to disks: ", "queue.sqlite: ", "== clock", "; the books balance",
                "== gaps",
                "strap-1 ",
            ] {
                #expect(text.contains(fact), "\(fact) in \(text)")
            }
            #expect(text.contains(#/first sample: [0-9.]+ s after power-on/#))
            #expect(!text.contains(TestWorld.addresses[0]) && !text.contains("40001"))
            let mode = try FileManager.default.attributesOfItem(atPath: file)[.posixPermissions]
            #expect(mode as? Int == 0o600)
            let again = try await fixture.gateway.command(["doctor", "--report", file])
            #expect(again.status == 2)
            #expect(try String(contentsOfFile: file, encoding: .utf8) == text)
            // A place among the gateway's own files.
            let own = fixture.gateway.directory.appending(path: "state/report.txt").path
            #expect(try await fixture.gateway.command(["doctor", "--report", own]).status == 2)
            #expect(!FileManager.default.fileExists(atPath: own))
        }
    }
}
