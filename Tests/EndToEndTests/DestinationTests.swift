import Foundation
import Testbed
import Testing

/// Destinations beside the exchange, through the real binary.
@Suite struct DestinationTests {
    private struct Listed: Decodable {
        var name: String
        var kind: String
        var place: String
        var state: String
        var held: String?
        var everyStrap: Bool
        var straps: Int
        var keepDays: Int?
        var pending: Int
        var delivered: Int
        var dropped: [String: Int]
    }

    private static func list(_ fixture: TestWorld) async throws -> [Listed] {
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        let text = try await fixture.command("destination", "list", "--json")
        return try decoder.decode([Listed].self, from: Data(text.utf8))
    }

    private static func listed(_ name: String, _ fixture: TestWorld) async throws -> Listed {
        try #require(try await list(fixture).first { $0.name == name })
    }

    /// The identities of the heart rates in a file, and how many patients they name.
    private static func heartRates(_ path: String) throws -> (
        uuids: [String], patients: Set<String>
    ) {
        var uuids: [String] = []
        var patients: Set<String> = []
        for line in try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n") {
            let point = try #require(
                try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
            if let patient = point["patient"] as? String { patients.insert(patient) }
            let content = try #require(point["data_point"] as? [String: [String: Any]])
            guard content["body"]?["heart_rate"] != nil else { continue }
            uuids.append(try #require(content["header"]?["uuid"] as? String))
        }
        return (uuids, patients)
    }

    private static func place(_ fixture: TestWorld, _ name: String = "study.ndjson") -> String {
        fixture.gateway.directory.appending(path: "state/\(name)").path
    }

    /// Waits until nothing waits for any destination; returns how many samples the store has.
    @discardableResult
    private static func settle(_ fixture: TestWorld) async throws -> GatewayStatus {
        let status = try await fixture.settle()
        // A hold is looked at once a minute; its samples follow.
        let deadline = ContinuousClock.now + .seconds(180)
        while try await list(fixture).contains(where: { $0.pending > 0 }) {
            try #require(ContinuousClock.now < deadline, "samples still wait")
            try await Task.sleep(for: .milliseconds(200))
        }
        return status
    }

    @Test func theExchangeAndAFurtherDestinationGetEverySampleOnceAcrossAKill() async throws {
        try await TestWorld.run(straps: 2) { fixture in
            try await fixture.put(on: 0)
            try await fixture.eventually("delivered") { $0.balance.delivered >= 3 }
            let path = Self.place(fixture)
            let output = try await fixture.command(
                "destination", "add", "file", "path=\(path)", "--name", "study", "--every-strap",
                "--from", "kept")
            #expect(output.contains("study delivers to file://\(path)"), "\(output)")
            try await fixture.put(on: 1)
            try await fixture.eventually("both straps") { status in
                status.sensors.count == 2 && status.sensors.allSatisfy { $0.stored >= 5 }
            }
            await fixture.gateway.kill()
            try await fixture.gateway.start()
            try await fixture.eventually("more") { $0.balance.stored >= 20 }
            let status = try await Self.settle(fixture)
            await fixture.expectExactlyOnce(status.balance)
            let (uuids, patients) = try Self.heartRates(path)
            #expect(Set(uuids).count == uuids.count, "twice in the file")
            #expect(uuids.count == status.balance.delivered)
            #expect(patients == Set(TestWorld.patients.prefix(2).map { "\($0)" }))
            let study = try await Self.listed("study", fixture)
            #expect(study.delivered == status.balance.delivered && study.straps == 2)
            let text = try await fixture.command("status")
            #expect(text.contains("study"), "\(text)")
        }
    }

