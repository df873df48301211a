import Foundation
import Testbed
import Testing

/// Every way an invitation comes in, and every way it does not, through the real binary.
@Suite(.serialized) struct LinkTests {
    private static func installed(_ program: String) -> Bool {
        FileManager.default.isExecutableFile(atPath: "/usr/bin/" + program)
    }
    private static let readsPictures = installed("zbarimg") && installed("qrencode")

    @Test func aPhoneHandsAnInvitationOverOnceByAPageThatIsThereOnce() async throws {
        let port = Int.random(in: 20_000..<32_000)
        let settings = ["EDGE_GATEWAY_PAGE_LISTEN": "127.0.0.1:\(port)"]
        try await TestWorld.run(settings: settings) { fixture in
            let gateway = fixture.gateway
            let printed = gateway.directory.appending(path: "printed").path
            let waiting = Task {
                try await Command.run(
                    "/bin/sh",
                    [
                        "-c",
                        "exec '\(gateway.binary.path)' enroll --web --name phone > '\(printed)'",
                    ],
                    environment: gateway.environment, directory: gateway.directory.path)
            }
            var link: Substring?
            let deadline = ContinuousClock.now + .seconds(120)
            while link == nil, ContinuousClock.now < deadline {
                try await Task.sleep(for: .milliseconds(100))
                link = (try? String(contentsOfFile: printed, encoding: .utf8))?
                    .split(separator: "\n").first { $0.contains("/enroll#") }
            }
            let code = try #require(link?.split(separator: "#").last)

            /// What the page's script sends; the status of the answer.
            func handOver(_ code: Substring, _ invitation: String) async throws -> String {
                let body = #"{"code":"\#(code)","link":"\#(invitation)"}"#
                return try await Command.run(
                    "/usr/bin/curl",
                    [
                        "-s", "-o", "/dev/null", "-w", "%{http_code}", "--max-time", "60", "-H",
                        "Content-Type: application/json", "-d", body,
                        "http://127.0.0.1:\(port)/v1/enroll-once",
                    ]
                ).output
            }
            let invitation = await fixture.exchange.invite(patient: TestWorld.patients[0])
            #expect(try await handOver("wrongcode", invitation) != "200")
            #expect(try await handOver(code, invitation) == "200")
            let outcome = try await waiting.value
            #expect(outcome.status == 0, "\(outcome.complaint)")
            let words = try String(contentsOfFile: printed, encoding: .utf8)
            #expect(words.contains("enrolled as phone"))
            // The page was there once.
            #expect(try await handOver(code, invitation) != "200")
            try await fixture.command("pair", TestWorld.addresses[0])
            try await fixture.eventually("delivered") { $0.balance.delivered >= 2 }
        }
    }

    @Test func aLinkIsTypedPipedOrReadFromAFile() async throws {
        try await TestWorld.run { fixture in
            let told = try await fixture.command(
                "enroll", await fixture.exchange.invite(patient: 40001))
            #expect(told.contains("delivers omh:heart-rate:2.0 as device 70007"))
            try await fixture.command(
                "enroll", "-", input: "  \(await fixture.exchange.invite(patient: 40002))\n")
            let file = fixture.gateway.directory.appending(path: "link.txt").path
            try (await fixture.exchange.invite(patient: 40001) + "\n").write(
                toFile: file, atomically: true, encoding: .utf8)
            let report = try await fixture.command("enroll", "--file", file, "--json")
            // The same patient again: the delivery there is.
            #expect(report.contains(#""name" : "e1""#))
            #expect(report.contains(#""kind" : "invitation""#))
        }
    }

