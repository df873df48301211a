import BlueZ
import Foundation
import GATTHeartRate
import Logging
import OfflineQueue
import Testing
import Uplink

@testable import EdgeGateway

/// A store that is on other hardware than before, as after a memory card was copied.
@Suite struct BoardWatchTests {
    private struct Place {
        let directory = URL(filePath: "/tmp/board-watch-\(UUID().uuidString)")
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }

        init() throws {
            try FileManager.default.createDirectory(
                at: directory, withIntermediateDirectories: true)
        }

        func queue() throws -> SampleQueue {
            try SampleQueue(
                path: directory.path + "/queue.sqlite", clock: SystemClock(trust: .always),
                bootID: "boot")
        }

        func watch(_ queue: SampleQueue, _ hashes: String...) async -> BoardWatch {
            let watch = BoardWatch(queue: queue, logger: logger) { BoardTraits(hashes: hashes) }
            await watch.look()
            return watch
        }

        func end() { try? FileManager.default.removeItem(at: directory) }
    }

    @Test func aBoardIsKnownAgainByOneOfItsTraitsAndACopyIsNot() async throws {
        let place = try Place()
        let queue = try place.queue()
        #expect(await !place.watch(queue).isOther, "nothing is known of a container's hardware")
        #expect(await !place.watch(queue, "serial", "card").isOther)
        #expect(await !place.watch(queue, "serial", "another card").isOther)
        #expect(await place.watch(queue, "card").isOther, "that card is elsewhere since then")
        #expect(await !place.watch(queue).isOther)
        let copy = await place.watch(queue, "copy")
        #expect(await copy.isOther)
        #expect(await place.watch(queue, "copy").isOther, "a restart confirms nothing")
        try await copy.confirm()
        #expect(await !copy.isOther)
        #expect(await !place.watch(queue, "copy").isOther)
        #expect(await place.watch(queue, "serial").isOther)
        try await queue.close()
        place.end()
    }

    @Test func theTraitsAreWhatTheHardwareCarriesAndOnlyHashesOfIt() throws {
        let place = try Place()
        func write(_ path: String, _ text: String) throws {
            let file = place.directory.appending(path: path)
            try FileManager.default.createDirectory(
                at: file.deletingLastPathComponent(), withIntermediateDirectories: true)
            try text.write(to: file, atomically: true, encoding: .utf8)
        }
        try write("sys/firmware/devicetree/base/serial-number", "10000000abcdef01\0")
        for (name, type, device) in [
            ("eth0", "0", true), ("veth1", "3", true), ("br0", "0", false),
        ] {
            try write("sys/class/net/\(name)/addr_assign_type", type + "\n")
            try write("sys/class/net/\(name)/address", "dc:a6:32:00:00:01\n")
            if device { try write("sys/class/net/\(name)/device/vendor", "") }
        }
        try write("sys/class/net/lo/address", "00:00:00:00:00:00\n")
        try write("sys/class/dmi/id/product_uuid", "03000200-0400-0500-0006-000700080009\n")
        try write("sys/class/dmi/id/board_serial", "To be filled by O.E.M.\n")
        let traits = BoardTraits(tree: SystemTree(root: place.directory.path)).hashes
        #expect(traits.count == 2)
        #expect(traits.allSatisfy { $0.count == 32 && !$0.contains("abcdef01") })
        #expect(BoardTraits(tree: SystemTree(root: "/nonexistent")).hashes.isEmpty)
        place.end()
    }

    /// Two gateways of one name ended each other's connection at a broker, and mixed up what they published.
    @Test func aCopiedCardPublishesNothingUnderTheNameOfTheFirstUntilAPersonConfirmsIt()
        async throws
    {
        let place = try Place()
        let queue = try place.queue()
        _ = await place.watch(queue, "first")
        let clock = SystemClock(trust: .always)
        let gateway = Gateway(
            settings: try SettingsLoader(environment: [
                "EDGE_GATEWAY_STATE": place.directory.path,
                "EDGE_GATEWAY_UPLINK_SEAL_TOKENS": "never",
            ]).load(),
            queue: queue,
            central: Central(settings: CentralSettings(service: HeartRateService.service)),
            clock: clock, logger: place.logger,
            board: { BoardTraits(hashes: ["copy"]) })
        await gateway.board.look()
        func add(_ name: String, _ system: String, _ settings: String) async throws -> Int64 {
            var terms = EnrollmentTerms(
                name: name, kind: .destination, origin: "there", fhirBase: "",
                identifierSystem: "urn:x")
            (terms.system, terms.settings) = (system, settings)
            return try await gateway.enrollmentChanges.begin(
                terms, insteadOf: nil,
                .secrets(DestinationSecrets(place: terms.origin, values: [:]))
            ).id
        }
        // No server listens there.
        let broker = try await add(
            "home", "mqtt", #"{"gateway":"ward","url":"mqtt://127.0.0.1:9"}"#)
        let file = try await add(
            "file", "file", #"{"path":"\#(place.directory.path)/points.jsonl"}"#)
        #expect(await !gateway.deliveries.isRunning(broker))
        #expect(await gateway.deliveries.isRunning(file))
        func items() async -> [String] {
            await gateway.health.items().filter { $0.name == "board-changed" }.map(\.message)
        }
        #expect(await items().count == 2)
        #expect(await items().contains { $0.hasPrefix("home: nothing is published") })
        #expect(
            await !gateway.health.items().contains {
                $0.name == "service-stopped" && $0.message.hasPrefix("home")
            })

        try await gateway.board.confirm()
        await gateway.enrollmentChanges.startMissingDeliveries()
        #expect(await gateway.deliveries.isRunning(broker))
        #expect(await items().isEmpty)
        await gateway.deliveries.stopAll()
        try await queue.close()
        place.end()
    }
}
