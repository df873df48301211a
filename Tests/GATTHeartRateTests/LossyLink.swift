import Basics
import GATTHeartRate
import Testbed

/// A heart, a strap on it, and a link that delays, holds up and loses frames, all from one seed.
struct LossyLink {
    /// A frame that came through.
    struct Delivery {
        var arrivedAt: Int64
        var measurement: HeartRateMeasurement
        /// The true time of each of its beats, µs on the clock of the arrivals.
        var beats: [Int64]
    }

    /// The chance of a frame to be lost.
    var loss = 0.0
    /// The longest way of a frame that nothing holds up, µs.
    var delayMicrosecondsMax: Int64 = 30_000
    /// The chance of a frame to begin a stall, in which it and those after it are held up.
    var stall = 0.0
    /// The longest stall, µs.
    var stallMicrosecondsMax: Int64 = 4_000_000
    /// How much faster the strap's crystal is than the gateway's, in a million.
    var crystalPartsPerMillion: Int64 = 0

    private(set) var framesSent = 0
    private(set) var framesLost = 0
    private(set) var beatsSent = 0
    private(set) var beatsLost = 0

    /// What arrives of a heart that beats for `seconds`.
    mutating func deliveries(
        of heart: RecordedHeart, style: StrapStyle = .chest, seconds: Int, seed: UInt64
    ) throws -> [Delivery] {
        var random = SeededRandom(seed: seed)
        var packer = StrapPacker(heart: heart, style: style)
        // Any uptime but 0, so that no test passes by it.
        let start: Int64 = 3_600_000_000
        func local(_ milliseconds: Int) -> Int64 {
            start + Int64(milliseconds) * 1000
                - Int64(milliseconds) * crystalPartsPerMillion / 1000
        }
        var deliveries: [Delivery] = []
        var beatMilliseconds = 0
        var beat = 0
        var freeAt = start
        for frame in packer.advance(milliseconds: seconds * 1000) {
            var beats: [Int64] = []
            for _ in frame.ticks {
                beatMilliseconds += heart.intervals[beat % heart.intervals.count]
                beat += 1
                beats.append(local(beatMilliseconds))
            }
            framesSent += 1
            beatsSent += beats.count
            let madeAt = local(frame.atMilliseconds)
            if Double.random(in: 0..<1, using: &random) < stall {
                freeAt = max(
                    freeAt, madeAt + Int64.random(in: 0...stallMicrosecondsMax, using: &random))
            }
            let arrival = max(
                freeAt, madeAt + Int64.random(in: 0...delayMicrosecondsMax, using: &random))
            // The first frames always come, so that what follows is told apart from a late start.
            if deliveries.count > 10, Double.random(in: 0..<1, using: &random) < loss {
                framesLost += 1
                beatsLost += beats.count
                continue
            }
            freeAt = arrival
            deliveries.append(
                Delivery(
                    arrivedAt: arrival,
                    measurement: try HeartRateMeasurement(frame: frame.bytes), beats: beats))
        }
        return deliveries
    }
}
