/// The rhythm in which frames arrive: whether one is in step with those before it.
struct Cadence: Hashable, Sendable {
    /// The verdict on the second of two frames by the time between them.
    enum Pace: Hashable {
        /// Too few frames are known.
        case unknown
        /// It arrived when it was due.
        case inStep
        /// It arrived too soon after the one before: that one, or this one, was held up.
        case early
        /// It was held up, or this many frames before it were lost.
        case late(missing: Int)
    }

    /// The typical gap is the median of so many: neither seven held-up frames in a row nor a link
    /// that loses every third one move it.
    static let gapsMax = 15
    /// Gaps that make a first median.
    static let gapsMin = 3

    /// Sensors with less time between frames are fast, µs.
    static let fastMicroseconds: Int64 = 250_000

    /// When the last frame arrived, microseconds.
    private(set) var lastArrival: Int64?
    /// Whether the last frame was in step.
    private(set) var isInStep = false
    /// The last gaps, in a ring.
    private var gaps: [Int64] = []
    private var oldest = 0
    /// The same in order of length, kept so from frame to frame: sorting would be most of the cost.
    private var sorted: [Int64] = []

    /// Takes a frame that arrived then. Not before the last one.
    mutating func note(_ arrival: Int64) -> Pace {
        isInStep = false
        defer { lastArrival = arrival }
        guard let lastArrival else { return .unknown }
        let gap = arrival - lastArrival
        let typical = self.typical
        remember(gap)
        guard typical > 0 else { return .unknown }
        // Half of the longest way in step may be this frame's own, the other half is then that of
        // the one before. A fast sensor's frames come a handful at a time: as long as the whole way
        // may take, a pause between them tells of no loss.
        let patience =
            typical < Self.fastMicroseconds
            ? BeatTimeline.delayMicrosecondsMax
            : min(typical, BeatTimeline.delayMicrosecondsMax) / 2
        if gap > typical + patience {
            return .late(missing: Int(clamping: (gap + typical / 2) / typical) - 1)
        }
        guard gap >= typical / 2 else { return .early }
        isInStep = true
        return .inStep
    }

    /// The typical gap, µs; 0 while unknown. The median of a fast sensor's gaps is that between two
    /// frames of one handful, so that the mean counts.
    private var typical: Int64 {
        guard gaps.count >= Self.gapsMin else { return 0 }
        let median = sorted[sorted.count / 2]
        return median < Self.fastMicroseconds
            ? max(1, gaps.reduce(0, +) / Int64(gaps.count)) : median
    }

    private mutating func remember(_ gap: Int64) {
        if gaps.count < Self.gapsMax {
            gaps.append(gap)
        } else {
            if let index = sorted.firstIndex(of: gaps[oldest]) { sorted.remove(at: index) }
            gaps[oldest] = gap
            oldest = (oldest + 1) % Self.gapsMax
        }
        sorted.insert(gap, at: sorted.firstIndex { $0 > gap } ?? sorted.count)
    }
}
