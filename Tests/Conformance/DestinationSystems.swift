import Basics
import Foundation
import Testbed
import Uplink

/// A port of 127.0.0.1 that was free a moment ago.
func freePort() throws -> Int {
    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    defer { close(descriptor) }
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    let isBound = withUnsafeMutablePointer(to: &address) { pointer in
        pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
            bind(descriptor, $0, length) == 0 && getsockname(descriptor, $0, &length) == 0
        }
    }
    guard isBound else { throw CocoaError(.fileReadUnknown) }
    return Int(UInt16(bigEndian: address.sin_port))
}

/// The programs and the directory of a system, which end with the test, however it ends.
struct ContractServer: Sendable {
    static let root = URL(filePath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent()
    static let python = root.appending(path: ".build-oracles/bin/python").path

    let directory: URL

    init() throws {
        directory = URL(filePath: "/tmp/contract-\(UUID().uuidString.prefix(8))")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
    }

    var log: String { directory.appending(path: "log").path }

    /// Starts a script of this folder that prints its port.
    func script(_ name: String, _ words: [String]) async throws -> (ChildProcess, port: Int) {
        let (child, line) = try await ChildProcess.start(
            Self.python, [Self.root.appending(path: "Tests/Conformance/\(name)").path] + words,
            log: log)
        guard let port = Int(line.trimmingCharacters(in: .whitespacesAndNewlines)) else {
            throw CocoaError(.fileReadCorruptFile)
        }
        return (child, port)
    }

    /// Waits until a server answers, half a minute at most.
    func wait(for address: String) async throws {
        guard let url = URL(string: address), let origin = Origin(address) else {
            throw CocoaError(.fileReadUnknown)
        }
        for _ in 0..<300 {
            let answer = try? await CurlTransport().send(
                HTTPRequest(.get, origin, url.path.isEmpty ? "/" : url.path))
            if let answer, answer.status < 500 { return }
            try await Task.sleep(for: .milliseconds(100))
        }
        let words = (try? String(contentsOfFile: log, encoding: .utf8)) ?? ""
        throw ProblemText(text: "\(address) does not answer: \(words.suffix(500))")
    }

    func remove() { try? FileManager.default.removeItem(at: directory) }

    struct ProblemText: Error, CustomStringConvertible {
        var text: String
        var description: String { text }
    }
}

func get(_ address: String, _ target: String) async throws -> [UInt8] {
    guard let origin = Origin(address) else { throw CocoaError(.fileReadUnknown) }
    return try await CurlTransport().send(HTTPRequest(.get, origin, target)).body
}

/// A receiver that verifies each request with the library of Standard Webhooks.
struct WebhookSystem: ContractSystem {
    let server: ContractServer
    let child: ChildProcess
    let address: String
    let kind: any DestinationKind

    init(format: String) async throws {
        server = try ContractServer()
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
        let (child, port) = try await server.script("webhook_receiver.py", [secret, format])
        self.child = child
        address = "http://127.0.0.1:\(port)"
        kind = try DestinationRegistry.destination(
            "webhook", ["url": "\(address)/in", "secret": secret, "format": format])
    }

    func counts() async throws -> (stored: Int, repeated: Int) {
        let counts = try JSONDecoder().decode(
            [String: Int].self, from: Data(try await get(address, "/counts")))
        guard counts["refused"] == 0 else { throw CocoaError(.fileReadCorruptFile) }
        return (counts["stored"] ?? 0, counts["repeated"] ?? 0)
    }

    func ledgerCounts() async throws -> (gaps: Int, days: Int)? {
        let counts = try JSONDecoder().decode(
            [String: Int].self, from: Data(try await get(address, "/counts")))
        return (counts["gap"] ?? 0, counts["coverage"] ?? 0)
    }

    func stop() async {
        await child.stop()
        server.remove()
    }
}

/// InfluxDB 1.6 from Debian.
struct InfluxSystem: ContractSystem {
    let server: ContractServer
    let child: ChildProcess
    let address: String
    let kind: any DestinationKind

    init() async throws {
        server = try ContractServer()
        let port = try freePort()
        address = "http://127.0.0.1:\(port)"
        let data = server.directory.path
        let configuration = """
            bind-address = "127.0.0.1:0"
            reporting-disabled = true
            [meta]
              dir = "\(data)/meta"
            [data]
              dir = "\(data)/data"
              wal-dir = "\(data)/wal"
            [http]
              bind-address = "127.0.0.1:\(port)"
              log-enabled = false
            """
        try configuration.write(
            toFile: data + "/influx.conf", atomically: true, encoding: .utf8)
        child = try await ChildProcess.launch(
            "/usr/bin/influxd", ["-config", data + "/influx.conf"],
            environment: ["HOME": data, "PATH": "/usr/bin:/bin"], log: server.log)
        kind = try DestinationRegistry.destination("influx", ["url": address, "database": "ward"])
        do {
            try await server.wait(for: address + "/ping")
        } catch {
            await child.stop()
            throw error
        }
        guard let origin = Origin(address) else { throw CocoaError(.fileReadUnknown) }
        _ = try await CurlTransport().send(
            HTTPRequest(.post, origin, "/query?q=CREATE%20DATABASE%20ward"))
    }

