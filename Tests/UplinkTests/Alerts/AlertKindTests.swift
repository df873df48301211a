import Basics
import Foundation
import OfflineQueue
import Testing

@testable import Uplink

/// The kinds of alerts: their settings, which may be anything, and what they send.
@Suite struct AlertKindTests {
    private static let mail = [
        "server": "smtps://mail.example", "from": "gw@mail.example", "to": "ward@mail.example",
    ]
    private static let key = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    private static let message = AlertMessage(
        id: "a1-7", title: "Station „Nord“: error: no-adapter", text: "error: no-adapter\n",
        json: Array(#"{"type":"health.changed"}"#.utf8), urgency: .error)

    private func problem(_ kind: String, _ settings: [String: String]) -> String? {
        do {
            _ = try AlertRegistry.alert(kind, settings)
            return nil
        } catch {
            return error.description
        }
    }

    private func sent(
        _ kind: String, _ settings: [String: String], _ message: AlertMessage = message,
        answer: @escaping ScriptedTransport.Handler = { _ in .json(200, "{}") }
    ) async throws -> HTTPRequest {
        let transport = ScriptedTransport(answer)
        let sender = try #require(
            try AlertRegistry.alert(kind, settings) as? any AlertSender)
        try await sender.send(message, Self.parts(transport))
        return try #require(transport.requests.first)
    }

    private static func parts(_ transport: ScriptedTransport) -> AlertParts {
        AlertParts(transport: transport, network: CurlSettings(), now: StillClock().read())
    }

    @Test(arguments: [
        ("server", "mail.example"), ("server", "https://mail.example"), ("server", "smtp://"),
        ("server", "smtp://a b"), ("server", "smtps://mail.example:99999"),
        ("server", "smtps://gw:word@mail.example"), ("server", "smtp://mail.example/x"),
        ("from", "gw"), ("from", "gw@"), ("from", "@mail.example"), ("from", "a@b@c.example"),
        ("from", "Ward <gw@mail.example>"), ("from", "gw@mail.example:25"),
        ("from", "gw@mail.example\r\nBcc: x@y.example"), ("to", "a b@mail.example"),
        ("to", "a@mail.example,"), ("to", "<a@mail.example>"), ("to", "ä@mail.example"),
        ("to", Array(repeating: "a@mail.example", count: 11).joined(separator: ",")),
        ("tls", "none"), ("tls", "maybe"), ("user", "gw"), ("password", "word"),
        ("cc", "x@y.example"),
    ])
    func aSettingOfMailThatIsWrongIsRefused(name: String, value: String) {
        var settings = Self.mail
        settings[name] = value
        #expect(problem("mail", settings) != nil)
        #expect(problem("mail", Self.mail) == nil)
    }

    @Test func mailWithoutTLSGoesToThisMachineOnly() {
        var settings = Self.mail
        settings["tls"] = "none"
        for (server, isRight) in [
            ("smtp://127.0.0.1:25", true), ("smtp://localhost", true), ("smtps://127.0.0.1", false),
            ("smtp://127.0.0.1.example", false), ("smtp://10.0.0.1", false),
        ] {
            settings["server"] = server
            #expect((problem("mail", settings) == nil) == isRight, "\(server)")
        }
    }

    @Test(arguments: [
        ("webhook", "host.example/x"), ("webhook", "https://gw:word@host.example/x"),
        ("ntfy", "ftp://host.example"), ("ntfy", "https://host.example/a b"),
        ("sign-of-life", "https://host.example/#x"), ("sign-of-life", "https:///x7"),
    ])
    func anAddressThatIsNoneIsRefusedAndNotQuoted(kind: String, url: String) {
        let settings = kind == "webhook" ? ["url": url, "secret": Self.key] : ["url": url]
        #expect(problem(kind, settings)?.contains(url) == false)
    }

    /// Whoever has the address can write there, or say that a dead gateway lives.
    @Test(arguments: AlertRegistry.kinds.map { $0.name })
    func aPlaceShowsNothingThatIsSecret(kind: String) throws {
        let word = "Zebra7"
        let all = [
            "url": "https://host.example/\(word)?key=\(word)",
            "failure": "https://host.example/\(word)/fail", "secret": Self.key, "token": word,
            "server": "smtps://mail.example", "from": "\(word)@mail.example",
            "to": "\(word)@mail.example", "user": word, "password": word,
        ]
        let fields = try AlertRegistry.kind(kind).fields.map(\.name)
        let place = try AlertRegistry.alert(kind, all.filter { fields.contains($0.key) }).place
        #expect(!place.contains(word) && !place.contains("MfKQ"), "\(place)")
        #expect(place.contains(".example"))
    }

    @Test func theKindsAreCompleteAndTheirAddressesSecret() {
        #expect(AlertRegistry.kinds.map { $0.name } == ["mail", "webhook", "ntfy", "sign-of-life"])
        for kind in AlertRegistry.kinds {
            #expect(!kind.summary.isEmpty)
            for field in kind.fields
            where ["url", "failure", "password", "token"].contains(field.name) {
                #expect(field.isSecret, "\(kind.name) \(field.name)")
            }
        }
        #expect(problem("pigeon", [:])?.contains("mail, webhook, ntfy, sign-of-life") == true)
    }

    @Test func ntfyGetsTextWithATitleAPriorityAndATag() async throws {
        let request = try await sent(
            "ntfy", ["url": "https://ntfy.example/Topic7", "token": "tk_abc"])
        #expect(request.method == .post && request.target == "/Topic7")
        #expect(String(decoding: request.body, as: UTF8.self) == "error: no-adapter\n")
        let headers = Dictionary(uniqueKeysWithValues: request.headers.map { ($0.name, $0.value) })
        #expect(headers["Priority"] == "high")
        #expect(headers["Tags"] == "rotating_light")
        #expect(headers["Authorization"] == "Bearer tk_abc")
        #expect(headers["Title"]?.hasPrefix("=?utf-8?B?") == true)
        #expect(request.isWellFormed)
    }

    @Test func aMessageThatIsLongForNtfyIsCut() async throws {
        var long = Self.message
        long.text = String(repeating: "ü", count: 5_000)
        let request = try await sent("ntfy", ["url": "https://ntfy.example/Topic7"], long)
        #expect(request.body.count <= 4_096)
        #expect(String(decoding: request.body, as: UTF8.self).hasSuffix(" …"))
    }

    @Test func aMessageKeepsItsIdentityAtEveryAttempt() async throws {
        let settings = ["url": "https://host.example/in?x=1", "secret": Self.key]
        let (first, second) = (
            try await sent("webhook", settings), try await sent("webhook", settings)
        )
        func id(_ request: HTTPRequest) -> String? {
            request.headers.first { $0.name == "webhook-id" }?.value
        }
        #expect(id(first) == "a1-7" && id(second) == "a1-7")
        #expect(first.target == "/in?x=1" && first.body == Self.message.json)
        #expect(first.contentType == "application/json")
    }

    @Test(arguments: [
        (HTTPAnswer(status: 403), "HTTP 403"), (HTTPAnswer(status: 500), "HTTP 500"),
        (HTTPAnswer(status: 302, fields: ["location": "https://evil.example/Zebra7"]), "HTTP 302"),
        (
            HTTPAnswer(status: 200, contentType: "text/html", body: Array("<p>sign in".utf8)),
            "a web page"
        ),
    ])
    func anAnswerThatIsNoYesIsAFaultWithoutTheAddress(
        answer: HTTPAnswer, words: String
    ) async throws {
        let fault = await #expect(throws: AlertFault.self) {
            _ = try await sent(
                "ntfy", ["url": "https://ntfy.example/Zebra7"], answer: { _ in .success(answer) })
        }
        #expect(fault?.message.contains(words) == true, "\(fault?.message ?? "none")")
        #expect(fault?.message.contains("Zebra7") == false)
    }