    /// An exchange that was set up anew gave the number of a patient to another one, whose invitation was taken for the
    /// first one's: what waited went to the wrong person.
    @Test func anInvitationOfSomebodyElseWithTheSameNumberIsNotTakenForTheFirstPatients()
        async throws
    {
        try await TestWorld.run { fixture in
            try await fixture.put(on: 0)
            try await fixture.eventually("a delivery") { $0.balance.delivered > 0 }
            let exchange = fixture.exchange
            await exchange.giveNumber(ofPatient: TestWorld.patients[0])
            await exchange.revokeTokens()
            let stored = await exchange.storedCount()
            // The first invitation brings new tokens, which are the other person's.
            let held = try await fixture.eventually("held") {
                $0.balance.held["patient-changed", default: 0] > 3
            }
            #expect(held.health.contains { $0.name == "delivery-held" })
            let link = await exchange.invite(patient: TestWorld.patients[0])
            let asked = try await fixture.gateway.command(["enroll", "-"], input: link)
            #expect(asked.status == 1)
            #expect(asked.complaint.contains("another person's when e0 was enrolled"))
            #expect(!asked.complaint.contains("1990"))
            // Somebody else: an enrollment of their own; what waits stays where it is.
            let other = try await fixture.command("enroll", "-", "--person", "other", input: link)
            #expect(other.contains("enrolled as e1"))
            let twice = try await fixture.command("enroll", "-", "--person", "other", input: link)
            #expect(twice.contains("enrolled as e1"))
            try await fixture.command("enroll", "-", "--name", "e1", input: link)
            #expect(await exchange.storedCount() == stored)
            // The same person after all: it goes out, each sample once.
            let again = try await fixture.command(
                "enroll", "-", "--name", "e0", "--person", "same", input: link)
            #expect(again.contains("enrolled as e0"))
            let status = try await fixture.settle()
            await fixture.expectExactlyOnce(status.balance)
        }
    }

    /// Enrolling again without --device gave the samples to another device than the one a person had chosen.
    @Test func aDeviceThatAPersonChoseStaysWhenThePatientIsEnrolledAgain() async throws {
        var seed = ExchangeSeed.standard
        seed.clients[0].devices = []
        try await TestWorld.run(seed: seed) { fixture in
            func enroll(_ words: String...) async throws -> Command.Outcome {
                let link = await fixture.exchange.invite(patient: TestWorld.patients[0])
                return try await fixture.gateway.command(["enroll", "-"] + words, input: link)
            }
            let several = try await enroll()
            #expect(several.status == 1)
            #expect(several.complaint.contains("70001 (CareX), 70007 (Edge Gateway)"))
            #expect(try await enroll("--device", "70001").output.contains("as device 70001"))
            #expect(try await enroll().output.contains("as device 70001"))
            await fixture.exchange.setDeviceType(70001, to: "medical_device")
            let gone = try await enroll()
            #expect(gone.status == 1)
            #expect(gone.complaint.contains("no more from device 70001"))
            #expect(gone.complaint.contains("70007 (Edge Gateway)"))
            #expect(try await enroll("--device", "70007").output.contains("as device 70007"))
        }
    }

    @Test(.enabled(if: readsPictures, "it takes qrencode and zbarimg (deploy/setup --test)"))
    func aLinkIsReadFromAPicture() async throws {
        try await TestWorld.run { fixture in
            let picture = fixture.gateway.directory.appending(path: "link.png").path
            func draw(_ text: String) async throws {
                let drawn = try await Command.run("/usr/bin/qrencode", ["-o", picture, text])
                try #require(drawn.status == 0)
            }
            try await draw("https://example.org/")
            let other = try await fixture.gateway.command(["enroll", "--picture", picture])
            #expect(other.status != 0)
            #expect(other.complaint.contains("no invitation link"))
            try await draw(await fixture.exchange.invite(patient: 40001))
            try await fixture.command("enroll", "--picture", picture)
            let missing = try await fixture.gateway.command(["enroll", "--picture", "/nonexistent"])
            #expect(missing.complaint.contains("no such file"))
        }
    }