    private struct Answer: Decodable {
        struct Result: Decodable {
            struct Series: Decodable { var values: [[Value]] }
            var series: [Series]?
        }
        enum Value: Decodable {
            case number(Double), other

            init(from decoder: any Decoder) throws {
                let number = try? decoder.singleValueContainer().decode(Double.self)
                self = number.map { .number($0) } ?? .other
            }
        }
        var results: [Result]
    }

    func counts() async throws -> (stored: Int, repeated: Int) {
        (try await count("bpm", of: "heart_rate"), 0)
    }

    func ledgerCounts() async throws -> (gaps: Int, days: Int)? {
        (
            try await count("seconds", of: "heart_rate_gap"),
            try await count("expected", of: "heart_rate_coverage")
        )
    }

    private func count(_ field: String, of measurement: String) async throws -> Int {
        let body = try await get(
            address, "/query?db=ward&q=SELECT%20count(\(field))%20FROM%20\(measurement)")
        let answer = try JSONDecoder().decode(Answer.self, from: Data(body))
        guard case .number(let count)? = answer.results.first?.series?.first?.values.first?.last
        else { return 0 }
        return Int(count)
    }

    func stop() async {
        await child.stop()
        server.remove()
    }
}

/// VictoriaMetrics from Debian, which keeps what comes again, and times in milliseconds.
struct VictoriaSystem: ContractSystem {
    let server: ContractServer
    let child: ChildProcess
    let address: String
    let kind: any DestinationKind

    init() async throws {
        server = try ContractServer()
        let port = try freePort()
        address = "http://127.0.0.1:\(port)"
        let data = server.directory.path
        child = try await ChildProcess.launch(
            "/usr/bin/victoria-metrics",
            [
                "-storageDataPath=\(data)/data", "-httpListenAddr=127.0.0.1:\(port)",
                "-retentionPeriod=100y", "-search.latencyOffset=0s",
            ], environment: ["HOME": data, "PATH": "/usr/bin:/bin"], log: server.log)
        kind = try DestinationRegistry.destination("influx", ["url": address, "database": "ward"])
        do {
            try await server.wait(for: address + "/health")
        } catch {
            await child.stop()
            throw error
        }
    }

    private struct Series: Decodable { var timestamps: [Int64] }

    func counts() async throws -> (stored: Int, repeated: Int) {
        // What was written becomes readable a second later.
        _ = try await get(address, "/internal/force_flush")
        // It remembers for some seconds that a selector found nothing: this one is always new.
        let selector = "heart_rate_bpm%7Bnew%21%3D%22\(UUID().uuidString)%22%7D"
        let body = try await get(address, "/api/v1/export?match%5B%5D=\(selector)")
        let series = try String(decoding: body, as: UTF8.self).split(separator: "\n").map {
            try JSONDecoder().decode(Series.self, from: Data($0.utf8))
        }
        let times = series.flatMap(\.timestamps)
        let different = Set(times).count
        // Samples of one microsecond share their millisecond too.
        let pairs = different == 0 ? 0 : DestinationContract.pairs
        return (different + pairs, times.count - different - pairs)
    }

    func stop() async {
        await child.stop()
        server.remove()
    }
}

/// What CloudCare's API does, with a strap that is paired by its code.
struct CloudCareSystem: ContractSystem {
    let server: ContractServer
    let child: ChildProcess
    let address: String
    let kind: any DestinationKind

    init() async throws {
        server = try ContractServer()
        let (child, port) = try await server.script("cloudcare_front.py", ["patient-1"])
        self.child = child
        address = "http://127.0.0.1:\(port)"
        kind = try DestinationRegistry.destination(
            "cloudcare",
            [
                "url": "\(address)/api/v1", "gateway": "gw-1",
                "device-key": "0123456789abcdef0123456789abcdef",
            ])
        let code = kind.pairingCode(sensorID: 1, patient: nil, now: .now())
        // The phone adds whose the strap is.
        let text = (code?.text.dropLast() ?? "{") + #","androidUserId":"patient-1"}"#
        guard let origin = Origin(address) else { throw CocoaError(.fileReadUnknown) }
        let answer = try await CurlTransport().send(
            HTTPRequest(
                .post, origin, "/api/v1/wearables/devices/pair", contentType: "application/json",
                body: Array(text.utf8)))
        guard answer.status == 201 else {
            throw ContractServer.ProblemText(text: "not paired: HTTP \(answer.status)")
        }
    }

