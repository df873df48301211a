import Foundation
import Testbed
import Testing

/// Conservation, end to end: whatever goes wrong, each frame is once where it belongs.
@Suite(.serialized) struct ChaosTests {
    private static func setting<Value: LosslessStringConvertible>(
        _ name: String, _ fallback: Value
    ) -> Value {
        ProcessInfo.processInfo.environment[name].flatMap { Value($0) } ?? fallback
    }

    /// `CHAOS_SEEDS=3,7` plays those; `CHAOS_HOURS=24` makes the day whole.
    static let seeds: [UInt64] = setting("CHAOS_SEEDS", "1").split(separator: ",")
        .compactMap { UInt64($0) }
    static let hours = setting("CHAOS_HOURS", 1.0)
    /// How many times as fast as the host's the gateway's time runs.
    static let speed = setting("CHAOS_SPEED", Int64(40))
    /// Seconds between two frames of a strap.
    private static let frameSeconds = 2.5

    @Test(arguments: seeds) func theBooksBalanceAfterADayInWhichEverythingGoesWrong(
        seed: UInt64
    ) async throws {
        let (hours, speed) = (Self.hours, Self.speed)
        print("chaos: seed \(seed), \(hours) h at \(speed) times the speed of time")
        let began = ContinuousClock.now
        let world = try await ChaosWorld.start(
            seed: seed, speed: speed, connections: Int(hours * 500),
            // Nothing is pruned: the gaps are looked at from sample to sample.
            settings: ["EDGE_GATEWAY_STORAGE_KEEP_DELIVERED_HOURS": "8760"])
        do {
            try await play(world, seed: seed, hours: hours)
        } catch {
            Issue.record("seed \(seed): \(error); the log ends:\n\(world.gateway.logTail())")
        }
        await world.remove()
        print("chaos: seed \(seed) took \(ContinuousClock.now - began)")
    }

    private func play(_ world: ChaosWorld, seed: UInt64, hours: Double) async throws {
        var store = ChaosStore(path: world.storePath)
        let sending = Task { await world.straps.run(world.bluez, every: Self.frameSeconds) }
        let watching = Task { await world.watchDeaths() }
        defer { watching.cancel() }
        do {
            try await world.begin()
            try await world.play(
                ChaosScript(seed: seed, hours: hours), hours: hours, &store)
        } catch {
            world.straps.stop()
            await sending.value
            throw error
        }
        let status = try await world.mendAndDrain(&store, hostSecondsMax: 60)
        await sending.value
        let judge = try await ChaosJudge(world, store, status)
        for line in judge.summary { print("  " + line) }
        #expect(world.log.unexpectedDeaths == 0)
        guard !judge.faults.isEmpty || world.log.unexpectedDeaths > 0 else { return }
        let keep = FileManager.default.temporaryDirectory.appending(path: "chaos-seed-\(seed)")
        try? FileManager.default.removeItem(at: keep)
        try FileManager.default.copyItem(
            at: URL(filePath: world.storePath).deletingLastPathComponent(), to: keep)
        try FileManager.default.copyItem(
            at: world.gateway.logFile, to: keep.appending(path: "daemon.log"))
        try world.log.notes.joined(separator: "\n")
            .write(to: keep.appending(path: "script.txt"), atomically: true, encoding: .utf8)
        Issue.record(
            """
            seed \(seed): \(judge.faults.count) faults; store, log and script are in \(keep.path)
            \(judge.faults.prefix(20).joined(separator: "\n"))
            """)
    }
}