    @Test func aServerThatIsBusySaysForHowLong() async throws {
        let fault = await #expect(throws: AlertFault.self) {
            _ = try await sent(
                "ntfy", ["url": "https://ntfy.example/x"],
                answer: { _ in .success(HTTPAnswer(status: 429, retryAfter: "120")) })
        }
        #expect(fault?.retryAfter == .seconds(120))
    }

    @Test func aSignOfLifeIsAGETToOneOfItsTwoAddresses() async throws {
        let transport = ScriptedTransport { _ in .json(200, "") }
        let sign = try #require(
            try AlertRegistry.alert(
                "sign-of-life",
                [
                    "url": "https://hc.example/abc", "failure": "https://hc.example/abc/fail",
                    "every": "2m",
                ]) as? SignOfLife)
        #expect(sign.every == .seconds(120) && sign.hasFailureAddress)
        try await sign.callAlive(Self.parts(transport))
        try await sign.callFailure(Self.parts(transport))
        #expect(transport.lines == ["GET /abc", "GET /abc/fail"])
    }

    @Test(arguments: [
        ("90s", 90), ("5m", 300), ("1h", 3_600), ("1d", 86_400), ("45", 45), ("0", 0),
        ("", nil), ("m", nil), ("-5m", nil), ("5 m", nil), ("1w", nil), ("999999999d", nil),
        ("١m", nil), ("12345678901234567890", nil),
    ])
    func aLengthOfTimeIsReadAsAPersonWritesIt(text: String, seconds: Int64?) {
        #expect(Duration(written: text) == seconds.map { .seconds($0) })
    }
}

