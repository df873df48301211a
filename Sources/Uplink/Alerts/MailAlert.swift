import Basics
import OfflineQueue

/// Mail, through a server that takes it from this gateway.
public struct MailAlert: AlertSender {
    private let server: MailServer
    private let from: MailAddress
    private let to: [MailAddress]
    private let login: Login?

    /// A mailing list serves more.
    private static let recipientsMax = 10

    public static let name = "mail"
    public static let summary = "mail, through an SMTP server with TLS"
    public static let fields = [
        SettingField(
            "server",
            "smtps://HOST (TLS, port 465) or smtp://HOST (STARTTLS, port 587); another port behind a colon"
        ),
        SettingField("from", "the sender's address; most servers want the account's own"),
        SettingField("to", "the recipient's address, or up to 10 of them with commas between"),
        SettingField("user", .optional, "the account at the server, if it wants one"),
        SettingField("password", .optional, isSecret: true, "the account's password"),
        SettingField(
            "tls", .standard("required"),
            "required, or none for a server on this machine that has none"),
    ]

    public init(_ values: SettingValues) throws(DestinationProblem) {
        server = try MailServer(
            values.text("server") ?? "",
            isPlain: values.choice("tls", MailServer.Security.self) == .none)
        from = try Self.address(values.text("from") ?? "", "from")
        let listed = (values.text("to") ?? "").split(
            separator: ",", omittingEmptySubsequences: false)
        guard 1...Self.recipientsMax ~= listed.count else {
            throw DestinationProblem(
                "to has too many addresses", "give up to \(Self.recipientsMax), or a mailing list")
        }
        var to: [MailAddress] = []
        for text in listed {
            let address = try Self.address(String(text.drop { $0 == " " }), "to")
            if !to.contains(address) { to.append(address) }
        }
        self.to = to
        login = try values.login(
            "user", or: DestinationProblem("user and password belong together", "give both or none")
        )
    }

    private static func address(
        _ text: String, _ setting: String
    ) throws(DestinationProblem) -> MailAddress {
        guard let address = MailAddress(text) else {
            throw DestinationProblem(
                "\(setting) is not a mail address", "such as \(setting)=ward@hospital.example")
        }
        return address
    }

    public var place: String {
        "\(server), " + (to.count == 1 ? "1 recipient" : "\(to.count) recipients")
    }

    public func send(_ message: AlertMessage, _ parts: AlertParts) async throws(AlertFault) {
        let mail = MailText(
            from: from, to: to, subject: message.title, text: message.text,
            id: "\(message.id)@\(from.domain)", isUrgent: message.urgency == .error,
            date: parts.now.trustedWall)
        try await MailTransfer(server: server, login: login, settings: parts.network)
            .send(mail.bytes, from: from, to: to)
    }
}

/// A server that takes mail.
struct MailServer: Sendable, Hashable, CustomStringConvertible {
    /// Whether the connection is secured.
    enum Security: String, CaseIterable { case required, none }

    /// Host and port.
    let origin: Origin
    /// Whether TLS begins with the connection, and not by a command.
    let isImplicit: Bool
    /// Whether there is none at all.
    let isPlain: Bool

    private static let ports: (implicit: UInt16, submission: UInt16) = (465, 587)

    init(_ text: String, isPlain: Bool) throws(DestinationProblem) {
        let parts = text.split(separator: ":", maxSplits: 1)
        let scheme = parts.first.map { $0.lowercased() } ?? ""
        guard scheme == "smtp" || scheme == "smtps", parts.count == 2, parts[1].hasPrefix("//"),
            let given = Origin(
                scheme: .https,
                authority: parts[1].dropFirst(2).hasSuffix("/")
                    ? parts[1].dropFirst(2).dropLast() : parts[1].dropFirst(2))
        else {
            throw DestinationProblem(
                "server is not the address of a mail server",
                "such as smtps://mail.example or smtp://mail.example:587; user and password have settings "
                    + "of their own")
        }
        isImplicit = scheme == "smtps"
        self.isPlain = isPlain
        guard !isPlain || (given.isLoopback && !isImplicit) else {
            throw DestinationProblem(
                "mail without TLS is sent to this machine only",
                "leave tls=none out; or give server=smtp://127.0.0.1:25")
        }
        let port = given.port ?? (isImplicit ? Self.ports.implicit : Self.ports.submission)
        // A host and a port that were just read.
        origin = Origin(scheme: .https, authority: "\(given.host):\(port)") ?? given
    }

