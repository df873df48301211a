import Basics
import Foundation
import OfflineQueue
import Testbed
import Testing
import Uplink

@testable import EdgeGateway

/// What a real mosquitto still retains of a gateway whose destinations change.
@Suite(.serialized) struct RetainedMessagesTests {
    private static let publisher = "/usr/bin/mosquitto_pub"
    private static let subscriber = "/usr/bin/mosquitto_sub"

    /// A gateway and a broker.
    private struct Place {
        let fixture: ServerFixture
        let broker: MosquittoBroker
        var gateway: Gateway { fixture.gateway }

        /// Publishes below this name, with Home Assistant's descriptions.
        func add(_ name: String, replace: Bool = false, keepDays: Int? = nil) async throws {
            var ask = DestinationAddRequest(
                kind: "mqtt",
                settings: [
                    "url": "mqtt://127.0.0.1:\(broker.port)", "gateway": name, "discovery": "on",
                ])
            ask.replace = replace
            ask.keepDays = keepDays
            _ = try await gateway.destinationService.add(ask)
        }

        /// Has the gateway's state shown, as the daemon does each few seconds.
        func show() async {
            await StateShow(
                status: gateway.status, gaps: gateway.gaps, deliveries: gateway.deliveries,
                clock: SystemClock(trust: .always)
            ).look()
        }

        func pair(_ address: String) async throws -> Int64 {
            try await fixture.queue.pair(
                address: address, details: SensorDetails(name: "Bed 7"), enrollment: nil
            ).0.id
        }

        /// The topics at which the broker retains a message.
        func retained() async throws -> Set<String> {
            let words = [
                "-h", "127.0.0.1", "-p", "\(broker.port)", "-t", "#", "--retained-only", "-F",
                "%t", "-W", "1",
            ]
            let lines = try await Command.run(subscriber, words).output
            return Set(lines.split(separator: "\n").map(String.init))
        }

        /// Retains a message, as another gateway may.
        func retain(_ topic: String, _ message: String) async throws {
            let words = [
                "-h", "127.0.0.1", "-p", "\(broker.port)", "-q", "1", "-r", "-t", topic, "-m",
                message,
            ]
            let outcome = try await Command.run(publisher, words)
            #expect(outcome.status == 0, "\(outcome.complaint)")
        }
    }

    private static func run(
        board: @escaping @Sendable () -> BoardTraits = { BoardTraits() },
        _ body: (Place) async throws -> Void
    ) async throws {
        let needs = MosquittoBroker.needs + [publisher, subscriber]
        let host = try await SystemHost.start("mqtt", needs: needs) { $0 }
        defer { Task.detached { await host.stop() } }
        let broker = try await MosquittoBroker.start(on: host)
        let variables = ["EDGE_GATEWAY_UPLINK_SEAL_TOKENS": "never"]
        try await ServerFixture.run(variables, board: board) { fixture in
            let place = Place(fixture: fixture, broker: broker)
            try await fixture.eventually("a broker") {
                try await Command.run(
                    publisher, ["-h", "127.0.0.1", "-p", "\(broker.port)", "-t", "x", "-m", "x"]
                ).status == 0
            }
            try await body(place)
            await fixture.gateway.deliveries.stopAll()
        }
    }

    private static func ofStrap(_ sensor: Int64, of gateway: String) -> Set<String> {
        [
            "edge-gateway/\(gateway)/sensor/\(sensor)/link",
            "homeassistant/device/edge-gateway_\(gateway)_\(sensor)/config",
        ]
    }

    /// All that the gateway says of itself and of this strap, of which no sample was delivered.
    private static func all(_ sensor: Int64, of gateway: String) -> Set<String> {
        ofStrap(sensor, of: gateway).union(
            ["status", "health", "coverage"].map { "edge-gateway/\(gateway)/\($0)" }
                + ["homeassistant/device/edge-gateway_\(gateway)_gateway/config"])
    }

