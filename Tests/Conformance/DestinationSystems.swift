import Basics
import Foundation
import Testbed
import Uplink

// The real systems of the contract that the testbed does not start for the demo, too.

/// A system that is reached in a way of its own.
protocol NetworkedSystem: DestinationSystem {
    /// How.
    var network: CurlSettings { get }
}

extension DestinationSystem {
    /// How it is reached.
    var network: CurlSettings { (self as? any NetworkedSystem)?.network ?? CurlSettings() }

    /// The destination, with the settings that a person would give.
    func destination() throws -> any DestinationKind {
        try DestinationRegistry.destination(kind, settings)
    }
}

/// VictoriaMetrics from Debian, which keeps what comes again, and times in milliseconds.
struct VictoriaSystem: DestinationSystem {
    let kind = "influx"
    let mayRepeat = true
    let host: SystemHost
    let address: String
    var settings: [String: String] { ["url": address, "database": "ward"] }

    static func start() async throws -> VictoriaSystem {
        try await SystemHost.start("influx", needs: ["/usr/bin/victoria-metrics"]) { host in
            let port = try FreePort.anywhere()
            try await host.launch(
                "/usr/bin/victoria-metrics",
                [
                    "-storageDataPath=\(host.path("data"))", "-httpListenAddr=127.0.0.1:\(port)",
                    "-retentionPeriod=100y", "-search.latencyOffset=0s",
                ])
            let address = "http://127.0.0.1:\(port)"
            try await host.wait(for: "\(address)/health")
            return VictoriaSystem(host: host, address: address)
        }
    }

    private struct Series: Decodable { var timestamps: [Int64] }

    func counts() async throws -> (stored: Int, repeated: Int) {
        // What was written becomes readable a second later.
        _ = try await host.get("\(address)/internal/force_flush")
        // It remembers for some seconds that a selector found nothing: this one is always new.
        let selector = "heart_rate_bpm%7Bnew%21%3D%22\(UUID().uuidString)%22%7D"
        let body = try await host.get("\(address)/api/v1/export?match%5B%5D=\(selector)")
        let series = try String(decoding: body, as: UTF8.self).split(separator: "\n").map {
            try JSONDecoder().decode(Series.self, from: Data($0.utf8))
        }
        let times = series.flatMap(\.timestamps)
        let different = Set(times).count
        // Samples of one microsecond share their millisecond too.
        let pairs = different == 0 ? 0 : DestinationContract.pairs
        return (different + pairs, times.count - different - pairs)
    }

    func stop() async { await host.stop() }
}

/// What CloudCare's API does, with a strap that is paired by its code.
struct CloudCareSystem: DestinationSystem {
    let kind = "cloudcare"
    let host: SystemHost
    let address: String
    var settings: [String: String] {
        [
            "url": "\(address)/api/v1", "gateway": "gw-1",
            "device-key": "0123456789abcdef0123456789abcdef",
        ]
    }

    static func start() async throws -> CloudCareSystem {
        let python = SystemHost.judgesPython
        return try await SystemHost.start("cloudcare", needs: [python]) { host in
            let port = try await host.script("cloudcare_front.py", ["patient-1"], python: python)
            let system = CloudCareSystem(host: host, address: "http://127.0.0.1:\(port)")
            try await system.pair()
            return system
        }
    }

    private func pair() async throws {
        let code = try destination().pairingCode(sensorID: 1, patient: nil, now: .now())
        // The phone adds whose the strap is.
        let text = (code?.text.dropLast() ?? "{") + #","androidUserId":"patient-1"}"#
        guard let origin = Origin(address) else { throw CocoaError(.fileReadUnknown) }
        let answer = try await CurlTransport().send(
            HTTPRequest(
                .post, origin, "/api/v1/wearables/devices/pair", contentType: "application/json",
                body: Array(text.utf8)))
        guard answer.status == 201 else { throw SystemFault("not paired: HTTP \(answer.status)") }
    }

    func counts() async throws -> (stored: Int, repeated: Int) {
        let counts = try JSONDecoder().decode(
            [String: Int].self, from: try await host.get("\(address)/counts"))
        guard counts["lost"] == 0 else {
            throw SystemFault("samples were taken for others: \(counts)")
        }
        // A repetition is counted there and not stored.
        return (counts["stored"] ?? 0, 0)
    }

    func stop() async { await host.stop() }
}

