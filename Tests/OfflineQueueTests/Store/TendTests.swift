import Basics
import Synchronization
import Testing

@testable import OfflineQueue

@Suite("The store is tended")
struct TendTests {
    /// The age of the oldest waiting sample that makes a commit due, and what a timer may be late.
    private static let ageMax = Duration.milliseconds(5600)

    /// Tends the store when it asked for it, a tenth of the pause too late, as timers may be.
    private struct Caretaker {
        let queue: SampleQueue
        let clock: ManualClock
        var next = Uptime.zero

        mutating func comeBy() async {
            let now = clock.read().uptime
            guard now >= next else { return }
            let asked = await queue.tend().next
            next = asked + (asked - now) / 10
        }
    }

    /// Two minutes of a strap whose frames are kept back for so long each time.
    @Test(
        "A frame is in the store 5.6 s after it came, kept back or not",
        arguments: [0, 0.3, 1.7, 3.5, 3.85], [0.9, 4.3, 31.0])
    func frameIsStoredInTime(keptBack: Double, pause: Double) async throws {
        let store = try TestStore()
        let clock = ManualClock()
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        var caretaker = Caretaker(queue: queue, clock: clock)
        let commits = Count()
        await queue.onCommit { commits.add() }
        var kept: [Arrival] = []
        var arrivals: [Uptime] = []
        var (stored, storedAt) = (0, 0)
        var nextFrame = clock.read().uptime
        for _ in 0..<1200 {
            let reading = clock.read()
            if reading.uptime >= nextFrame {
                kept.append(
                    Arrival(sensorID: worn.assignment.sensorID, at: reading, frame: [0, 70]))
                arrivals.append(reading.uptime)
                nextFrame = nextFrame + .milliseconds(Int(pause * 1000))
            }
            if let first = kept.first, reading.uptime - first.uptime >= .seconds(keptBack) {
                try await queue.append(contentsOf: kept)
                kept = []
            }
            await caretaker.comeBy()
            // A look for each tenth of a second would cost ten times as much as all else.
            if commits.now != storedAt {
                stored = Int(try await queue.balance().stored)
                storedAt = commits.now
            }
            if stored < arrivals.count {
                #expect(reading.uptime - arrivals[stored] <= Self.ageMax)
            }
            clock.advance(seconds: 0.1)
        }
        #expect(stored > 0)
    }

    /// Two minutes of eight straps, whose frames are handed over together twice a second, right after the store
    /// was tended and up to half a second later.
    @Test(
        "Frames that are handed over right after the store was tended cost no commit of their own",
        arguments: [0.02, 0.1, 0.25, 0.4])
    func lateFramesShareACommit(handOver: Double) async throws {
        let store = try TestStore()
        let clock = ManualClock()
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        let commits = Count()
        await queue.onCommit { commits.add() }
        var next = clock.read().uptime
        var kept: [Arrival] = []
        for tick in 0..<6000 {
            let reading = clock.read()
            if tick % 6 == 0 {
                kept.append(
                    Arrival(sensorID: worn.assignment.sensorID, at: reading, frame: [0, 70]))
            }
            if reading.uptime >= next { next = await queue.tend().next }
            if tick % 25 == Int(handOver * 50) {
                try await queue.append(contentsOf: kept)
                kept = []
            }
            clock.advance(seconds: 0.02)
        }
        #expect((24...28).contains(commits.now), "one each 4.5 to 5 s")
    }
}

/// How often something happened.
final class Count: Sendable {
    private let count = Mutex(0)
    var now: Int { count.withLock { $0 } }
    func add() { count.withLock { $0 += 1 } }
}