    func counts() async throws -> (stored: Int, repeated: Int) {
        let counts = try JSONDecoder().decode(
            [String: Int].self, from: Data(try await get(address, "/counts")))
        guard counts["lost"] == 0 else {
            throw ContractServer.ProblemText(text: "samples were taken for others: \(counts)")
        }
        // A repetition is counted there and not stored.
        return (counts["stored"] ?? 0, 0)
    }

    func stop() async {
        await child.stop()
        server.remove()
    }
}

/// What Firebase does under deploy/firebase/database.rules.json, read by the official Admin SDK.
struct FirebaseSystem: ContractSystem {
    let server: ContractServer
    let child: ChildProcess
    let port: Int
    let kind: any DestinationKind

    static let user = "gatewayUser1"
    static let share = "0123456789abcdef0123456789abcdef"

    init() async throws {
        server = try ContractServer()
        let (child, port) = try await server.script("firebase_front.py", [])
        self.child = child
        self.port = port
        let address = "http://127.0.0.1:\(port)"
        kind = try DestinationRegistry.destination(
            "firebase",
            [
                "url": address, "emulator": address, "key": "AIza-test", "share": "yes",
                "email": "gateway@clinic.example", "password": "correct horse",
                "share-id": Self.share,
            ])
    }

    private struct Counts: Decodable { var stored, shared: Int }

    func counts() async throws -> (stored: Int, repeated: Int) {
        let read = try await Command.run(
            ContractServer.python,
            [
                ContractServer.root.appending(path: "Tests/Conformance/firebase_reader.py").path,
                "\(port)", Self.user, Self.share,
            ])
        guard read.status == 0 else { throw ContractServer.ProblemText(text: read.complaint) }
        let counts = try JSONDecoder().decode(Counts.self, from: Data(read.output.utf8))
        guard counts.stored == counts.shared else {
            throw ContractServer.ProblemText(text: "not all are shared: \(counts)")
        }
        return (counts.stored, 0)
    }

    func stop() async {
        await child.stop()
        server.remove()
    }
}

/// mosquitto from Debian behind a network that cuts connections, with paho-mqtt as the subscriber.
struct MosquittoSystem: ContractSystem {
    let server: ContractServer
    let broker: ChildProcess
    let front: ChildProcess
    let address: String
    let kind: any DestinationKind

    /// Starts a broker that takes the user `gw` with the password `correct horse`, who may publish below
    /// `edge-gateway/ward/`. With a `seed` other than 0 its network fails.
    init(_ settings: [String: String] = [:], seed: UInt64 = 1) async throws {
        server = try ContractServer()
        let data = server.directory.path
        let port = try freePort()
        let made = try await Command.run(
            "/usr/bin/mosquitto_passwd", ["-b", "-c", data + "/passwords", "gw", "correct horse"])
        guard made.status == 0 else {
            throw ContractServer.ProblemText(text: made.output + made.complaint)
        }
        let rules = """
            topic readwrite #
            user gw
            topic write edge-gateway/ward/#
            topic write homeassistant/sensor/#
            """
        try rules.write(toFile: data + "/rules", atomically: true, encoding: .utf8)
        // The subscriber gets everything, however far it is behind.
        let configuration = """
            user root
            persistence false
            max_queued_messages 0
            max_inflight_messages 0
            listener \(port) 127.0.0.1
            allow_anonymous true
            password_file \(data)/passwords
            acl_file \(data)/rules
            """
        try configuration.write(
            toFile: data + "/mosquitto.conf", atomically: true, encoding: .utf8)
        broker = try await ChildProcess.launch(
            "/usr/sbin/mosquitto", ["-c", data + "/mosquitto.conf"],
            environment: ["PATH": "/usr/bin:/bin"], log: server.log)
        do {
            let (front, relay) = try await server.script("mqtt_front.py", ["\(port)", "\(seed)"])
            self.front = front
            address = "http://127.0.0.1:\(relay)"
            kind = try DestinationRegistry.destination(
                "mqtt",
                [
                    "url": "mqtt://127.0.0.1:\(relay)", "gateway": "ward", "user": "gw",
                    "password": "correct horse",
                ].merging(settings) { $1 })
        } catch {
            await broker.stop()
            throw error
        }
    }

