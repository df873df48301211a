import Foundation
import Testbed
import Uplink

/// A mail server that knows nothing of us (aiosmtpd), on this machine.
struct MailSystem: Sendable {
    /// What it took, as a mail program reads it.
    struct Mail: Decodable {
        var from: String
        var to: [String]
        var subject: String
        var text: String
        var id: String
        var tls: Bool
        var defects: [String]
        var headers: [String]
    }

    /// How it is reached, and what it asks for.
    enum Mode: String { case smtps, starttls, plain, open }

    static let user = "gw@mail.example"
    static let password = "correct horse ü"

    let host: SystemHost
    let mode: Mode
    let port: Int

    static func start(_ mode: Mode) async throws -> MailSystem {
        try await SystemHost.start("mail", needs: [SystemHost.judgesPython]) { host in
            let port = try await host.script(
                "mail_server.py", [host.directory, mode.rawValue], python: SystemHost.judgesPython)
            return MailSystem(host: host, mode: mode, port: port)
        }
    }

    var address: String { "\(mode == .smtps ? "smtps" : "smtp")://127.0.0.1:\(port)" }

    /// The settings that a person would give.
    var settings: [String: String] {
        var settings = [
            "server": address, "from": "gw@mail.example", "to": "ward@mail.example,b@mail.example",
        ]
        if mode == .smtps || mode == .starttls {
            settings["user"] = Self.user
            settings["password"] = Self.password
        }
        return settings
    }

    /// The authority of its certificate.
    var authorityFile: String { host.path("cert.pem") }

    var network: CurlSettings {
        var settings = CurlSettings()
        settings.authorityFile = authorityFile
        return settings
    }

    /// Has it answer this to mails; nil: it takes them.
    func answer(_ text: String?) throws {
        guard let text else {
            return try FileManager.default.removeItem(atPath: host.path("answer"))
        }
        try host.write(text, to: "answer")
    }

    func mails() throws -> [Mail] { try lines(of: "mails.jsonl", in: host) }

    func stop() async { await host.stop() }
}

/// What receivers of webhooks, ntfy and healthchecks are, in one.
struct ReceiverSystem: Sendable {
    struct Request: Decodable {
        var method: String
        var path: String
        var status: Int
        var body: String
        var title: String
        var headers: [String: String]
    }

    static let key = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

    let host: SystemHost
    let address: String

    static func start() async throws -> ReceiverSystem {
        try await SystemHost.start("webhook", needs: [SystemHost.judgesPython]) { host in
            let port = try await host.script(
                "alert_receiver.py", [host.directory, key], python: SystemHost.judgesPython)
            return ReceiverSystem(host: host, address: "http://127.0.0.1:\(port)")
        }
    }

    func requests() throws -> [Request] { try lines(of: "requests.jsonl", in: host) }

    func stop() async { await host.stop() }
}

private func lines<Line: Decodable>(of name: String, in host: SystemHost) throws -> [Line] {
    guard let text = try? String(contentsOfFile: host.path(name), encoding: .utf8) else {
        return []
    }
    return try text.split(separator: "\n").map {
        try JSONDecoder().decode(Line.self, from: Data($0.utf8))
    }
}
