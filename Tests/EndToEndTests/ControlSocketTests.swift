import Foundation
import Testbed
import Testing

@testable import EdgeGateway

/// The control socket, with a client that is not ours (curl).
@Suite(.serialized) struct ControlSocketTests {
    struct Answer {
        var status: Int
        var head: String
        var body: String
        var problem: ProblemReport? {
            try? ReportCoding.decoder().decode(ProblemReport.self, from: Data(body.utf8))
        }
    }

    /// Asks the daemon of a fixture.
    static func ask(_ fixture: TestWorld, _ path: String, _ words: [String] = []) async throws
        -> Answer
    {
        let socket = fixture.gateway.directory.appending(path: "control.sock").path
        let outcome = try await Command.run(
            "/usr/bin/curl",
            ["-sS", "--max-time", "30", "--unix-socket", socket, "-D", "/dev/stderr"]
                + ["-w", "\n%{http_code}"] + words + ["http://localhost\(path)"])
        let lines = outcome.output.split(separator: "\n", omittingEmptySubsequences: false)
        return Answer(
            status: Int(lines.last ?? "") ?? 0, head: outcome.complaint,
            body: lines.dropLast().joined(separator: "\n"))
    }

    private func json(_ body: String) -> [String] {
        ["-H", "Content-Type: application/json", "-d", body]
    }

    @Test func whatIsNotAskedRightIsAProblemWithTheStatusThatFits() async throws {
        try await TestWorld.run { fixture in
            for (path, words, status, code) in [
                ("/v1/nothing", [], 404, "not-found"),
                ("/", [], 404, "not-found"),
                ("/v1/queue/dead/4711", [], 404, "unknown-reference"),
                ("/v1/status", ["-X", "DELETE"], 405, "wrong-method"),
                ("/v1/pair", [], 405, "wrong-method"),
                ("/v1/pair", ["-X", "PROPFIND"], 405, "wrong-method"),
                ("/v1/nothing", ["-X", "PUT"], 404, "not-found"),
                ("/v1/queue/dead/1", ["-X", "QUERY"], 405, "wrong-method"),
                ("/v1/forget", ["-d", "{}"], 415, "wrong-type"),
                ("/v1/queue/import/part", json("{}"), 415, "wrong-type"),
                ("/v1/forget", json("{"), 400, "bad-request"),
            ] {
                let answer = try await Self.ask(fixture, path, words)
                #expect(answer.status == status, "\(path) \(words)")
                #expect(answer.problem?.code == code, "\(path) \(words): \(answer.body)")
            }
            let wrong = try await Self.ask(fixture, "/v1/queue/import", ["-X", "PUT"])
            #expect(wrong.head.lowercased().contains("allow: get, head, post"))
            let head = try await Self.ask(fixture, "/v1/status", ["-I"])
            #expect(head.status == 200 && !head.body.contains("uptime_seconds"))
            let large = String(repeating: " ", count: Answers.requestBytesMax + 1)
            let file = fixture.gateway.directory.appending(path: "large").path
            try large.write(toFile: file, atomically: true, encoding: .utf8)
            let tooLarge = try await Self.ask(fixture, "/v1/pair", json("@\(file)"))
            #expect(tooLarge.status == 413 && tooLarge.problem?.code == "too-large")
        }
    }

    /// `sensor=one` used to list all sensors, and `limit=ten` a hundred entries.
    @Test func aQueryThatIsNoNumberIsRefusedAndNotTakenForNone() async throws {
        try await TestWorld.run { fixture in
            for path in [
                "/v1/gaps?sensor=one", "/v1/gaps?days=1.5",
                "/v1/gaps?days=9223372036854775807", "/v1/gaps?days=-9223372036854775808",
                "/v1/history?limit=ten",
                "/v1/history/hours?sensor=", "/v1/queue/samples?sensor=x",
                "/v1/queue/dead?before=%20", "/v1/queue/dead/one", "/v1/sensors?forgotten=yes",
                "/v1/live/history?assignment=1&minutes=ten",
                "/v1/queue/samples?limit=99999999999999999999",
            ] {
                let answer = try await Self.ask(fixture, path)
                #expect(answer.status == 400 && answer.problem?.code == "bad-request", "\(path)")
            }
        }
    }

