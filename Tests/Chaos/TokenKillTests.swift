import Foundation
import Testbed
import Testing

@testable import Uplink

/// The daemon dead at every step of a token's renewal, and tokens that cannot be read; debug builds only,
/// as ``TokenFaultPoint`` is.
@Suite(.serialized) struct TokenKillTests {
    private static let speed: Int64 = 30
    private static let frameSeconds = 2.0
    /// How long anything may take on a loaded machine, in the host's seconds.
    private static let patience = Duration.seconds(60)

    /// Enrolled, paired, and sending.
    private static func run(
        sealing: String = "never", _ body: (ChaosWorld) async throws -> Void
    ) async throws {
        let world = try await ChaosWorld.start(
            seed: 1, speed: speed, connections: 0,
            settings: [
                "EDGE_GATEWAY_UPLINK_INTERVAL_SECONDS": "5",
                "EDGE_GATEWAY_UPLINK_SEAL_TOKENS": sealing,
            ])
        let sending = Task { await world.straps.run(world.bluez, every: frameSeconds) }
        do {
            try await world.begin()
            try await delivers(world)
            try await body(world)
            #expect(await world.exchange.duplicates.isEmpty)
            #expect(await world.exchange.orphans == 0)
            #expect(await world.exchange.overlappingRequests == 0)
        } catch {
            Issue.record("\(error); the log ends:\n\(world.gateway.logTail())")
        }
        world.straps.stop()
        await sending.value
        await world.remove()
    }

    private static func eventually(
        _ what: String, _ holds: () async throws -> Bool
    ) async throws {
        let begin = ContinuousClock.now
        while ContinuousClock.now - begin < patience {
            if try await holds() { return }
            try await Task.sleep(for: .milliseconds(50))
        }
        throw GatewayProcess.Fault(description: "\(what): not within \(patience)")
    }

    /// More of both patients arrives at the exchange.
    private static func delivers(_ world: ChaosWorld) async throws {
        for patient in ChaosWorld.patients {
            let before = await world.exchange.storedCount(patient: patient)
            try await eventually("deliveries of \(patient)") {
                await world.exchange.storedCount(patient: patient) > before
            }
        }
    }

    private static func wantsEnrollment(_ world: ChaosWorld) async throws -> Bool {
        try await world.gateway.status().health.contains { $0.name == "enroll-again" }
    }

    /// Lets the daemon renew its tokens and die at `point`.
    private static func kill(_ world: ChaosWorld, at point: TokenFaultPoint) async throws {
        await world.gateway.kill()
        try await world.restart(with: ["EDGE_GATEWAY_KILL_AT": point.rawValue])
        try await delivers(world)
        await world.exchange.expireAccessTokens()
        try await eventually("dead at \(point)") { await world.gateway.diedAtStep }
    }

    private static let canSeal: Bool = {
        let path = FileManager.default.temporaryDirectory
            .appending(path: "seal-\(UInt32.random(in: 0 ... .max))").path
        defer { try? FileManager.default.removeItem(atPath: path) }
        guard let origin = Origin(scheme: .https, authority: "a.example") else { return false }
        let record = TokenRecord(
            origin: origin, clientID: "c", credential: .none,
            pair: TokenPair(
                access: Secret("a"), refresh: nil, grantedMicroseconds: 0, lifetimeSeconds: 1))
        return (try? TokenFile(path: path, policy: .always).save(record)) != nil
    }()

    @Test(
        "a daemon killed at any step of a renewal delivers again at the next start",
        arguments: canSeal ? ["never", "always"] : ["never"])
    func killed(sealing: String) async throws {
        try await Self.run(sealing: sealing) { world in
            for point in TokenFaultPoint.allCases {
                try await Self.kill(world, at: point)
                try await world.restart()
                try await Self.delivers(world)
                #expect(try await !Self.wantsEnrollment(world), "\(point)")
            }
        }
    }

    @Test func aLostAnswerToARefreshIsMetByRedeemingTheInvitationAgain() async throws {
        try await Self.run { world in
            await world.exchange.inject(.lostAnswer, on: [.token], for: .requests(2))
            await world.exchange.expireAccessTokens()
            try await Self.delivers(world)
            #expect(try await !Self.wantsEnrollment(world))
        }
    }

    @Test func onlyWhenTheInvitationIsOverAPersonIsAskedAndRecordingGoesOn() async throws {
        try await Self.run { world in
            for patient in ChaosWorld.patients {
                await world.exchange.cancelInvitations(patient: patient)
            }
            try await Self.kill(world, at: .granted)
            try await world.restart()
            try await Self.eventually("enroll-again") { try await Self.wantsEnrollment(world) }
            let held = try await world.gateway.status()
            try await Self.eventually("recording goes on") {
                try await world.gateway.status().balance.stored > held.balance.stored + 4
            }
            #expect(held.balance.dead == 0 && held.balance.dropped.isEmpty)
            try await world.enrollAgain()
            try await Self.delivers(world)
            try await Self.eventually("mended") { try await !Self.wantsEnrollment(world) }
        }
    }

    @Test func tokensThatCannotBeReadServeAgainWithoutAStart() async throws {
        try await Self.run { world in
            await world.gateway.kill()
            let state = URL(filePath: world.storePath).deletingLastPathComponent()
            let names = try FileManager.default.contentsOfDirectory(atPath: state.path)
                .filter { $0.hasPrefix("tokens-") }
            #expect(names.count == ChaosWorld.patients.count)
            // Root reads whatever its mode is: behind a link it is refused to anybody.
            for name in names {
                let file = state.appending(path: name)
                let aside = state.appending(path: "aside-" + name)
                try FileManager.default.moveItem(at: file, to: aside)
                try FileManager.default.createSymbolicLink(at: file, withDestinationURL: aside)
            }
            try await world.restart()
            let item = try await world.gateway.status().health.first { $0.name == "enroll-again" }
            #expect(item?.message.contains("tokens cannot be read") == true)
            for name in names {
                let file = state.appending(path: name)
                try FileManager.default.removeItem(at: file)
                try FileManager.default.moveItem(
                    at: state.appending(path: "aside-" + name), to: file)
            }
            try await Self.delivers(world)
            try await Self.eventually("well") { try await !Self.wantsEnrollment(world) }
            let log = try String(contentsOf: world.gateway.logFile, encoding: .utf8)
            #expect(log.components(separatedBy: "load tokens").count == names.count + 1)
        }
    }
}
