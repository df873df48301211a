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
        print("chaos: seed \(seed), \(hours) h, at most \(speed) times the speed of time")
        let began = ContinuousClock.now
        try await ChaosRun.run(
            seed: seed, speed: speed, connections: Int(hours * 500),
            frameSeconds: Self.frameSeconds,
            // Nothing is pruned: the gaps are checked from sample to sample.
            settings: ["EDGE_GATEWAY_STORAGE_KEEP_DELIVERED_HOURS": "8760"]
        ) { run in
            var store = ChaosStore(path: run.storePath)
            try await run.begin()
            try await run.play(ChaosScript(seed: seed, hours: hours), hours: hours, &store)
            let status = try await run.mendAndDrain(&store)
            let judge = try await ChaosJudge(run, store, status)
            for line in judge.summary { print("  " + line) }
            let took = ContinuousClock.now - began
            print("chaos: seed \(seed) took \(took) for \(run.clock.seconds) s")
            #expect(run.log.unexpectedDeaths == 0)
            guard !judge.faults.isEmpty || run.log.unexpectedDeaths > 0 else { return }
            let kept = try run.keep(as: "chaos-seed-\(seed)")
            Issue.record(
                """
                seed \(seed): \(judge.faults.count) faults; store, log and script are in \(kept)
                \(judge.faults.prefix(20).joined(separator: "\n"))
                """)
        }
    }
}

extension ChaosRun {
    /// Keeps what a failure is found out with; where.
    fileprivate func keep(as name: String) throws -> String {
        let folder = FileManager.default.temporaryDirectory.appending(path: name)
        try? FileManager.default.removeItem(at: folder)
        try FileManager.default.copyItem(
            at: URL(filePath: storePath).deletingLastPathComponent(), to: folder)
        try FileManager.default.copyItem(
            at: gateway.logFile, to: folder.appending(path: "daemon.log"))
        try log.notes.joined(separator: "\n")
            .write(to: folder.appending(path: "script.txt"), atomically: true, encoding: .utf8)
        return folder.path
    }
}