    @Test func twoDestinationsAreComparedByDayUntilBothHaveTheSame() async throws {
        try await TestWorld.run { fixture in
            try await fixture.put(on: 0)
            for name in ["old", "new"] {
                try await fixture.command(
                    "destination", "add", "file", "path=\(Self.place(fixture, "\(name).ndjson"))",
                    "--name", name, "--every-strap")
            }
            try await fixture.command("destination", "pause", "new")
            let before = try await fixture.gateway.status().balance.stored
            try await fixture.eventually("more") { $0.balance.stored >= before + 5 }
            let behind = try await fixture.gateway.command(["destination", "compare", "old", "new"])
            #expect(behind.status == 1 && behind.output.contains("the numbers differ"), "\(behind)")
            #expect(behind.output.contains("not in new, "), "\(behind)")
            try await fixture.command("destination", "resume", "new")
            try await Self.settle(fixture)
            let same = try await fixture.command(
                "destination", "compare", "old", "new", "--last", "2d")
            #expect(same.contains("both have the same number of samples of each day"), "\(same)")
            for (words, advice) in [
                (["old", "old"], "ONE OTHER"), (["old", "none"], "destination list"),
                (["old", "new", "--last", "5000d"], "--last"),
            ] {
                let outcome = try await fixture.gateway.command(["destination", "compare"] + words)
                #expect(outcome.status == 2 && outcome.complaint.contains(advice), "\(outcome)")
            }
            let history = try await fixture.command("history", "--destination", "new")
            #expect(history.contains("new") && !history.contains("old"), "\(history)")
            let letters = try await fixture.command("queue", "dead", "list", "--destination", "new")
            #expect(letters.contains("no dead letters"))
            let unknown = try await fixture.gateway.command(["history", "--destination", "none"])
            #expect(unknown.status == 2 && unknown.complaint.contains("destination list"))
        }
    }

    /// What a person withholds went out when somebody enrolled the same patient again.
    @Test func anEnrollmentThatIsPausedStaysSoWhenItIsRenewed() async throws {
        try await TestWorld.run { fixture in
            try await fixture.command(
                "enroll", fixture.exchange.invite(patient: 40002), "--name", "ward")
            try await fixture.command("destination", "pause", "ward")
            let again = try await fixture.command(
                "enroll", fixture.exchange.invite(patient: 40002), "--name", "ward")
            #expect(again.contains("held: paused"))
            #expect(try await Self.listed("ward", fixture).state == "paused")
            try await fixture.command("destination", "resume", "ward")
            #expect(try await Self.listed("ward", fixture).state == "active")
        }
    }

    @Test func aDestinationThatIsStuckOrPausedCostsTheExchangeNothing() async throws {
        try await TestWorld.run { fixture in
            try await fixture.put(on: 0)
            let path = Self.place(fixture, "stuck.ndjson")
            try await fixture.command(
                "destination", "add", "file", "path=\(path)", "--every-strap", "--keep-days", "7")
            let paused = try await fixture.command("destination", "pause", "file")
            #expect(paused.contains("kept for 7 days"))
            let before = try await Self.listed("file", fixture)
            #expect(before.state == "paused" && before.keepDays == 7)
            try await fixture.eventually("delivered to the exchange") {
                $0.balance.delivered >= 5
            }
            let complaint = try await fixture.gateway.command(["status"])
            #expect(complaint.status == 1 && complaint.output.contains("destination resume file"))
            await fixture.gateway.kill()
            try await fixture.gateway.start()
            #expect(try await Self.listed("file", fixture).state == "paused")
            #expect(try await Self.listed("file", fixture).delivered == before.delivered)
            let refused = try await fixture.gateway.command(["destination", "test", "file"])
            #expect(refused.status == 1 && refused.complaint.contains("destination resume"))
            try await fixture.command(
                "destination", "add", "file", "path=\(path)", "--every-strap", "--keep-days", "7")
            #expect(try await Self.listed("file", fixture).state == "paused", "added again")
            // A second one without a name took the first one's samples.
            let other = Self.place(fixture, "other.ndjson")
            let second = ["destination", "add", "file", "path=\(other)"]
            let taken = try await fixture.gateway.command(second)
            #expect(taken.status == 1 && taken.complaint.contains("with another path"), "\(taken)")
            #expect(taken.complaint.contains("--name") && taken.complaint.contains("--replace"))
            #expect(try await Self.listed("file", fixture).place == before.place)
            try await fixture.command("destination", "add", "file", "path=\(other)", "--replace")
            #expect(try await Self.listed("file", fixture).place != before.place)
            try await fixture.command(
                "destination", "add", "file", "path=\(path)", "--replace")
            try await fixture.command("destination", "resume", "file")
            let status = try await Self.settle(fixture)
            await fixture.expectExactlyOnce(status.balance)
            let after = try await Self.listed("file", fixture)
            #expect(after.state == "active" && after.delivered + 3 >= status.balance.stored)
            #expect(try await fixture.command("destination", "test", "file").contains("works"))
        }
    }