    func counts() async throws -> (stored: Int, repeated: Int) {
        let counts = try JSONDecoder().decode(
            [String: Int].self, from: Data(try await get(address, "/counts")))
        guard counts["backward"] == 0, counts["unreadable"] == 0 else {
            throw ContractServer.ProblemText(text: "the subscriber complains: \(counts)")
        }
        return (counts["stored"] ?? 0, counts["repeated"] ?? 0)
    }

    /// What the broker keeps for who subscribes later, by topic.
    func retained() async throws -> [String: String] {
        try JSONDecoder().decode(
            [String: String].self, from: Data(try await get(address, "/topics")))
    }

    func stop() async {
        await front.stop()
        await broker.stop()
        server.remove()
    }
}

/// PostgreSQL 15 from Debian with deploy/supabase.sql, behind what PostgREST and GoTrue do.
struct PostgRESTSystem: ContractSystem {
    let server: ContractServer
    let database: ChildProcess
    let front: ChildProcess
    let address: String
    let kind: any DestinationKind

    static let programs = "/usr/lib/postgresql/15/bin/"

    init() async throws {
        server = try ContractServer()
        let directory = server.directory.path
        let data = directory + "/data"
        // PostgreSQL does not run as root.
        let isRoot = getuid() == 0
        let asItself =
            isRoot
            ? ["--reuid", "postgres", "--regid", "postgres", "--clear-groups", "--"] : ["--"]
        if isRoot { _ = try await Command.run("/usr/bin/chown", ["postgres", directory]) }
        let made = try await Command.run(
            "/usr/bin/setpriv",
            asItself + [
                Self.programs + "initdb", "-D", data, "-A", "trust", "-U", "postgres", "-N",
            ],
            directory: directory)
        guard made.status == 0 else {
            throw ContractServer.ProblemText(text: made.output + made.complaint)
        }
        // Changing the user forgets the signal at the parent's death: it is asked for again.
        database = try await ChildProcess.launch(
            "/usr/bin/setpriv",
            asItself + [
                "/usr/bin/setpriv", "--pdeathsig", "KILL", "--", Self.programs + "postgres",
                "-D", data, "-k", directory, "-c", "listen_addresses=", "-c", "fsync=off",
            ], environment: ["PATH": "/usr/bin:/bin", "LC_ALL": "C"], log: server.log)
        do {
            try await Self.sql(directory, ["-c", "create role authenticated nologin"])
            try await Self.sql(
                directory,
                ["-f", ContractServer.root.appending(path: "deploy/supabase.sql").path])
            let (front, port) = try await server.script(
                "postgrest_front.py", ["host=\(directory) user=postgres dbname=postgres"])
            self.front = front
            address = "http://127.0.0.1:\(port)"
        } catch {
            await database.stop()
            throw error
        }
        kind = try DestinationRegistry.destination(
            "postgrest",
            [
                "url": address + "/rest/v1", "key": "sb_publishable_test",
                "email": "gateway@clinic.example", "password": "correct horse", "patient": "id",
            ])
    }

    /// Runs SQL as the database's owner, which may have to start first.
    @discardableResult
    static func sql(_ directory: String, _ words: [String]) async throws -> String {
        var outcome = try await Command.run("/usr/bin/true", [])
        for _ in 0..<100 {
            outcome = try await Command.run(
                "/usr/bin/psql",
                ["-h", directory, "-U", "postgres", "-v", "ON_ERROR_STOP=1", "-qAtX"] + words)
            if outcome.status != 2 { break }
            try await Task.sleep(for: .milliseconds(100))
        }
        guard outcome.status == 0 else {
            throw ContractServer.ProblemText(text: outcome.complaint)
        }
        return outcome.output
    }

    func counts() async throws -> (stored: Int, repeated: Int) {
        let text = try await Self.sql(
            server.directory.path,
            ["-c", "select count(distinct id), count(*) - count(distinct id) from heart_rate"])
        return try Self.pair(text)
    }

    func ledgerCounts() async throws -> (gaps: Int, days: Int)? {
        let text = try await Self.sql(
            server.directory.path,
            [
                "-c",
                "select (select count(*) from heart_rate_gap), "
                    + "(select count(*) from heart_rate_coverage "
                    + "where day = current_date - 1 or day = current_date - 2)",
            ])
        return try Self.pair(text)
    }

    private static func pair(_ text: String) throws -> (Int, Int) {
        let numbers = text.split { !$0.isNumber }.compactMap { Int($0) }
        guard numbers.count == 2 else { throw CocoaError(.fileReadCorruptFile) }
        return (numbers[0], numbers[1])
    }

    func stop() async {
        await front.stop()
        database.signal(SIGQUIT)
        _ = await database.wait()
        server.remove()
    }
}
