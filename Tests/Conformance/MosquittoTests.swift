import Basics
import Foundation
import Logging
import OfflineQueue
import Testbed
import Testing
import Uplink

/// What a broker keeps and refuses, as mosquitto does it.
@Suite(.serialized) struct MosquittoTests {
    private static let now = ContractClock()

    private static var parts: DestinationParts {
        DestinationParts(
            transport: CurlTransport(), clock: now,
            logger: Logger(label: "mosquitto") { _ in SwiftLogNoOpLogHandler() })
    }

    private static func point(_ bpm: Int, sensor: Int64 = 3) -> OutgoingPoint {
        let time = now.read().wall
        let uuid = SampleIdentity(runNonce: 7, sample: time.microseconds).description
        return OutgoingPoint(
            DataPoint(uuid: uuid, .heartRate(bpm: bpm, at: time)), sensorID: sensor)
    }

    private static func with(
        _ settings: [String: String] = [:], _ body: (CutMosquittoSystem) async throws -> Void
    ) async throws {
        let system = try await CutMosquittoSystem.start(settings, seed: 0)
        let outcome: Result<Void, any Error>
        do {
            outcome = .success(try await body(system))
        } catch {
            outcome = .failure(error)
        }
        await system.stop()
        try outcome.get()
    }

    @Test(arguments: ["5", "3.1.1"])
    func whoSubscribesLaterSeesTheStrapsAndWhetherTheGatewayIsThere(version: String) async throws {
        try await Self.with(["discovery": "on", "version": version]) { system in
            let destination = try system.destination().make(Self.parts)
            Self.now.advance(by: .seconds(1))
            let stored = DeliveryAnswer.entries([EntryAnswer(.stored)])
            #expect(await destination.deliver([Self.point(71)], alone: false) == stored)
            Self.now.advance(by: .seconds(1))
            #expect(await destination.deliver([Self.point(72)], alone: false) == stored)
            let kept = try await system.retained()
            #expect(kept["edge-gateway/ward/status"] == "online")
            #expect(kept["edge-gateway/ward/sensor/3/latest"]?.contains(#""bpm":72"#) == true)
            let described = kept["homeassistant/sensor/edge-gateway_ward_3/config"]
            #expect(described?.contains("edge-gateway/ward/sensor/3/latest") == true)
            #expect(kept.count == 3, "a sample is not retained: \(kept.keys)")

            await destination.finish()
            for _ in 0..<300
            where try await system.retained()["edge-gateway/ward/status"] != "offline" {
                try await Task.sleep(for: .milliseconds(100))
            }
            #expect(try await system.retained()["edge-gateway/ward/status"] == "offline")
        }
    }

    @Test(
        arguments: [
            (["password": "wrong"], "CONNACK 135 (not authorized)", "user and password"),
            (
                ["password": "wrong", "version": "3.1.1"], "CONNACK 135 (not authorized)",
                "user and password"
            ),
            (["gateway": "attic"], "PUBACK 135 (not authorized)", "PREFIX/GATEWAY/"),
            (["format": "thingsboard"], "PUBACK 135 (not authorized)", "PREFIX/GATEWAY/"),
        ])
    func aBrokerThatRefusesSaysWhyBeforeAnythingIsStored(
        settings: [String: String], words: String, advice: String
    ) async throws {
        try await Self.with(settings) { system in
            let problem = await #expect(throws: DestinationProblem.self) {
                _ = try await system.destination().probe(Self.parts)
            }
            let found = try #require(problem)
            #expect(found.message == "the broker answers \(words)" && found.advice.contains(advice))
            #expect(!"\(found)".contains("correct horse") && !"\(found)".contains("wrong"))
        }
    }

    /// libmosquitto's own loop selects, which knows no socket of a higher number than 1,023.
    @Test func aBrokerIsReachedWhileAThousandFilesAreOpen() async throws {
        let open = try (0..<1_024).map { _ in
            try #require(FileHandle(forReadingAtPath: "/dev/null"))
        }
        try await Self.with { system in
            let destination = try system.destination().make(Self.parts)
            let answer = await destination.deliver([Self.point(71)], alone: false)
            #expect(answer == .entries([EntryAnswer(.stored)]))
            await destination.finish()
        }
        withExtendedLifetime(open) {}
    }

    @Test func whatTheRulesRefuseLaterIsHeld() async throws {
        try await Self.with(["gateway": "attic"]) { system in
            let destination = try system.destination().make(Self.parts)
            let answer = await destination.deliver([Self.point(71)], alone: false)
            #expect(answer == .held(.forbidden, retryAt: nil))
            #expect(await destination.isMended(.forbidden) == false)
            await destination.finish()
            let counts = try await system.counts()
            #expect(counts == (0, 0))
        }
    }
}