    /// It ended with 0 as soon as the exchange had everything, and what was erased then was lost.
    @Test func drainWaitsForFurtherDestinationsAsWell() async throws {
        try await TestWorld.run { fixture in
            let path = Self.place(fixture)
            try await fixture.put(on: 0)
            try await fixture.command(
                "destination", "add", "file", "path=\(path)", "--every-strap", "--from", "kept")
            try await fixture.command("destination", "pause", "file")
            try await fixture.eventually("samples") { $0.balance.stored >= 5 }
            try await fixture.command("forget", TestWorld.addresses[0])
            let held = try await fixture.gateway.command(["queue", "drain"])
            #expect(held.status == 1 && held.output.contains("held for file: paused"), "\(held)")
            try await fixture.command("destination", "resume", "file")
            let drained = try await fixture.command("queue", "drain")
            #expect(drained.contains("waiting: 0, held: 0"), "\(drained)")
            let stored = try await fixture.gateway.status().balance.stored
            #expect(try Self.heartRates(path).uuids.count == stored)
        }
    }

    @Test func aStrapGoesToTheDestinationsOfItsPairing() async throws {
        try await TestWorld.run(straps: 2) { fixture in
            let path = Self.place(fixture)
            let added = try await fixture.command("destination", "add", "file", "path=\(path)")
            #expect(added.contains("destination straps file --add"))
            for index in 0..<2 {
                let link = await fixture.exchange.invite(patient: TestWorld.patients[index])
                try await fixture.command("enroll", "-", "--name", "e\(index)", input: link)
            }
            try await fixture.command(
                "pair", TestWorld.addresses[0], "--enrollment", "e0", "--destination", "file")
            try await fixture.command("pair", TestWorld.addresses[1], "--enrollment", "e1")
            try await fixture.eventually("samples of both") { status in
                status.sensors.count == 2 && status.sensors.allSatisfy { $0.stored >= 3 }
            }
            #expect(try await Self.listed("file", fixture).straps == 1)
            let unasked = try await fixture.gateway.command([
                "destination", "straps", "file", "--remove", TestWorld.addresses[0],
            ])
            #expect(unasked.status == 2 && unasked.complaint.contains("--yes"), "\(unasked)")
            #expect(try await Self.listed("file", fixture).straps == 1)
            try await fixture.command(
                "destination", "straps", "file", "--remove", TestWorld.addresses[0], "--add",
                TestWorld.addresses[1], "--from", "kept", "--yes")
            let status = try await Self.settle(fixture)
            await fixture.expectExactlyOnce(status.balance)
            let (uuids, patients) = try Self.heartRates(path)
            #expect(Set(uuids).count == uuids.count && patients.count == 2)
            let second = try #require(status.sensors.first { $0.address == TestWorld.addresses[1] })
            #expect(uuids.count >= second.stored + 3 - 1)

            let own = try await fixture.gateway.command(["destination", "remove", "e0", "--yes"])
            #expect(own.status == 2 && own.complaint.contains("enrollment"))
            let removed = try await fixture.command("destination", "remove", "file", "--yes")
            #expect(removed.contains("removed file"))
            #expect(try await Self.list(fixture).map(\.name).sorted() == ["e0", "e1"])
            let state = fixture.gateway.directory.appending(path: "state")
            let files = try FileManager.default.contentsOfDirectory(atPath: state.path)
            #expect(files.count(where: { $0.hasPrefix("tokens-") }) == 2)
            let end = try await fixture.gateway.status()
            #expect(end.balance.balanced && end.balance.delivered == status.balance.delivered)
        }
    }

