import Basics
import Testing

@testable import OfflineQueue

@Suite("The first sample of a boot")
struct FirstSampleTests {
    @Test("its times count from power-on and from the program's start, for this boot only")
    func firstSample() async throws {
        let store = try TestStore()
        let clock = ManualClock()
        let queue = try await store.open(clock, bootID: "boot-1")
        let worn = try await Worn(queue)
        #expect(try SampleQueue.firstSample(path: store.path, bootID: "boot-1") == nil)
        clock.advance(seconds: 4)
        for _ in 0..<2 {
            try await queue.append(
                Arrival(sensorID: worn.assignment.sensorID, at: clock.read(), frame: [0x00, 70]))
            clock.advance(seconds: 1)
        }
        try await queue.flush()
        let first = try SampleQueue.firstSample(path: store.path, bootID: "boot-1")
        #expect(first?.sincePowerOn == .seconds(104))
        #expect(first?.sinceStart == .seconds(4))
        #expect(try SampleQueue.firstSample(path: store.path, bootID: "boot-2") == nil)
        try await queue.close()
    }

    @Test("a store that is not there is an error, not an answer")
    func noStore() throws {
        #expect(throws: QueueError.self) {
            try SampleQueue.firstSample(path: "/nonexistent/queue.sqlite", bootID: "boot-1")
        }
    }
}
