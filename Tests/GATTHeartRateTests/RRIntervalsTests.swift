import GATTHeartRate
import Testing

@Suite("RR intervals")
struct RRIntervalsTests {
    @Test("Behave as an array does, across the border of the inline slots", arguments: 0...24)
    func likeAnArray(count: Int) {
        let ticks = (0..<count).map { UInt16(1000 + $0) }
        let intervals = RRIntervals(ticks)
        #expect(intervals.count == count)
        #expect(intervals.isEmpty == ticks.isEmpty)
        #expect(Array(intervals) == ticks)
        #expect(intervals.indices.map { intervals[$0] } == ticks)
        #expect(intervals.reversed() == ticks.reversed())
        #expect(intervals.last == ticks.last)
        #expect(intervals.dropFirst(9).elementsEqual(ticks.dropFirst(9)))
    }

    @Test("Equality and hash go by the intervals, in order and number")
    func equality() {
        #expect(RRIntervals([1, 2]) == [1, 2])
        #expect(RRIntervals([1, 2]) != [2, 1])
        // An empty slot is zero inside; a zero interval is something else.
        #expect(RRIntervals([1]) != [1, 0])
        let long = (0..<12).map { UInt16($0) }
        #expect(RRIntervals(long) == RRIntervals(long))
        #expect(RRIntervals(long) != RRIntervals(long.dropLast() + [99]))
        #expect(Set([RRIntervals(long), RRIntervals(long), []]).count == 2)
    }

    @Test("A tick is 1/1024 s, exactly")
    func milliseconds() {
        #expect(RRIntervals.milliseconds(1024) == 1000)
        #expect(RRIntervals.milliseconds(1) == 0.9765625)
        #expect(RRIntervals.milliseconds(0) == 0)
        #expect(RRIntervals.milliseconds(65535) == 63_999.0234375)
    }

    @Test("All intervals of the longest value that ATT can carry are kept")
    func longestFrame() throws {
        // 512 octets is the longest attribute value (Core v5.4, Vol 3, Part F, §3.2.9).
        let frame = [0x10, 60] + [UInt8](repeating: 3, count: 510)
        let measurement = try HeartRateMeasurement(frame: frame)
        #expect(measurement.rrIntervals.count == 255)
        #expect(measurement.rrIntervals.allSatisfy { $0 == 0x0303 })
    }
}
