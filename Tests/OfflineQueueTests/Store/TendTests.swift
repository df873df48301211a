import Basics
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

    /// Four minutes of a strap whose frames are kept back for so long each time.
    @Test(
        "A frame is in the store 5.6 s after it came, kept back or not",
        arguments: [0, 0.3, 1.7, 3.5, 3.85], [0.9, 4.3, 31.0])
    func frameIsStoredInTime(keptBack: Double, pause: Double) async throws {
        let store = try TestStore()
        let clock = ManualClock()
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        var caretaker = Caretaker(queue: queue, clock: clock)
        var kept: [Arrival] = []
        var arrivals: [Uptime] = []
        var stored = 0
        var nextFrame = clock.read().uptime
        for _ in 0..<2400 {
            let reading = clock.read()
            if reading.uptime >= nextFrame {
                kept.append(Arrival(assignmentID: worn.assignment.id, at: reading, frame: [0, 70]))
                arrivals.append(reading.uptime)
                nextFrame = nextFrame + .milliseconds(Int(pause * 1000))
            }
            if let first = kept.first, reading.uptime - first.uptime >= .seconds(keptBack) {
                try await queue.append(contentsOf: kept)
                kept = []
            }
            await caretaker.comeBy()
            stored = Int(try await queue.balance().stored)
            if stored < arrivals.count {
                #expect(reading.uptime - arrivals[stored] <= Self.ageMax)
            }
            clock.advance(seconds: 0.1)
        }
        #expect(stored > 0)
    }
}
