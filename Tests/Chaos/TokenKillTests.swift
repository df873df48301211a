import Basics
import Foundation
import Testbed
import Testing

@testable import Uplink

/// The daemon dead at every step of a token's renewal, and tokens that cannot be read; debug builds only,
/// as ``TokenFaultPoint`` is.
@Suite(.serialized) struct TokenKillTests {
    private static let speed: Int64 = 30
    private static let frameSeconds = 2.0
    /// How long anything may take, in seconds of the world.
    private static let patience = 1_800.0

    /// Enrolled, paired, and sending.
    private static func run(
        sealing: String = "never", _ body: (ChaosRun) async throws -> Void
    ) async throws {
        try await ChaosRun.run(
            seed: 1, speed: speed, connections: 0, frameSeconds: frameSeconds,
            settings: [
                "EDGE_GATEWAY_UPLINK_INTERVAL_SECONDS": "5",
                "EDGE_GATEWAY_UPLINK_SEAL_TOKENS": sealing,
            ]
        ) { run in
            try await run.begin()
            try await delivers(run)
            try await body(run)
            #expect(await run.exchange.duplicates.isEmpty)
            #expect(await run.exchange.orphans == 0)
            #expect(await run.exchange.overlappingRequests == 0)
        }
    }

    /// The daemon may be dead, or about to be.
    private static func eventually(
        _ what: String, in run: ChaosRun, _ holds: () async throws -> Bool
    ) async throws {
        let end = run.clock.seconds + patience
        while run.clock.seconds < end {
            if try await holds() { return }
            try await Task.sleep(for: .milliseconds(50))
        }
        throw GatewayProcess.Fault(description: "\(what): not within \(patience) s")
    }

    /// More of both patients arrives at the exchange.
    private static func delivers(_ run: ChaosRun) async throws {
        for patient in ChaosRun.patients {
            let before = await run.exchange.storedCount(patient: patient)
            try await eventually("deliveries of \(patient)", in: run) {
                await run.exchange.storedCount(patient: patient) > before
            }
        }
    }

    private static func wantsEnrollment(_ run: ChaosRun) async throws -> Bool {
        try await run.gateway.polledStatus().health.contains { $0.name == "enroll-again" }
    }

    /// Lets the daemon renew its tokens and die at `point`.
    private static func kill(_ run: ChaosRun, at point: TokenFaultPoint) async throws {
        await run.gateway.kill()
        try await run.restart(with: ["EDGE_GATEWAY_KILL_AT": point.rawValue])
        try await delivers(run)
        await run.exchange.expireAccessTokens()
        try await eventually("dead at \(point)", in: run) { await run.gateway.diedAtStep }
    }

    private static let canSeal: Bool = {
        let path = FileManager.default.temporaryDirectory
            .appending(path: "seal-\(UInt32.random(in: 0 ... .max))").path
        defer { try? FileManager.default.removeItem(atPath: path) }
        guard let origin = Origin(scheme: .https, authority: "a.example") else { return false }
        let record = TokenRecord(
            origin: origin, clientID: "c", credential: .none,
            pair: TokenPair(
                access: Secret("a"), refresh: nil, granted: .epoch,
                lifetime: .seconds(1)))
        return (try? TokenFile(path: path, policy: .always).save(record)) != nil
    }()

    @Test(
        "a daemon killed at any step of a renewal delivers again at the next start",
        arguments: canSeal ? ["never", "always"] : ["never"])
    func killed(sealing: String) async throws {
        try await Self.run(sealing: sealing) { run in
            for point in TokenFaultPoint.allCases {
                try await Self.kill(run, at: point)
                try await run.restart()
                try await Self.delivers(run)
                #expect(try await !Self.wantsEnrollment(run), "\(point)")
            }
        }
    }

    @Test func aLostAnswerToARefreshIsMetByRedeemingTheInvitationAgain() async throws {
        try await Self.run { run in
            await run.exchange.inject(.lostAnswer, on: [.token], for: .requests(2))
            await run.exchange.expireAccessTokens()
            try await Self.delivers(run)
            #expect(try await !Self.wantsEnrollment(run))
        }
    }

    @Test func onlyWhenTheInvitationIsOverAPersonIsAskedAndRecordingGoesOn() async throws {
        try await Self.run { run in
            for patient in ChaosRun.patients {
                await run.exchange.cancelInvitations(patient: patient)
            }
            try await Self.kill(run, at: .granted)
            try await run.restart()
            try await Self.eventually("enroll-again", in: run) {
                try await Self.wantsEnrollment(run)
            }
            let held = try await run.gateway.status()
            try await Self.eventually("recording goes on", in: run) {
                try await run.gateway.polledStatus().balance.stored > held.balance.stored + 4
            }
            // Frames without a pulse are dropped whatever happens, and on a slow machine there are some by now.
            let dropped = held.balance.dropped.filter { $0.key != "zeroRate" }
            #expect(held.balance.dead == 0 && dropped.isEmpty, "\(held.balance)")
            try await run.enrollAgain()
            try await Self.delivers(run)
            try await Self.eventually("mended", in: run) { try await !Self.wantsEnrollment(run) }
        }
    }

    @Test func tokensThatCannotBeReadServeAgainWithoutAStart() async throws {
        try await Self.run { run in
            await run.gateway.kill()
            let state = URL(filePath: run.storePath).deletingLastPathComponent()
            let names = try FileManager.default.contentsOfDirectory(atPath: state.path)
                .filter { $0.hasPrefix("tokens-") }
            #expect(names.count == ChaosRun.patients.count)
            // Root reads whatever its mode is: behind a link it is refused to every user.
            for name in names {
                let file = state.appending(path: name)
                let aside = state.appending(path: "aside-" + name)
                try FileManager.default.moveItem(at: file, to: aside)
                try FileManager.default.createSymbolicLink(at: file, withDestinationURL: aside)
            }
            try await run.restart()
            let item = try await run.gateway.status().health.first { $0.name == "enroll-again" }
            #expect(item?.message.contains("the tokens or secrets cannot be read") == true)
            for name in names {
                let file = state.appending(path: name)
                try FileManager.default.removeItem(at: file)
                try FileManager.default.moveItem(
                    at: state.appending(path: "aside-" + name), to: file)
            }
            try await Self.delivers(run)
            try await Self.eventually("well", in: run) { try await !Self.wantsEnrollment(run) }
            let log = try String(contentsOf: run.gateway.logFile, encoding: .utf8)
            #expect(log.components(separatedBy: "] load tokens").count == names.count + 1)
        }
    }
}