    /// Without a port it would be another one than meant.
    var description: String {
        "\(isImplicit ? "smtps" : "smtp")://\(origin.host)" + (origin.port.map { ":\($0)" } ?? "")
    }
}

/// A mail address: ASCII, and nothing that means something in a command or a header.
struct MailAddress: Sendable, Hashable {
    let text: String
    let domain: String

    /// RFC 5321 §4.5.3.1.
    private static let lengthMax = 254

    init?(_ text: String) {
        let sides = text.split(separator: "@", omittingEmptySubsequences: false)
        guard text.utf8.count <= Self.lengthMax, sides.count == 2, !sides[0].isEmpty,
            sides[0].utf8.count <= 64, sides[0].utf8.allSatisfy(Self.isAtom),
            Origin(scheme: .https, authority: sides[1])?.port == nil,
            Origin(scheme: .https, authority: sides[1]) != nil, !sides[1].hasPrefix("[")
        else { return nil }
        self.text = text
        domain = sides[1].lowercased()
    }

    private static func isAtom(_ byte: UInt8) -> Bool {
        0x21...0x7E ~= byte && !"()<>[]:;@\\,\"".utf8.contains(byte)
    }
}

/// A mail as it is sent (RFC 5322).
struct MailText {
    let bytes: [UInt8]

    private static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]
    private static let days = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"]
    /// RFC 5322 §2.1.1, without its line end.
    private static let lineBytesMax = 998
    private static let base64Line = 76

    /// - Parameters:
    ///   - id: what tells it from other mails.
    ///   - date: now, if that is known; a server adds a date that is missing.
    init(
        from: MailAddress, to: [MailAddress], subject: String, text: String, id: String,
        isUrgent: Bool, date: UTC?
    ) {
        var lines = ["From: <\(from.text)>"]
        lines.append("To: " + to.map { "<\($0.text)>" }.joined(separator: ",\r\n "))
        lines.append("Subject: " + EncodedWords.words(subject).joined(separator: "\r\n "))
        if let date { lines.append("Date: " + Self.text(date)) }
        lines.append("Message-ID: <\(id)>")
        // Nothing answers it by itself (RFC 3834).
        lines.append("Auto-Submitted: auto-generated")
        if isUrgent { lines.append("Importance: high") }
        lines.append("MIME-Version: 1.0")
        lines.append("Content-Type: text/plain; charset=utf-8")
        let body = text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline)
            .map(String.init)
        let isPlain = body.allSatisfy { line in
            line.utf8.count <= Self.lineBytesMax
                && line.utf8.allSatisfy { 0x20...0x7E ~= $0 || $0 == 0x09 }
        }
        if isPlain {
            lines += ["Content-Transfer-Encoding: 7bit", ""] + body
        } else {
            var encoded = JSONBytes()
            encoded.base64([UInt8](body.joined(separator: "\r\n").utf8))
            lines += ["Content-Transfer-Encoding: base64", ""]
            var rest = encoded.bytes[...]
            while !rest.isEmpty {
                lines.append(String(decoding: rest.prefix(Self.base64Line), as: UTF8.self))
                rest = rest.dropFirst(Self.base64Line)
            }
        }
        bytes = [UInt8]((lines.joined(separator: "\r\n") + "\r\n").utf8)
    }

    /// `Sat, 28 Nov 2026 06:00:00 +0000`
    private static func text(_ time: UTC) -> String {
        let seconds = (time.microseconds / 1_000_000) - time.day * 86_400
        let date = CivilDate(daysSince1970: time.day)
        func two(_ number: Int64) -> String { number < 10 ? "0\(number)" : "\(number)" }
        let day = days[Int(((time.day % 7) + 7) % 7)]
        let month = 1...12 ~= date.month ? months[Int(date.month) - 1] : "Jan"
        return "\(day), \(two(date.day)) \(month) \(date.year) "
            + "\(two(seconds / 3600)):\(two(seconds / 60 % 60)):\(two(seconds % 60)) +0000"
    }
}