    /// They stayed for good: nobody knew any more under which name the gateway had published.
    @Test func aDestinationThatGetsAnotherNameTakesAwayWhatItPublishedUnderTheOldOne()
        async throws
    {
        try await Self.run { place in
            let strap = try await place.pair("C0:00:00:00:00:01")
            try await place.add("ward")
            await place.show()
            let before = try await place.retained()
            #expect(before == Self.all(strap, of: "ward"))
            // What stays in its place stays.
            try await place.add("ward", replace: true, keepDays: 3)
            #expect(try await place.retained() == before)

            try await place.add("ward3", replace: true)
            await place.show()
            #expect(try await place.retained() == Self.all(strap, of: "ward3"))
        }
    }

    @Test func aDestinationThatIsPausedTakesAwayItsOldNameToo() async throws {
        try await Self.run { place in
            _ = try await place.pair("C0:00:00:00:00:01")
            try await place.add("ward")
            await place.show()
            _ = try await place.gateway.destinationService.pause("mqtt")
            try await place.add("ward3", replace: true)
            #expect(try await place.retained() == [])
        }
    }

    /// Home Assistant showed it for good.
    @Test func aStrapThatIsForgottenDuringAPauseIsTakenAwayAtItsEnd() async throws {
        try await Self.run { place in
            let strap = try await place.pair("C0:00:00:00:00:01")
            try await place.add("ward")
            await place.show()
            #expect(try await place.retained().isSuperset(of: Self.ofStrap(strap, of: "ward")))
            _ = try await place.gateway.destinationService.pause("mqtt")
            try await place.fixture.queue.forgetSensor(strap)
            _ = try await place.gateway.destinationService.resume("mqtt")
            await place.show()
            let after = try await place.retained()
            #expect(after.isDisjoint(with: Self.ofStrap(strap, of: "ward")))
            #expect(after.contains("edge-gateway/ward/health"))
        }
    }

    @Test func aDestinationThatIsRemovedDuringAPauseTakesAwayAlsoWhatWasForgotten() async throws {
        try await Self.run { place in
            let strap = try await place.pair("C0:00:00:00:00:01")
            try await place.add("ward")
            await place.show()
            _ = try await place.gateway.destinationService.pause("mqtt")
            try await place.fixture.queue.forgetSensor(strap)
            _ = try await place.gateway.destinationService.remove(
                DestinationRemoveRequest(name: "mqtt"))
            #expect(try await place.retained() == [])
        }
    }

    enum Doubt: CaseIterable { case board, name }
    enum Change: CaseIterable { case removal, renewal }

    /// A pause hid that the name was taken, and the other gateway's messages went.
    @Test(arguments: Doubt.allCases, Change.allCases)
    func whatMayBeAnotherGatewaysIsNotTakenAway(doubt: Doubt, change: Change) async throws {
        let board: @Sendable () -> BoardTraits = { BoardTraits(hashes: ["this"]) }
        try await Self.run(board: board) { place in
            let (queue, service) = (place.fixture.queue, place.gateway.destinationService)
            try await place.add("ward")
            let enrollment = try #require(try await queue.enrollments().first)
            await place.gateway.deliveries.stop(enrollment.id)
            switch doubt {
            case .board:
                try await queue.setBoard(KnownBoard(traits: ["another"]))
                await place.gateway.board.look()
            case .name:
                _ = try await service.pause("mqtt")
            }
            let others: Set = ["edge-gateway/ward/health", "edge-gateway/ward/status"]
            for topic in others {
                try await place.retain(topic, doubt == .name ? "online" : "offline")
            }
            switch change {
            case .removal:
                if doubt == .name {
                    // It may be this gateway's own connection, which the broker has for open.
                    await #expect(throws: ProblemReport.self) {
                        try await service.remove(DestinationRemoveRequest(name: "mqtt"))
                    }
                }
                _ = try await service.remove(
                    DestinationRemoveRequest(name: "mqtt", undelivered: true))
            case .renewal: try await place.add("ward3", replace: true)
            }
            #expect(try await place.retained().isSuperset(of: others))
        }
    }
}
