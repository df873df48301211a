import Foundation

/// mosquitto from Debian. It takes the user `gw` with the password `correct horse`, who may publish below
/// `edge-gateway/ward/`, and anybody who reads.
public struct MosquittoBroker: Sendable {
    /// Where it listens, on 127.0.0.1.
    public let port: Int
    /// The file that holds the user's password.
    public let passwordFile: String

    private static let password = "correct horse"

    /// Starts a broker that keeps everything for who subscribes, however far behind.
    public static func start(on host: SystemHost) async throws -> MosquittoBroker {
        let port = try FreePort.anywhere()
        let passwords = host.path("passwords")
        try await host.run("/usr/bin/mosquitto_passwd", ["-b", "-c", passwords, "gw", password])
        let rules = """
            topic readwrite #
            user gw
            topic write edge-gateway/ward/#
            topic write homeassistant/sensor/#
            topic write homeassistant/device/#
            """
        let configuration = """
            user root
            persistence false
            max_queued_messages 0
            max_inflight_messages 0
            listener \(port) 127.0.0.1
            allow_anonymous true
            password_file \(passwords)
            acl_file \(try host.write(rules, to: "rules"))
            """
        try await host.launch(
            "/usr/sbin/mosquitto", ["-c", try host.write(configuration, to: "mosquitto.conf")])
        return MosquittoBroker(
            port: port, passwordFile: try host.write(password, to: "password"))
    }

    /// The programs it takes.
    public static let needs = ["/usr/sbin/mosquitto", "/usr/bin/mosquitto_passwd"]

    /// The settings of a gateway that reaches it through this port of 127.0.0.1.
    public static func settings(port: Int) -> [String: String] {
        [
            "url": "mqtt://127.0.0.1:\(port)", "gateway": "ward", "user": "gw",
            "password": password,
        ]
    }
}

/// A broker, and a mosquitto_sub that has a session of its own there and reads every heart rate.
public struct MosquittoSystem: DestinationSystem {
    public let kind = "mqtt"
    public let title = "mosquitto"
    public let mayRepeat = true
    public var settings: [String: String] { MosquittoBroker.settings(port: broker.port) }
    public var secretFiles: [String: String] { ["password": broker.passwordFile] }
    private let host: SystemHost
    private let broker: MosquittoBroker

    private static let subscriber = "/usr/bin/mosquitto_sub"
    private static let publisher = "/usr/bin/mosquitto_pub"
    /// The subscriber writes into this file: topic and message, a line each.
    private static let readFile = "read"
    private static let mark = "reader/mark"
    /// The broker may take so long to start and to hand on, in tenths of a second; both are done in a tenth
    /// unless the machine is loaded.
    private static let tenthsMax = 300

    /// Starts both; the subscription stands when this returns.
    public static func start() async throws -> MosquittoSystem {
        let needs = MosquittoBroker.needs + [subscriber, publisher]
        return try await SystemHost.start("mqtt", needs: needs) { host in
            let broker = try await MosquittoBroker.start(on: host)
            let words = [
                "-h", "127.0.0.1", "-p", "\(broker.port)", "-i", "reader", "-c", "-q", "1",
                "-t", "edge-gateway/ward/sensor/+/heart-rate", "-t", mark,
            ]
            try await subscribe(words, host)
            try await host.launch(subscriber, words + ["-F", "%t %p"], output: readFile)
            return MosquittoSystem(host: host, broker: broker)
        }
    }

    /// Makes the session: it keeps what comes before its reader is back.
    private static func subscribe(_ words: [String], _ host: SystemHost) async throws {
        var outcome = try await Command.run(subscriber, words + ["-E"])
        for _ in 0..<tenthsMax where outcome.status != 0 {
            try await Task.sleep(for: .milliseconds(100))
            outcome = try await Command.run(subscriber, words + ["-E"])
        }
        guard outcome.status == 0 else {
            throw SystemFault("mosquitto does not answer: \(outcome.complaint)\(host.logTail)")
        }
    }

    public func counts() async throws -> (stored: Int, repeated: Int) {
        // The broker hands on in order: what it acknowledged before the mark is read before the mark.
        let mark = UUID().uuidString
        try await host.run(
            Self.publisher,
            [
                "-h", "127.0.0.1", "-p", "\(broker.port)", "-q", "1", "-t", Self.mark, "-m", mark,
            ])
        for _ in 0..<Self.tenthsMax {
            let lines = try read()
            if lines.last(where: { $0.hasPrefix(Self.mark) }) == "\(Self.mark) \(mark)" {
                return try Self.count(lines)
            }
            try await Task.sleep(for: .milliseconds(100))
        }
        throw SystemFault("mosquitto does not hand on: \(host.logTail)")
    }

    /// The whole lines that were read.
    private func read() throws -> [Substring] {
        let text = try String(contentsOfFile: host.path(Self.readFile), encoding: .utf8)
        guard let end = text.lastIndex(of: "\n") else { return [] }
        return text[...end].split(separator: "\n")
    }

    private struct Message: Decodable { var id: String }

    private static func count(_ lines: [Substring]) throws -> (stored: Int, repeated: Int) {
        let identities = try lines.filter { !$0.hasPrefix(mark) }.map { line in
            let payload = line.drop { $0 != " " }.dropFirst()
            return try JSONDecoder().decode(Message.self, from: Data(payload.utf8)).id
        }
        let different = Set(identities).count
        return (different, identities.count - different)
    }

    public func stop() async { await host.stop() }
}
