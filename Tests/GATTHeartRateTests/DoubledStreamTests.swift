import Basics
import GATTHeartRate
import Testbed
import Testing

@Suite("A stream that arrives twice")
struct DoubledStreamTests {
    /// The frames of a strap with their times of arrival, µs.
    private func frames(
        _ style: StrapStyle = .chest, seconds: Int = 300
    ) throws -> [(bytes: [UInt8], at: Int64)] {
        var packer = try StrapPacker(heart: .fiveMinutes(), style: style)
        return packer.advance(milliseconds: seconds * 1000).map {
            ($0.bytes, Int64($0.atMilliseconds) * 1000)
        }
    }

    @Test("Every frame twice within 50 ms: found after some twenty of them, and said until it ends")
    func doubled() throws {
        var stream = DoubledStream()
        var foundAfter: Int?
        let frames = try frames()
        for (index, frame) in frames.enumerated() {
            stream.note(frame.bytes, at: frame.at)
            if stream.note(frame.bytes, at: frame.at + 30_000), foundAfter == nil {
                foundAfter = index
            }
        }
        #expect(stream.isDoubled)
        #expect((20...30).contains(try #require(foundAfter)))

        // Single frames take the verdict back, but not the first few: a copy can get lost.
        let end = try #require(frames.last).at
        for second in Int64(1)...19 { stream.note([0, 60], at: end + second * 1_000_000) }
        #expect(stream.isDoubled)
        for second in Int64(20)...22 { stream.note([0, 60], at: end + second * 1_000_000) }
        #expect(!stream.isDoubled)
    }

    @Test("Doubled frames without intervals are found as their rate changes")
    func doubledRates() {
        var stream = DoubledStream()
        for second in 0..<1000 {
            let frame: [UInt8] = [0, 60 + UInt8(second / 20)]
            stream.note(frame, at: Int64(second) * 1_000_000)
            stream.note(frame, at: Int64(second) * 1_000_000 + 1)
        }
        #expect(stream.isDoubled)
    }

    @Test("A strap that sends equal frames each second sends them once")
    func equalFrames() {
        var stream = DoubledStream()
        let isDoubled = (0..<5000).contains {
            stream.note([0, 60], at: Int64($0) * 1_000_000)
        }
        #expect(!isDoubled)
    }

    @Test("Frames held up by stalls and delivered together are not doubled, flat rate or not")
    func stalls() throws {
        for seed in UInt64(1)...5 {
            for style in [StrapStyle.chest, .wrist] {
                var link = LossyLink(delayMicrosecondsMax: 200_000, stall: 0.3)
                link.stallMicrosecondsMax = 2_500_000
                let heart: RecordedHeart =
                    try seed % 2 == 0 ? .steady(milliseconds: 1000) : .fiveMinutes()
                var random = SeededRandom(seed: seed)
                var stream = DoubledStream()
                var time: Int64 = 0
                var wasDoubled = false
                for delivery in try link.deliveries(
                    of: heart, style: style, seconds: 3600, seed: seed)
                {
                    // What the bus needs for one message after the other.
                    time = max(
                        delivery.arrivedAt, time + Int64.random(in: 1...2000, using: &random))
                    let measurement = delivery.measurement
                    let bytes =
                        [UInt8(measurement.bpm)]
                        + measurement.rrIntervals.map { UInt8(truncatingIfNeeded: $0) }
                    if stream.note(bytes, at: time) { wasDoubled = true }
                }
                #expect(!wasDoubled, "seed \(seed)")
            }
        }
    }

    @Test("Two frames in every connection event, and a rate that changes within a pair at times")
    func twoAnEvent() {
        var random = SeededRandom(seed: 11)
        var stream = DoubledStream()
        var rate: UInt8 = 70
        var wasDoubled = false
        for event in 0..<20_000 {
            for frame in 0..<2 {
                if Int.random(in: 0..<7, using: &random) == 0 {
                    rate = rate > 100 ? 70 : rate + 1
                }
                let time = Int64(event) * 1_000_000 + Int64(frame) * 500
                if stream.note([0, rate], at: time) { wasDoubled = true }
            }
        }
        #expect(!wasDoubled)
    }

    @Test("Twenty frames a second, equal or not, are not judged")
    func fast() {
        var random = SeededRandom(seed: 12)
        for changes in [false, true] {
            var stream = DoubledStream()
            var time: Int64 = 0
            var wasDoubled = false
            for frame in 0..<20_000 {
                time += Int64.random(in: 30_000...70_000, using: &random)
                let rate = changes ? UInt8(frame / 2 & 63) : 60
                if stream.note([0, rate], at: time) { wasDoubled = true }
            }
            #expect(!wasDoubled)
        }
    }
}
