import Foundation
import GATTHeartRate
import Testbed
import Testing

/// What a real Home Assistant, which Tests/HomeAssistant/run starts, makes of a real gateway at a real mosquitto.
@Suite(.serialized, .enabled(if: HomeAssistant.isThere, "make test-all RINGS=home-assistant"))
struct HomeAssistantTests {
    private static let publisher = "/usr/bin/mosquitto_pub"
    private static let subscriber = "/usr/bin/mosquitto_sub"
    private static let ada = TestWorld.addresses[0]
    private static let ben = TestWorld.addresses[1]
    /// A heart rate is shown for two minutes, and a message a while on the way.
    private static let untilTooOld = Duration.seconds(180)

    private static func pair(_ index: Int, _ name: String, _ world: TestWorld) async throws {
        let link = await world.exchange.invite(patient: TestWorld.patients[index])
        try await world.command("enroll", "-", "--name", "e\(index)", input: link)
        try await world.command(
            "pair", TestWorld.addresses[index], "--enrollment", "e\(index)", "--name", name)
    }

    /// The rates that a strap has sent.
    private static func rates(_ address: String, _ world: TestWorld) async -> Set<Double> {
        Set(
            await world.bluez.framesSent(address).compactMap {
                (try? HeartRateMeasurement(frame: $0.bytes)).map { Double($0.bpm) }
            })
    }

    /// What the broker keeps for who subscribes later.
    private static func kept(_ broker: MosquittoBroker) async throws -> String {
        try await Command.run(
            subscriber,
            [
                "-h", "127.0.0.1", "-p", "\(broker.port)", "-t", "#", "--retained-only", "-v", "-W",
                "2",
            ]
        ).output
    }

    @Test(.timeLimit(.minutes(20)))
    func aGatewayAndItsStrapsAreShownAsTheyAre() async throws {
        let home = try HomeAssistant()
        let needs = MosquittoBroker.needs + [Self.publisher, Self.subscriber]
        let host = try await SystemHost.start("home-assistant", needs: needs) { $0 }
        defer { Task.detached { await host.stop() } }
        let broker = try await MosquittoBroker.start(on: host)
        let integration = try await home.connect(port: broker.port)
        let before = try home.complaints()
        var setup = TestWorld.Setup()
        setup.straps = 2
        setup.settings = [
            "EDGE_GATEWAY_UPLINK_INTERVAL_SECONDS": "1", "EDGE_GATEWAY_STORAGE_COMMIT_SECONDS": "1",
        ]
        try await TestWorld.run(setup) { world in
            try await world.command(
                "destination", "add", "mqtt", "url=mqtt://127.0.0.1:\(broker.port)",
                "gateway=ward", "discovery=on", "--every-strap", "--name", "home")
            try await Self.gatewayAppears(home, world)
            try await Self.strapsAppear(home, world)
            try await Self.aStrapIsLost(home, world, integration)
            try await Self.aStrapIsForgotten(home, world)
            try await Self.theGatewayDies(home, world)

            try await world.command("destination", "remove", "home", "--yes", "--undelivered")
            try await home.eventually("the gateway is taken away") { $0.isEmpty }
            try await home.eventuallyLacks("ward")
            try await home.eventuallyLacks("ward Ada")
            #expect(try await Self.kept(broker) == "")
        }
        #expect(try home.complaints() == before)

        // It would have complained.
        let faulty = try await Command.run(
            Self.publisher,
            [
                "-h", "127.0.0.1", "-p", "\(broker.port)", "-t",
                "homeassistant/device/edge-gateway_faulty/config", "-m",
                #"{"device":{"identifiers":["x"]},"origin":{"name":"x"},"state_topic":"x","components":"#
                    + #"{"a":{"platform":"sensor","unique_id":"x","expire_after":"soon"}}}"#,
            ])
        #expect(faulty.status == 0, "\(faulty.complaint)")
        for _ in 0..<300 where try home.complaints() == before {
            try await Task.sleep(for: .milliseconds(100))
        }
        let complaint = try home.complaints().dropFirst(before.count).first
        #expect(complaint?.contains("mqtt") == true, "\(complaint ?? "none")")
    }

