import Basics
import Foundation
import GRDB
import Testing

@testable import OfflineQueue

@Suite("A writer killed with kill -9")
struct KillTests {
    /// Kills in the quick set; `OFFLINE_QUEUE_KILLS=200` makes it more.
    static let kills =
        ProcessInfo.processInfo.environment["OFFLINE_QUEUE_KILLS"].flatMap { Int($0) } ?? 50
    /// Kills one store sees before the next one begins.
    static let killsPerStore = 10

    /// At any moment, as by a person.
    @Test func whatWasAcknowledgedIsThere() async throws {
        let store = try TestStore()
        let clock = ManualClock()
        try await KilledWriter.prepare(path: store.path, clock)
        var books = Balance()
        for round in 0..<6 {
            await #expect(processExitsWith: .signal(SIGKILL)) {
                [path = store.path as String, round = round as Int, first = books.stored as Int] in
                try await KilledWriter.run(path, round: round, first: first) { step in
                    // From the second step on, so that on any machine something was done.
                    guard step == 1 else { return }
                    Thread.detachNewThread {
                        usleep(UInt32(5 + round * 20) * 1_000)
                        kill(getpid(), SIGKILL)
                    }
                }
            }
            books = try await Self.look(store, clock, round: round, books, "round \(round)")
        }
        #expect(books.stored > 0 && books.delivered > 0)
    }

    /// At every step of the code that has a ``FaultPoint``, in turn, each after some others.
    @Test func atNoStepIsAnythingLostOrDoubled() async throws {
        var random = SeededRandom(seed: 1)
        let points = Self.steps.keys.sorted()
        var store = try TestStore()
        var clock = ManualClock()
        var books = Balance()
        for index in 0..<Self.kills {
            let round = index % Self.killsPerStore
            if round == 0 {
                store = try TestStore()
                clock = ManualClock()
                books = Balance()
                try await KilledWriter.prepare(path: store.path, clock)
            }
            let point = points[index % points.count]
            let count = Int.random(in: 1...(Self.steps[point] ?? 1), using: &random)
            let target = "\(point):\(count)"
            await #expect(processExitsWith: .signal(SIGKILL), "\(target)") {
                [
                    path = store.path as String, round = round as Int,
                    first = books.stored as Int, target = target as String
                ] in
                setenv("EDGE_GATEWAY_KILL_AT", target, 1)
                try await KilledWriter.run(path, round: round, first: first, steps: 20)
            }
            books = try await Self.look(
                store, clock, round: round, books, "kill \(index) at \(target)")
        }
    }

    /// Every fault point a writer passes, with how often at the least in 20 steps.
    private static let steps: [String: Int] = {
        var steps: [String: Int] = [:]
        for point in FaultPoint.allCases {
            steps[point.rawValue] =
                switch point {
                case .append: 400
                case .commitBegun, .commitRows, .commitBooks, .commitGaps, .committed: 20
                case .settleSegment, .settleUpload, .settled: 20
                // A page home for every few commits.
                case .checkpoint: 50
                case .pruneRows, .pruneCursor: 5
                case .pruned, .ledgerKept: 20
                case .assignmentChanged, .assignmentGaps: 6
                // In tests of their own: here no patient is erased, the tables are there, the disk has room.
                case .eraseRegistry, .erased, .migrate, .evidenceRenamed, .sliceSaved:
                    nil
                case .migrated, .ledgersClosed, .runBegun, .runEnded, .closed: 5
                }
        }
        return steps
    }()

    /// Killed while the tables are made, and before the first run.
    @Test(arguments: ["migrate:1", "migrate:6", "migrated:1", "ledgers-closed:1"])
    func aFirstStartThatIsKilledIsDoneAtTheNextStart(target: String) async throws {
        let store = try TestStore()
        await #expect(processExitsWith: .signal(SIGKILL)) {
            [path = store.path as String, target = target as String] in
            setenv("EDGE_GATEWAY_KILL_AT", target, 1)
            _ = try SampleQueue(path: path, clock: ManualClock(), bootID: "boot-1")
        }
        let queue = try await store.open(ManualClock())
        let health = await queue.health()
        #expect(health.salvage == nil && health.missing == nil)
        #expect(try await queue.audit().isClean)
        // A store that is there has its first run.
        #expect(
            try store.number("SELECT count(*) FROM run") == (target == "migrated:1" ? 2 : 1))
    }

    private static func look(
        _ store: TestStore, _ clock: ManualClock, round: Int, _ books: Balance, _ comment: String
    ) async throws -> Balance {
        clock.advance(seconds: KilledWriter.roundSeconds)
        let queue = try await store.open(clock, bootID: "parent-\(round)")
        let now = try await KilledWriter.check(queue, store.path, since: books, comment)
        try await queue.close()
        return now
    }
}