/// What Firebase does under deploy/firebase/database.rules.json, read by the official Admin SDK.
struct FirebaseSystem: DestinationSystem {
    let kind = "firebase"
    let host: SystemHost
    let port: Int
    var settings: [String: String] {
        let address = "http://127.0.0.1:\(port)"
        return [
            "url": address, "emulator": address, "key": "AIza-test", "share": "yes",
            "email": "gateway@clinic.example", "password": "correct horse",
            "share-id": Self.share,
        ]
    }

    static let user = "gatewayUser1"
    static let share = "0123456789abcdef0123456789abcdef"

    static func start() async throws -> FirebaseSystem {
        let python = SystemHost.judgesPython
        return try await SystemHost.start("firebase", needs: [python]) { host in
            FirebaseSystem(
                host: host,
                port: try await host.script("firebase_front.py", [], python: python))
        }
    }

    private struct Counts: Decodable { var stored, shared: Int }

    func counts() async throws -> (stored: Int, repeated: Int) {
        let reader = SystemHost.root.appending(path: "Tests/Conformance/firebase_reader.py").path
        let text = try await host.run(
            SystemHost.judgesPython, [reader, "\(port)", Self.user, Self.share])
        let counts = try JSONDecoder().decode(Counts.self, from: Data(text.utf8))
        guard counts.stored == counts.shared else {
            throw SystemFault("not all are shared: \(counts)")
        }
        return (counts.stored, 0)
    }

    func stop() async { await host.stop() }
}

/// What a Cloud Firestore does under deploy/firebase/firestore.rules, read by Google's own client.
struct FirestoreSystem: DestinationSystem {
    let kind = "firebase"
    let host: SystemHost
    let port: Int
    var settings: [String: String] {
        let address = "http://127.0.0.1:\(port)"
        return [
            "url": "\(address)/v1/projects/p/databases/(default)", "store": "firestore",
            "emulator": address, "key": "AIza-test", "email": "gateway@clinic.example",
            "password": "correct horse",
        ]
    }

    static func start() async throws -> FirestoreSystem {
        let python = SystemHost.judgesPython
        return try await SystemHost.start("firebase", needs: [python]) { host in
            FirestoreSystem(
                host: host,
                port: try await host.script("firebase_front.py", [], python: python))
        }
    }

    private struct Counts: Decodable { var stored, gaps, days: Int }

    private func read() async throws -> Counts {
        let reader = SystemHost.root.appending(path: "Tests/Conformance/firestore_reader.py").path
        let text = try await host.run(
            SystemHost.judgesPython, [reader, "\(port)", FirebaseSystem.user])
        return try JSONDecoder().decode(Counts.self, from: Data(text.utf8))
    }

    func counts() async throws -> (stored: Int, repeated: Int) { (try await read().stored, 0) }

    func ledgerCounts() async throws -> (gaps: Int, days: Int)? {
        let counts = try await read()
        return (counts.gaps, counts.days)
    }

    func stop() async { await host.stop() }
}

/// mosquitto behind a network that cuts connections, with paho-mqtt as the subscriber.
struct CutMosquittoSystem: DestinationSystem {
    let kind = "mqtt"
    let mayRepeat = true
    let host: SystemHost
    let address: String
    let settings: [String: String]

    /// With a `seed` other than 0 its network fails.
    ///
    /// - Parameter settings: more of the destination's than the broker needs, or other ones.
    static func start(
        _ settings: [String: String] = [:], seed: UInt64 = 1
    ) async throws -> CutMosquittoSystem {
        let python = SystemHost.judgesPython
        return try await SystemHost.start("mqtt", needs: MosquittoBroker.needs + [python]) { host in
            let broker = try await MosquittoBroker.start(on: host)
            let port = try await host.script(
                "mqtt_front.py", ["\(broker.port)", "\(seed)"], python: python)
            return CutMosquittoSystem(
                host: host, address: "http://127.0.0.1:\(port)",
                settings: MosquittoBroker.settings(port: port).merging(settings) { $1 })
        }
    }

    func counts() async throws -> (stored: Int, repeated: Int) {
        let counts = try JSONDecoder().decode(
            [String: Int].self, from: try await host.get("\(address)/counts"))
        guard counts["backward"] == 0, counts["unreadable"] == 0 else {
            throw SystemFault("the subscriber complains: \(counts)")
        }
        return (counts["stored"] ?? 0, counts["repeated"] ?? 0)
    }

    /// What the broker keeps for who subscribes later, by topic.
    func retained() async throws -> [String: String] {
        try JSONDecoder().decode(
            [String: String].self, from: try await host.get("\(address)/topics"))
    }

    func stop() async { await host.stop() }
}