    @Test func whatIsWrongWithADestinationIsSaidBeforeAnythingIsStored() async throws {
        try await TestWorld.run { fixture in
            let directory = fixture.gateway.directory
            let key = directory.appending(path: "key").path
            try Data("whsec_short\n".utf8).write(to: URL(filePath: key))
            for (words, advice) in [
                (["oracle", "url=http://127.0.0.1:1"], "the kinds are"),
                (["webhok", "url=http://127.0.0.1:1"], "did you mean webhook?"),
                (["influx", "url=http://127.0.0.1:1"], "database for InfluxDB 1"),
                (["influx", "database=x"], "url is missing"),
                (["influx", "url=http://127.0.0.1:1", "database=x"], "check the address"),
                (["influx", "url=http://127.0.0.1:1", "color=red"], "its settings are url"),
                (["influx", "url=nowhere", "database=x"], "such as https://"),
                (["webhook", "url=http://127.0.0.1:1", "secret=@\(key)"], "openssl rand"),
                (["webhook", "url=http://u:p@127.0.0.1:1", "secret=@\(key)"], "without user"),
                (["file", "path=heart.ndjson"], "such as /var/lib"),
                (["file", "path=\(directory.path)/state/queue.sqlite"], ".ndjson"),
                (["file", "path=/nonexistent/x.ndjson"], "create its directory"),
                (["file", "path=/tmp/x.ndjson", "--keep-days=-4"], "or 0 to keep them"),
                (["file", "path=/tmp/x.ndjson", "--strap", "C0:00:00:00:00:77"], "no strap yet"),
                (["file", "path=/tmp/x.ndjson", "--resolution", "1h"], "raw: a data point"),
                (["file", "path"], "name=value"), (["file", "path=a", "path=b"], "given twice"),
            ] {
                let outcome = try await fixture.gateway.command(["destination", "add"] + words)
                #expect([1, 2].contains(outcome.status), "\(words)")
                #expect(outcome.complaint.contains(advice), "\(words): \(outcome.complaint)")
            }
            for command in ["show", "test", "pause", "resume", "remove"] {
                let words =
                    ["destination", command, "none"] + (command == "remove" ? ["--yes"] : [])
                let outcome = try await fixture.gateway.command(words)
                #expect(
                    outcome.status == 2 && outcome.complaint.contains("there is no destination yet")
                )
            }
            #expect(try await Self.list(fixture).isEmpty)
            let state = directory.appending(path: "state")
            let files = try FileManager.default.contentsOfDirectory(atPath: state.path)
            #expect(!files.contains { $0.hasPrefix("tokens-") })
        }
    }

    /// Takes every request with 204.
    private static let receiver = """
        import http.server
        class Receiver(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(204)
                self.end_headers()
        server = http.server.HTTPServer(("127.0.0.1", 0), Receiver)
        print(server.server_address[1], flush=True)
        server.serve_forever()
        """

    private struct Codes: Decodable {
        struct Code: Decodable { var strap, text: String }
        var codes: [Code]
    }

    private static func codes(
        _ name: String, _ fixture: TestWorld
    ) async throws -> [Codes.Code] {
        let text = try await fixture.command("destination", "code", name, "--json")
        return try JSONDecoder().decode(Codes.self, from: Data(text.utf8)).codes
    }

    /// What a phone that has scanned a code asks of CloudCare, in the name of a patient.
    private static func scan(_ code: String, _ port: String) async throws {
        let body = code.dropLast() + #","androidUserId":"patient-1"}"#
        let answer = try await Command.run(
            "/usr/bin/curl",
            [
                "-sf", "-H", "Content-Type: application/json", "--data-binary", String(body),
                "http://127.0.0.1:\(port)/api/v1/wearables/devices/pair",
            ])
        #expect(answer.status == 0, "\(answer.complaint)")
    }

    @Test func aStrapIsPairedAtCloudCareByItsCodeAndItsSamplesArriveThen() async throws {
        try await TestWorld.run { fixture in
            let script = URL(filePath: #filePath).deletingLastPathComponent()
                .deletingLastPathComponent().appending(path: "Conformance/cloudcare_front.py")
            let (server, line) = try await ChildProcess.start(
                "/usr/bin/python3", [script.path, "patient-1"], log: "/dev/null")
            defer { server.signal(SIGKILL) }
            let port = line.trimmingCharacters(in: .whitespacesAndNewlines)
            try await fixture.put(on: 0)
            let added = try await fixture.command(
                "destination", "add", "cloudcare", "url=http://127.0.0.1:\(port)/api/v1",
                "gateway=gw-1", "--strap", TestWorld.addresses[0])
            #expect(added.contains("destination code"), "\(added)")
            // Nothing is taken before the phone has said whose the strap is.
            let deadline = ContinuousClock.now + .seconds(180)
            while try await Self.listed("cloudcare", fixture).held != "pairing-lost" {
                try #require(ContinuousClock.now < deadline, "not held")
                try await Task.sleep(for: .milliseconds(200))
            }
            let complaint = try await fixture.gateway.command(["status"])
            #expect(complaint.output.contains("destination code NAME"), "\(complaint.output)")
            let code = try #require(try await Self.codes("cloudcare", fixture).first)
            #expect(code.strap == TestWorld.addresses[0])
            let shown = try await fixture.command("destination", "code", "cloudcare")
            #expect(shown.contains("█"))
            try await Self.scan(code.text, port)
            try await Self.settle(fixture)
            try await fixture.eventually("no longer held") { status in
                !status.health.contains { $0.name == "delivery-held" }
            }
            let listed = try await Self.listed("cloudcare", fixture)
            #expect(listed.delivered > 0 && listed.pending <= 3)
            // The key of the devices stays when other settings change.
            try await fixture.command(
                "destination", "add", "cloudcare", "url=http://127.0.0.1:\(port)/api/v1",
                "gateway=gw-1")
            let same = try await Self.codes("cloudcare", fixture).first
            #expect(same?.text.prefix(80) == code.text.prefix(80))
            let refused = try await fixture.gateway.command(["destination", "code", "nothing"])
            #expect(refused.status == 2 && refused.complaint.contains("destination list"))
        }
    }

    @Test func aKeyOfAFHIRServersIsThisUsersAloneAndAnotherCannotTakeItsPlace() async throws {
        let gateway = try GatewayProcess(busAddress: nil)
        defer { try? FileManager.default.removeItem(at: gateway.directory) }
        let path = gateway.directory.appending(path: "hospital.key").path
        let made = try await gateway.command(["destination", "key", path])
        #expect(made.status == 0 && made.output.hasPrefix(#"{"keys":[{"kty":"RSA""#))
        let attributes = try FileManager.default.attributesOfItem(atPath: path)
        #expect(attributes[.posixPermissions] as? Int == 0o600)
        let shown = try await gateway.command(["destination", "key", "--show", path])
        #expect(shown.output == made.output)
        let again = try await gateway.command(["destination", "key", path])
        #expect(again.status == 2 && again.complaint.contains("exists already"))
    }

    @Test func aFHIRServerGetsAMinutesAverageUnlessAPersonChoosesOtherwise() async throws {
        let system = try await FHIRSystem.start()
        let outcome: Result<Void, any Error>
        do {
            outcome = .success(
                try await TestWorld.run { fixture in
                    struct Added: Decodable { var resolution: String }
                    for (words, resolution) in [
                        (["--name", "minutes"], "60s"),
                        (["--name", "beats", "--resolution", "raw"], "raw"),
                    ] {
                        let words = ["destination", "add", "fhir"] + system.settingWords + words
                        let added = try await fixture.gateway.command(words)
                        #expect(added.status == 0, "\(added.complaint)")
                        #expect(added.output.contains("speaks FHIR 4.0.1"))
                        let list = try await fixture.command("destination", "list", "--json")
                        let all = try JSONDecoder().decode([Added].self, from: Data(list.utf8))
                        #expect(all.contains { $0.resolution == resolution })
                    }
                })
        } catch {
            outcome = .failure(error)
        }
        await system.stop()
        try outcome.get()
    }

    @Test func aSecretIsShownNowhere() async throws {
        let secret = "whsec_" + Data(repeating: 7, count: 32).base64EncodedString()
        try await TestWorld.run { fixture in
            let (receiver, port) = try await ChildProcess.start(
                "/usr/bin/python3", ["-c", Self.receiver], log: "/dev/null")
            defer { receiver.signal(SIGKILL) }
            let key = fixture.gateway.directory.appending(path: "key").path
            try Data(secret.utf8).write(to: URL(filePath: key))
            try await fixture.command(
                "destination", "add", "webhook",
                "url=http://127.0.0.1:\(port.trimmingCharacters(in: .whitespacesAndNewlines))/hr",
                "secret=@\(key)")
            let shown = try await fixture.command("destination", "show", "webhook")
            #expect(shown.contains("secret=(set)") && shown.contains("heart_rate"), "\(shown)")
            var everywhere = shown
            everywhere += try await fixture.command("destination", "show", "webhook", "--json")
            everywhere += try await fixture.command("destination", "list", "--json")
            everywhere += try await fixture.gateway.command(["status", "--json"]).output
            everywhere += try String(contentsOf: fixture.gateway.logFile, encoding: .utf8)
            #expect(!everywhere.contains(secret))
            #expect(!everywhere.contains("BwcHBwcH"))
        }
    }
}