    @Test func unknownCancelledExpiredAndSupersededAreToldApart() async throws {
        try await TestWorld.run { fixture in
            let exchange = fixture.exchange
            let superseded = await exchange.invite(patient: 40001)
            let cancelled = await exchange.invite(patient: 40001)
            await exchange.cancelInvitations(patient: 40001)
            let expired = await exchange.invite(patient: 40002)
            await exchange.advanceClock(by: .seconds(8 * 86_400))
            let unknown = String(expired.dropLast(32)) + String(repeating: "x", count: 32)
            var told: Set<String> = []
            for (link, word) in [
                (unknown, "does not know"), (cancelled, "cancelled"), (expired, "expired"),
            ] {
                let outcome = try await fixture.gateway.command(["enroll", "-"], input: link)
                #expect(outcome.status == 1)
                #expect(outcome.complaint.contains(word), "\(outcome.complaint)")
                told.insert(outcome.complaint)
            }
            // Cancelling took the older one as well; a fresh pair shows what superseding is.
            let older = await exchange.invite(patient: 40002)
            _ = await exchange.invite(patient: 40002)
            let outcome = try await fixture.gateway.command(["enroll", "-"], input: older)
            #expect(outcome.complaint.contains("newer one has replaced it"))
            told.insert(outcome.complaint)
            #expect(told.count == 4)
            #expect(superseded != cancelled)
            #expect(try await fixture.command("enrollments", "--json") == "[\n\n]\n")
            let state = fixture.gateway.directory.appending(path: "state").path
            let files = try FileManager.default.contentsOfDirectory(atPath: state)
            #expect(!files.contains { $0.hasPrefix("tokens") })
        }
    }

    @Test func anOldLinkSaysWhatItNeeds() async throws {
        try await TestWorld.run { fixture in
            let bare = try await fixture.gateway.command(["enroll", "|abcdefgh"])
            #expect(bare.status == 1)
            #expect(bare.complaint.contains("names no exchange"))
            let at = ["--exchange", "http://127.0.0.1:\(fixture.exchange.port)"]
            let named = try await fixture.gateway.command(["enroll", "|abcdefgh"] + at)
            #expect(named.complaint.contains("client identifier and code verifier"))
            let whole = try await fixture.gateway.command(
                ["enroll", "|abcdefgh", "--client-id", "c", "--verifier", "v"] + at)
            #expect(whole.status == 1)
            #expect(whole.complaint.contains("no longer takes this invitation"))
            let both = try await fixture.gateway.command(["enroll", "|abcdefgh", "--web"])
            #expect(both.status == 64 || both.status == 2)
        }
    }

    @Test(
        "a link of an old exchange enrolls, and delivers",
        arguments: ["host~client~code~verifier", "host|code", "|code"])
    func oldLink(form: String) async throws {
        try await TestWorld.run(version: .v0010) { fixture in
            let link = await fixture.exchange.invite(patient: 40001)
            let piece = try #require(link.split(separator: "/").last?.removingPercentEncoding)
            let parts = piece.split(separator: "~").map(String.init)
            try #require(parts.count == 4)
            var words = ["enroll", "-", "--name", "old"]
            var input = link
            if form != "host~client~code~verifier" {
                input = (form.hasPrefix("|") ? "" : parts[0]) + "|" + parts[2]
                words += ["--client-id", parts[1], "--verifier", parts[3]]
            }
            if form.hasPrefix("|") { words += ["--exchange", "http://" + parts[0]] }
            let outcome = try await fixture.gateway.command(words, input: input)
            try #require(outcome.status == 0, "\(outcome.complaint)")
            try await fixture.command("pair", TestWorld.addresses[0], "--enrollment", "old")
            try await fixture.eventually("deliveries") { $0.balance.delivered >= 2 }
            let status = try await fixture.settle()
            await fixture.expectExactlyOnce(status.balance)
            // The code of such a link is spent.
            let again = try await fixture.gateway.command(words, input: input)
            #expect(again.status == 1)
            #expect(again.complaint.contains("no longer takes this invitation"))
        }
    }

    @Test func tokensThatCouldNotBeReadAtOneStartServeAgainAtTheNext() async throws {
        try await TestWorld.run { fixture in
            try await fixture.put(on: 0)
            try await fixture.eventually("a delivery") { $0.balance.delivered > 0 }
            await fixture.gateway.stop()
            let tokens = fixture.gateway.directory.appending(path: "state/tokens-1.json").path
            try FileManager.default.moveItem(atPath: tokens, toPath: tokens + ".away")
            try await fixture.gateway.start()
            try await fixture.eventually("enroll-again") { status in
                status.health.contains { $0.name == "enroll-again" }
            }
            await fixture.gateway.stop()
            try FileManager.default.moveItem(atPath: tokens + ".away", toPath: tokens)
            try await fixture.gateway.start()
            let before = try await fixture.gateway.status()
            #expect(!before.health.contains { $0.name == "enroll-again" })
            let status = try await fixture.settle()
            await fixture.expectExactlyOnce(status.balance)
        }
    }
}
