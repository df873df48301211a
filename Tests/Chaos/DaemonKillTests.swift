import Basics
import Foundation
import Testbed
import Testing

@testable import OfflineQueue

/// The daemon itself, dead at every step of its store; debug builds only, as ``FaultPoint`` is.
@Suite(.serialized) struct DaemonKillTests {
    /// `DAEMON_KILLS=200` makes it more; `CHAOS_SEEDS` chooses the seed.
    private static let kills =
        ProcessInfo.processInfo.environment["DAEMON_KILLS"].flatMap { Int($0) } ?? 12
    private static let speed: Int64 = 30
    private static let frameSeconds = 2.0
    /// A step that has not come by then comes later, or never: then it is any moment. Seconds of the
    /// world.
    private static let patienceSeconds = 600.0

    /// No acknowledged sample is lost and none is twice at the exchange, whichever step it was.
    @Test func aDaemonKilledAtAnyStepLosesNothingAcknowledgedAndDeliversNothingTwice() async throws
    {
        let seed = ChaosTests.seeds.first ?? 1
        print("daemon kills: seed \(seed), \(Self.kills) kills")
        try await ChaosRun.run(
            seed: seed, speed: Self.speed, connections: 0, frameSeconds: Self.frameSeconds,
            settings: [
                "EDGE_GATEWAY_UPLINK_INTERVAL_SECONDS": "5",
                "EDGE_GATEWAY_STORAGE_KEEP_DELIVERED_HOURS": "0",
            ]
        ) { run in
            var killer = DaemonKiller(run, seed: seed)
            try await killer.killInMigrations()
            try await run.begin()
            for _ in 0..<Self.kills { try await killer.killOnce(within: Self.patienceSeconds) }
            try await run.restart()
            try await run.handOver(to: 0)
            let status = try await run.mendAndDrain(&killer.store)
            let judge = try await ChaosJudge(run, killer.store, status, isPruned: true)
            for line in killer.summary + judge.summary { print("  " + line) }
            #expect(killer.faults.isEmpty, "seed \(seed)")
            #expect(
                judge.faults.isEmpty, "seed \(seed), \(run.log.notes.joined(separator: "\n"))")
        }
    }
}

/// Brings the daemon to one step after another, and looks at the store it leaves.
private struct DaemonKiller {
    let run: ChaosRun
    var store: ChaosStore
    private(set) var faults: [String] = []
    private var random: SeededRandom
    private var deck: [FaultPoint] = []
    private var reached: [FaultPoint: Int] = [:]
    private var missed = 0
    private var patient = 0

    init(_ run: ChaosRun, seed: UInt64) {
        self.run = run
        store = ChaosStore(path: run.storePath)
        random = SeededRandom(seed: seed)
    }

    var summary: [String] {
        [
            "killed at \(reached.values.reduce(0, +)) steps of \(reached.count) kinds, "
                + "and \(missed) times elsewhere"
        ]
    }

    /// While the tables of a new store are made.
    mutating func killInMigrations() async throws {
        for target in ["migrate:1", "migrate:6", "migrated:1"] {
            try await run.restart(with: ["EDGE_GATEWAY_KILL_AT": target])
            if !(await run.gateway.diedAtStep) { faults.append("\(target) was not reached") }
            await run.gateway.kill()
        }
    }

    /// How often a step may be passed before the daemon dies there; nil for those of a new store, of
    /// erasing and of a broken one, which have tests of their own.
    private static func passes(_ point: FaultPoint) -> Int? {
        switch point {
        case .migrate, .migrated, .eraseRegistry, .erased, .evidenceRenamed, .sliceSaved:
            nil
        case .append: 100
        case .commitBegun, .commitRows, .commitBooks, .commitGaps, .committed: 6
        case .settleSegment, .settleUpload, .settled: 4
        case .checkpoint: 20
        case .pruneRows, .pruneCursor, .pruned, .assignmentChanged, .assignmentGaps, .ledgerKept,
            .ledgersClosed, .runBegun, .runEnded, .closed:
            1
        }
    }

    mutating func killOnce(within seconds: Double) async throws {
        if deck.isEmpty {
            deck = FaultPoint.allCases.filter { Self.passes($0) != nil }.shuffled(using: &random)
        }
        let point = deck.removeLast()
        let count = Int.random(in: 1...(Self.passes(point) ?? 1), using: &random)
        let target = "\(point.rawValue):\(count)"
        run.log.note("kill at \(target)")
        await run.gateway.kill()
        // A start prunes what was delivered.
        _ = try store.readLeft()
        try await run.restart(with: ["EDGE_GATEWAY_KILL_AT": target])
        let acknowledged = try await provoke(point, within: seconds)
        if await run.gateway.diedAtStep {
            reached[point, default: 0] += 1
        } else if await run.gateway.isRunning {
            missed += 1
        } else {
            faults.append("\(target): it left by itself")
        }
        await run.gateway.kill()
        if point == .ledgerKept { await setOnAir(true) }
        let left = try store.readLeft()
        if left.stored < acknowledged.stored || left.delivered < acknowledged.delivered {
            faults.append("\(target): \(acknowledged) were acknowledged, \(left) are there")
        }
        try await run.restart()
    }

    /// Does what leads to the step, until the daemon is dead; what it said it had until then.
    private mutating func provoke(
        _ point: FaultPoint, within seconds: Double
    ) async throws -> (stored: Int, delivered: Int) {
        var acknowledged = (stored: 0, delivered: 0)
        let end = run.clock.seconds + seconds
        switch point {
        case .ledgerKept: await setOnAir(false)
        case .assignmentChanged, .assignmentGaps:
            patient = 1 - patient
            try await run.handOver(to: patient)
        default: break
        }
        var asksToStop = [.checkpoint, .runEnded, .closed].contains(point)
        while await run.gateway.isRunning, run.clock.seconds < end {
            // It may be dead by the time it is asked.
            if let balance = try? await run.gateway.polledStatus().balance {
                acknowledged = (balance.stored, balance.delivered)
            }
            if asksToStop, acknowledged.stored > 0 {
                await run.gateway.beginStop()
                asksToStop = false
            }
            try await Task.sleep(for: .milliseconds(50))
        }
        return acknowledged
    }

    private func setOnAir(_ isOnAir: Bool) async {
        if !isOnAir { run.log.broke() }
        for address in TestWorld.addresses { await run.bluez.setOnAir(address, isOnAir) }
    }
}