    /// It used to hand a link out, and then to refuse the phone that opened it.
    @Test func aResolutionThatIsNoneIsRefusedBeforeAPhoneIsFetched() async throws {
        let settings = ["EDGE_GATEWAY_PAGE_LISTEN": "127.0.0.1:\(Int.random(in: 20_000..<32_000))"]
        try await TestWorld.run(settings: settings) { fixture in
            let wrong = try await Self.ask(fixture, "/v1/enroll-web", json(#"{"resolution":"5s"}"#))
            #expect(wrong.status == 400)
            let right = try await Self.ask(
                fixture, "/v1/enroll-web", json(#"{"resolution":"10s"}"#))
            #expect(right.status == 200)
        }
    }

    /// 10,000 may be named; their numbers used not to fit into a request.
    @Test func asManyDeadLettersAsMayBeNamedFitIntoARequest() async throws {
        try await TestWorld.run { fixture in
            let ids = (0..<10_000).map { "\(Int64.max - Int64($0))" }.joined(separator: ",")
            let file = fixture.gateway.directory.appending(path: "ids").path
            try #"{"ids":[\#(ids)]}"#.write(toFile: file, atomically: true, encoding: .utf8)
            let answer = try await Self.ask(fixture, "/v1/queue/dead/requeue", json("@\(file)"))
            #expect(answer.status == 404 && answer.problem?.code == "unknown-reference")
        }
    }

    /// It used to be `suspended(adapter)`, which is no word of the contract, and no page knew it.
    @Test func aSuspendedLinkIsCalledSuspendedWhereverItIsShown() async throws {
        try await TestWorld.run { fixture in
            try await fixture.command("pair", TestWorld.addresses[0])
            await fixture.bluez.unplug("00:1A:7D:DA:71:01")
            try await fixture.eventually("suspended") { $0.sensors.first?.link == "suspended" }
            let live = try await Self.ask(fixture, "/v1/live/now")
            #expect(live.body.contains(#""link":"suspended""#), "\(live.body)")
            let at = try #require(live.body.firstMatch(of: /"at":"([^"]+)"/)).output.1
            #expect(at.wholeMatch(of: /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/) != nil, "\(at)")
        }
    }

    /// The kernel says who may, not the request.
    @Test(.enabled(if: geteuid() == 0, "running as another user takes root"))
    func whoIsNotInTheGroupMayLookAndChangeNothing() async throws {
        let settings = ["EDGE_GATEWAY_CONTROL_CHANGE_GROUP": "daemon"]
        try await TestWorld.run(settings: settings) { fixture in
            let socket = fixture.gateway.directory.appending(path: "control.sock").path
            // Every user who may write the socket may look.
            chmod(fixture.gateway.directory.path, 0o755)
            chmod(socket, 0o666)
            func status(_ words: [String], as group: Int) async throws -> String {
                let outcome = try await Command.run(
                    "/usr/bin/setpriv",
                    ["--reuid=65534", "--regid=\(group)", "--clear-groups", "/usr/bin/curl", "-s"]
                        + ["--unix-socket", socket, "-w", "\n%{http_code}"] + words
                        + ["http://localhost/v1/enroll-web"])
                return outcome.output
            }
            let change = json("{}") + ["-X", "POST"]
            #expect(try await status([], as: 65_534).hasSuffix("200"))
            #expect(try await status(["-I"], as: 65_534).hasSuffix("200"))
            let refused = try await status(change, as: 65_534)
            #expect(refused.hasSuffix("403") && refused.contains("not-permitted"), "\(refused)")
            // The group `daemon` may: there is no page, which is another matter.
            let allowed = try await status(change, as: 1)
            #expect(allowed.hasSuffix("409") && allowed.contains("no-page"), "\(allowed)")
            let root = try await Self.ask(fixture, "/v1/enroll-web", change)
            #expect(root.status == 409)
        }
    }
}