    private static func gatewayAppears(_ home: HomeAssistant, _ world: TestWorld) async throws {
        let first = try await home.eventually("the gateway is there, without straps") {
            $0["ward Problem"]?.state == "off" && $0["ward Samples waiting"]?.isNumber == true
        }
        #expect(
            Set(first.keys) == [
                "ward Problem", "ward Straps connected", "ward Straps paired",
                "ward Samples waiting", "ward Severity",
            ])
        #expect(first["ward Severity"]?.state == "none")
        let problem = try #require(first["ward Problem"])
        let version = try await world.command("--version")
        #expect(problem.kind == "problem")
        #expect((problem.device, problem.model) == ("ward", "EdgeGateway"))
        #expect(version.contains(try #require(problem.version)))
        #expect(problem.items?.isEmpty == true)
        for name in ["ward Straps connected", "ward Straps paired"] {
            #expect(first[name]?.state == "0" && first[name]?.statistics == "measurement")
        }
    }

    private static func strapsAppear(_ home: HomeAssistant, _ world: TestWorld) async throws {
        try await pair(0, "Ada", world)
        let one = try await home.eventually("a strap streams, and all is well") {
            $0["ward Ada Connection"]?.state == "on" && $0["ward Ada Heart rate"]?.isNumber == true
                && $0["ward Problem"]?.state == "off" && $0["ward Straps connected"]?.state == "1"
        }
        #expect(one["ward Problem"]?.items?.isEmpty == true)
        let link = try #require(one["ward Ada Connection"])
        #expect((link.kind, link.device, link.above) == ("connectivity", "ward Ada", "ward"))
        let rate = try #require(one["ward Ada Heart rate"])
        #expect((rate.device, rate.above) == ("ward Ada", "ward"))
        #expect((rate.unit, rate.statistics) == ("bpm", "measurement"))
        // The rate is the strap's, and goes on.
        var shown: Set<Double> = []
        try await home.eventually("the heart rate goes on") {
            if let value = $0["ward Ada Heart rate"].flatMap({ Double($0.state) }) {
                shown.insert(value)
            }
            return shown.count >= 3
        }
        #expect(await shown.isSubset(of: rates(ada, world)), "\(shown)")

        try await pair(1, "Ben", world)
        let two = try await home.eventually("two straps stream") {
            $0["ward Ben Connection"]?.state == "on" && $0["ward Ben Heart rate"]?.isNumber == true
                && $0["ward Straps connected"]?.state == "2"
        }
        #expect(two["ward Straps paired"]?.state == "2" && two.count == 9)
    }

    private static func aStrapIsLost(
        _ home: HomeAssistant, _ world: TestWorld, _ integration: String
    ) async throws {
        await world.bluez.setOnAir(ben, false)
        let lost = try await home.eventually("a strap's link is lost") {
            $0["ward Ben Connection"]?.state == "off" && $0["ward Straps connected"]?.state == "1"
        }
        #expect(lost["ward Ada Connection"]?.state == "on")
        #expect(lost["ward Straps paired"]?.state == "2")
        let silent = try await home.eventually("it is said what is wrong", within: untilTooOld) {
            $0["ward Problem"]?.state == "on"
        }
        let items = try #require(silent["ward Problem"]?.items)
        #expect(items.map(\.name) == ["strap-silent"])
        #expect(items.first?.detail.contains("Ben") == true, "\(items)")

        try await home.eventually("its heart rate is too old", within: untilTooOld) {
            $0["ward Ben Heart rate"]?.state == "unavailable"
                && $0["ward Ada Heart rate"]?.isNumber == true
        }
        // The broker kept the last one.
        try await home.reload(integration)
        let anew = try await home.eventually("all is there after a restart") {
            $0["ward Ada Heart rate"]?.isNumber == true && $0["ward Problem"]?.state == "on"
                && $0["ward Ben Connection"]?.state == "off"
        }
        #expect(anew["ward Ben Heart rate"]?.state == "unknown" && anew.count == 9)

        await world.bluez.setOnAir(ben, true)
        let back = try await home.eventually("the strap is back", within: untilTooOld) {
            $0["ward Ben Connection"]?.state == "on" && $0["ward Problem"]?.state == "off"
        }
        #expect(back["ward Problem"]?.items?.isEmpty == true)
    }

    private static func aStrapIsForgotten(_ home: HomeAssistant, _ world: TestWorld) async throws {
        try await world.command("forget", ben)
        let left = try await home.eventually("a strap that is forgotten is taken away") {
            $0["ward Straps paired"]?.state == "1" && !$0.keys.contains { $0.contains("Ben") }
        }
        #expect(left["ward Ada Connection"]?.state == "on" && left.count == 7)
        try await home.eventuallyLacks("ward Ben")

        // Somebody else wears it.
        try await world.command("pair", ben, "--enrollment", "e1", "--name", "Cleo")
        let other = try await home.eventually("the strap is there under another name") {
            $0["ward Cleo Connection"]?.state == "on"
                && $0["ward Cleo Heart rate"]?.isNumber == true
                && $0["ward Straps connected"]?.state == "2"
        }
        #expect(other.count == 9 && other["ward Cleo Heart rate"]?.device == "ward Cleo")
    }

    private static func theGatewayDies(_ home: HomeAssistant, _ world: TestWorld) async throws {
        await world.gateway.kill()
        try await home.eventually("the gateway is gone") {
            $0.count == 9 && $0.values.allSatisfy { $0.state == "unavailable" }
        }
        try await world.gateway.start()
        let back = try await home.eventually("the gateway is back") {
            $0["ward Ada Connection"]?.state == "on" && $0["ward Ada Heart rate"]?.isNumber == true
                && $0["ward Problem"]?.state == "off"
        }
        #expect(back.count == 9)
    }
}
