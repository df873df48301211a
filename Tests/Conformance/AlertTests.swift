import Basics
import Foundation
import OfflineQueue
import Testbed
import Testing

@testable import EdgeGateway
@testable import Uplink

/// What somebody is told, by programs that know nothing of us: a mail server, a verifier of webhooks.
@Suite struct AlertTests {
    private static let message = AlertMessage(
        id: "a1b2-7", title: "Zürich „Nord“ 💓: error: no-adapter",
        text: "error: no-adapter\n.\n..two dots\n\nGürtel\n", json: Array("{}".utf8),
        urgency: .error)

    private func send(
        _ message: AlertMessage = message, to mail: MailSystem,
        _ change: (inout [String: String]) -> Void = { _ in }, network: CurlSettings? = nil
    ) async throws {
        var settings = mail.settings
        change(&settings)
        let alert = try #require(
            try AlertRegistry.alert("mail", settings) as? any AlertSender)
        try await alert.send(
            message,
            AlertParts(
                transport: CurlTransport(), network: network ?? mail.network,
                now: SystemClock(trust: .always).read()))
    }

    private func fault(_ work: () async throws -> Void) async -> String {
        await #expect(throws: AlertFault.self) { try await work() }?.message ?? ""
    }

    @Test(arguments: [MailSystem.Mode.smtps, .starttls])
    func aMailArrivesOverTLSAsItWasWritten(mode: MailSystem.Mode) async throws {
        let mail = try await MailSystem.start(mode)
        defer { Task { await mail.stop() } }
        try await send(to: mail)
        var plain = Self.message
        plain.title = "gw: over: no-adapter"
        plain.text = "over: no-adapter\n.\n..two dots\n"
        try await send(plain, to: mail)
        let mails = try mail.mails()
        try #require(mails.count == 2)
        #expect(mails.map(\.subject) == [Self.message.title, plain.title])
        for (mail, sent) in zip(mails, [Self.message, plain]) {
            #expect(
                mail.text.replacing("\r\n", with: "\n").trimmingCharacters(in: .newlines)
                    == sent.text.trimmingCharacters(in: .newlines))
            #expect(mail.tls && mail.defects.isEmpty, "\(mail.defects)")
            #expect(mail.from == "gw@mail.example")
            #expect(mail.to == ["ward@mail.example", "b@mail.example"])
            #expect(mail.id == "<a1b2-7@mail.example>")
            for header in ["date", "from", "to", "message-id", "auto-submitted"] {
                #expect(mail.headers.count { $0 == header } == 1, "\(header)")
            }
        }
    }

    @Test(arguments: [MailSystem.Mode.smtps, .starttls])
    func aWrongPasswordIsSaidAndNotShown(mode: MailSystem.Mode) async throws {
        let mail = try await MailSystem.start(mode)
        defer { Task { await mail.stop() } }
        let words = await fault { try await send(to: mail) { $0["password"] = "Zebra7" } }
        #expect(words.contains("refuses the user or the password"), "\(words)")
        #expect(!words.contains("Zebra7") && !words.contains("gw@"))
        #expect(try mail.mails().isEmpty)
    }

    @Test func withoutTLSNothingIsSent() async throws {
        let mail = try await MailSystem.start(.plain)
        defer { Task { await mail.stop() } }
        let words = await fault { try await send(to: mail, network: CurlSettings()) }
        #expect(words.contains("offers no TLS"), "\(words)")
        #expect(try mail.mails().isEmpty)
        // A relay on this machine may have none.
        try await send(to: mail, { $0["tls"] = "none" }, network: CurlSettings())
        #expect(try mail.mails().count == 1)
    }

    @Test(arguments: [MailSystem.Mode.smtps, .open])
    func aCertificateThatNobodyVouchesForIsRefused(mode: MailSystem.Mode) async throws {
        let mail = try await MailSystem.start(mode)
        defer { Task { await mail.stop() } }
        let words = await fault { try await send(to: mail, network: CurlSettings()) }
        #expect(words.contains("certificate"), "\(words)")
        #expect(try mail.mails().isEmpty)
    }

    @Test func aServerThatIsBusyTakesTheSameMailLater() async throws {
        let mail = try await MailSystem.start(.starttls)
        defer { Task { await mail.stop() } }
        try mail.answer("451 4.3.0 later, ward@mail.example")
        let busy = await fault { try await send(to: mail) }
        #expect(busy.contains("451") && !busy.contains("ward@"), "\(busy)")
        try mail.answer("554 5.7.1 spam")
        #expect(await fault { try await send(to: mail) }.contains("554"))
        try mail.answer(nil)
        try await send(to: mail)
        #expect(try mail.mails().count == 1)
    }

    @Test func aServerThatIsAwayIsSaidToBe() async throws {
        let mail = try await MailSystem.start(.starttls)
        let network = mail.network
        try FileManager.default.copyItem(
            atPath: mail.authorityFile, toPath: mail.host.directory + ".pem")
        defer { try? FileManager.default.removeItem(atPath: mail.host.directory + ".pem") }
        await mail.stop()
        var moved = network
        moved.authorityFile = mail.host.directory + ".pem"
        let words = await fault { try await send(to: mail, network: moved) }
        #expect(words.contains("no connection to the server 127.0.0.1"), "\(words)")
    }

    @Test func aWebhookIsVerifiedAndNtfyReadsItsTitle() async throws {
        let receiver = try await ReceiverSystem.start()
        defer { Task { await receiver.stop() } }
        let parts = AlertParts(
            transport: CurlTransport(), network: CurlSettings(),
            now: SystemClock(trust: .always).read())
        let now = SystemClock(trust: .always).read()
        var message = Self.message
        message.json = AlertText(gateway: "Zürich", now: now).test(id: "a1b2-8").json
        for (kind, settings) in [
            ("webhook", ["url": "\(receiver.address)/in", "secret": ReceiverSystem.key]),
            ("ntfy", ["url": "\(receiver.address)/topic"]),
        ] {
            let alert = try #require(
                try AlertRegistry.alert(kind, settings) as? any AlertSender)
            try await alert.send(message, parts)
        }
        let wrong = try #require(
            try AlertRegistry.alert(
                "webhook",
                [
                    "url": "\(receiver.address)/in",
                    "secret": "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
                ]) as? any AlertSender)
        let words = await fault { try await wrong.send(message, parts) }
        #expect(words.contains("HTTP 401") && !words.contains("/in"))
        let requests = try receiver.requests()
        #expect(requests.map(\.status) == [200, 200, 401])
        #expect(requests[0].headers["webhook-id"] == "a1b2-7")
        #expect(requests[0].body.contains("health.test"))
        #expect(requests[1].title == message.title)
        #expect(requests[1].headers["priority"] == "high")
        #expect(requests[1].body == message.text)
    }

    @Test func aPasswordIsAskedForAndNotShown() async throws {
        // A terminal, which shows what is typed unless it is told not to.
        let script = """
            import os, pty, sys
            child, terminal = pty.fork()
            if child == 0:
                os.execv(sys.argv[1], sys.argv[1:])
            seen = b""
            while b"password: " not in seen:
                seen += os.read(terminal, 4096)
            os.write(terminal, b"Zebra7\\n")
            try:
                while more := os.read(terminal, 4096):
                    seen += more
            except OSError:
                pass
            print(seen.decode())
            """
        let outcome = try await Command.run(
            "/usr/bin/python3",
            [
                "-c", script, GatewayProcess.program("edge-gateway").path, "alert", "add", "mail",
                "server=smtps://mail.example", "password=-",
            ],
            environment: [
                "EDGE_GATEWAY_SOCKET": "/nonexistent/control.sock", "PATH": "/usr/bin:/bin",
            ])
        #expect(outcome.status == 0, "\(outcome.complaint)")
        #expect(outcome.output.hasPrefix("password: "), "\(outcome.output)")
        #expect(outcome.output.contains("no daemon") && !outcome.output.contains("Zebra7"))
    }

    /// The real program, in a world whose time runs ten times as fast.
    @Test func theDaemonMailsThatAnErrorLastsAndThatItIsOverAndRepeatsNothing() async throws {
        let mail = try await MailSystem.start(.starttls)
        let receiver = try await ReceiverSystem.start()
        defer {
            Task {
                await mail.stop()
                await receiver.stop()
            }
        }
        var setup = TestWorld.Setup()
        setup.speed = 10
        setup.heart = try RecordedHeart.steady(milliseconds: 1000)
        setup.settings["EDGE_GATEWAY_UPLINK_CA_FILE"] = mail.authorityFile
        setup.settings["EDGE_GATEWAY_GATEWAY_NAME"] = "attic"
        try await TestWorld.run(setup) { world in
            world.clock?.setSynchronised()
            let password = try mail.host.write(MailSystem.password, to: "password")
            let added = try await world.command(
                "alert", "add", "mail", "server=\(mail.address)", "from=gw@mail.example",
                "to=ward@mail.example", "user=\(MailSystem.user)", "password=@\(password)",
                "--errors-after", "20s")
            #expect(added.contains("mail works"), "\(added)")
            try await world.command(
                "alert", "add", "sign-of-life", "url=\(receiver.address)/ping/Zebra7",
                "failure=\(receiver.address)/ping/Zebra7/fail", "every=1m")
            // A second one without a name took the first one's address.
            let second = [
                "alert", "add", "sign-of-life", "url=\(receiver.address)/ping/Lion8", "every=1m",
            ]
            let refused = try await world.gateway.command(second)
            #expect(refused.status == 1, "\(refused)")
            #expect(refused.complaint.contains("already, with another failure, url"), "\(refused)")
            #expect(!refused.complaint.contains("Lion8"))
            let replaced = try await world.gateway.command(second + ["--replace"])
            #expect(replaced.status == 0, "\(replaced)")
            try await world.command(
                "alert", "add", "sign-of-life", "url=\(receiver.address)/ping/Zebra7",
                "failure=\(receiver.address)/ping/Zebra7/fail", "every=1m", "--replace")
            try await world.put(on: 0)
            try await world.eventually("signs of life", withinSeconds: 600) { _ in
                // The first two were tests.
                try receiver.requests().count { $0.path == "/ping/Zebra7" } >= 3
            }
            #expect(try mail.mails().map(\.subject) == ["attic: a test"])
            await world.bluez.unplug(TestWorld.adapter)
            try await world.eventually("a mail", withinSeconds: 900) { _ in
                try mail.mails().count == 2
            }
            let first = try #require(try mail.mails().last)
            #expect(first.subject == "attic: error: no-adapter")
            #expect(first.text.contains("do: plug one in"))
            try await world.eventually("the failure address", withinSeconds: 600) { _ in
                try receiver.requests().contains { $0.path == "/ping/Zebra7/fail" }
            }
            let files = try FileManager.default.contentsOfDirectory(
                atPath: world.gateway.directory.appending(path: "state").path
            ).filter { $0.hasPrefix("alert") }
            #expect(files.count == 2 && files.contains("alerts.json"), "\(files)")
            for file in files {
                let mode =
                    try FileManager.default.attributesOfItem(
                        atPath: world.gateway.directory.appending(path: "state/\(file)").path)[
                        .posixPermissions] as? Int
                #expect(mode == 0o600)
            }
            _ = await world.gateway.stop()
            try await world.gateway.start()
            try await world.pass(seconds: 60)
            #expect(try mail.mails().count == 2)
            // It has been found again by now: its end counts as at any time.
            await world.bluez.plug(TestWorld.adapter)
            try await world.eventually("the end", withinSeconds: 900) { _ in
                try mail.mails().count == 3
            }
            #expect(try mail.mails().last?.subject == "attic: over: no-adapter")
            let list = try await world.command("alert", "list", "--json")
            let log = world.gateway.logTail()
            for text in [list, log] {
                #expect(!text.contains("Zebra7") && !text.contains("correct horse"))
            }
        }
    }
}