/// Mails as they are written.
@Suite struct MailTextTests {
    private func mail(
        subject: String = "gw: error: no-adapter", text: String = "one\ntwo\n", date: UTC? = nil
    ) throws -> String {
        let from = try #require(MailAddress("gw@mail.example"))
        let to = try ["a@mail.example", "b@mail.example"].map { try #require(MailAddress($0)) }
        return String(
            decoding: MailText(
                from: from, to: to, subject: subject, text: text, id: "a1-7@mail.example",
                isUrgent: true, date: date
            ).bytes, as: UTF8.self)
    }

    private func headers(_ mail: String) -> String {
        String(mail[..<(mail.range(of: "\r\n\r\n")?.lowerBound ?? mail.endIndex)])
    }

    @Test func everyLineEndsAsSMTPWantsIt() throws {
        let text = try mail(text: "a\r\nb\rc\n.\n")
        #expect(text.replacing("\r\n", with: "").utf8.allSatisfy { $0 != 0x0D && $0 != 0x0A })
        #expect(text.hasSuffix("\r\n"))
    }

    /// A name of a gateway or a strap must not become a header of its own.
    @Test(arguments: ["x\r\nBcc: evil@evil.example", "x\nBcc: evil@evil.example", "x\u{0}\u{7F}y"])
    func aLineEndInASubjectBeginsNoHeader(subject: String) throws {
        let headers = headers(try mail(subject: subject))
        #expect(!headers.contains("Bcc"))
        #expect(headers.utf8.allSatisfy { 0x20...0x7E ~= $0 || $0 == 0x0D || $0 == 0x0A })
    }

    @Test func aSubjectThatIsNotASCIIIsEncodedInShortWords() throws {
        let subject = String(repeating: "Zürich 💓 ", count: 20)
        for word in EncodedWords.words(subject) { #expect(word.utf8.count <= 75) }
        #expect(EncodedWords.words("plain") == ["plain"])
        // It would be decoded by whoever shows it.
        #expect(EncodedWords.header("=?utf-8?B?eA==?=") != "=?utf-8?B?eA==?=")
        #expect(EncodedWords.words("") == [""])
        let long = headers(try mail(subject: subject)).split(separator: "\r\n")
        #expect(long.allSatisfy { $0.utf8.count <= 78 + 12 })
    }

    @Test func aDateIsWrittenAsMailHasItAndLeftOutWhileTheClockIsWrong() throws {
        // date -u -d @1795846200 -R
        let text = try mail(date: UTC(microseconds: 1_795_846_200_000_000))
        #expect(text.contains("\r\nDate: Sat, 28 Nov 2026 06:10:00 +0000\r\n"))
        #expect(try !mail().contains("Date:"))
        for days in [Int64(0), 59, 60, 365, 20_000, 30_000] {
            #expect(
                try mail(date: UTC(day: days)).contains(" 00:00:00 +0000"), "\(days)")
        }
    }

    @Test func textThatIsNotASCIIIsBase64InShortLines() throws {
        let text = try mail(text: String(repeating: "Gürtel zu Hause ", count: 200))
        #expect(text.contains("Content-Transfer-Encoding: base64"))
        #expect(text.split(separator: "\r\n").allSatisfy { $0.utf8.count <= 90 })
        #expect(try mail(text: String(repeating: "x", count: 999)).contains(": base64"))
        #expect(try mail().contains("7bit"))
    }
}
