/// A heartbeat, put on the time line.
public struct Beat: Hashable, Sendable {
    /// When it was, on the clock of the arrivals, microseconds.
    public let uptimeMicroseconds: Int64
    /// How far off that may be, in either direction, microseconds.
    public let uncertaintyMicroseconds: Int64
    /// The time since the beat before it, as sent: ticks of 1/1024 s.
    public let intervalTicks: UInt16
    /// Whether the beat before it is surely the one returned before it. If not, beats may be
    /// missing in between, or the two may lie closer together than the interval says.
    public let followsLast: Bool
}

/// Puts the beats that a sensor's RR intervals tell of on the clock of the frames' arrivals.
///
/// Frames carry no time, so the beats are chained: each lies its interval after the one before. Where
/// the chain lies follows from two bounds that every frame adds. The middle between the narrowest is
/// taken; half their distance is the uncertainty:
///
///     the frame's last beat   ≤ its arrival
///     the frame's first beat  ≥ the arrival of the frame before − delayMicrosecondsMax
///
/// The second one counts only if the frame before came in step, since one that was held up may be of
/// any age. Bounds that contradict each other mean that beats are missing, or that the chain was
/// begun wrongly: it is then anchored anew. After a pause, beats may be missing: then the new frame's
/// own arrival is the upper bound, until later frames show what was lost.
///
/// A value without a clock: the same calls give the same beats. The sensor's own latency is part of
/// the times; nothing tells how long it is. A ``DoubledStream`` makes no sense here.
public struct BeatTimeline: Hashable, Sendable {
    /// The longest way of a frame that came in step, from sensor to arrival, microseconds: straps
    /// ask for connection intervals of up to 0.5 s.
    public static let delayMicrosecondsMax: Int64 = 500_000
    /// After a silence this long, everything begins anew, microseconds.
    public static let silenceMicrosecondsMax: Int64 = 10_000_000
    /// How old the last beat of the very first frame may be, microseconds: sensors send about once a
    /// second, and then comes its way.
    static let firstAgeMicrosecondsMax: Int64 = 1_000_000 + delayMicrosecondsMax
    /// The possible error of an interval in microseconds: the tick of 1/1024 s that a sensor may cut
    /// off, and a crystal that is 20 in a million off. It makes old bounds lose their force.
    static let intervalErrorMicroseconds: Int64 = 1_000
    /// Frames in step after which a break in the chain is understood.
    static let framesToUnderstand = 8

    /// How often the chain was anchored anew.
    public private(set) var reanchorCount = 0
    private var beatsLost = 0
    private var framesLost = 0

    /// Between which times a beat lies.
    private struct Bounds: Hashable {
        var low: Int64
        var high: Int64
        var middle: Int64 { low + (high - low) / 2 }
    }

    /// A break in the chain that is not understood yet.
    private struct Break: Hashable {
        /// Where the last beat would be if nothing had been lost.
        var expected: Int64
        /// Frames in step since.
        var framesInStep = 0
    }

    /// Of the last beat.
    private var bounds: Bounds?
    private var cadence = Cadence()
    private var pending: Break?
    /// Frames missing in pauses, less those that came early, since the last one in step.
    private var framesOwed = 0
    /// Whether beats may be missing before the next one.
    private var mayMiss = false
    /// A running mean of the intervals, microseconds.
    private var intervalMean: Int64 = 0

    /// A time line with nothing on it.
    public init() {}

    /// Beats that were lost on the way or never sent, as far as can be told: the time that no
    /// interval accounts for, in intervals. Those of a long silence are not counted.
    public var estimatedLostBeats: Int { beatsLost + pendingBeats }

    /// Frames that were lost on the way, as far as can be told: the pauses they left. Those of a long
    /// silence are not counted.
    public var estimatedLostFrames: Int { framesLost + max(framesOwed, 0) }

    /// Takes the intervals of one frame, oldest first, and returns its beats. Frames without
    /// intervals are to be added too. An interval of 0 is none.
    ///
    /// Call it once a frame, in order of arrival.
    public mutating func add(rr: RRIntervals, arrivedAt uptimeMicroseconds: Int64) -> [Beat] {
        // Far beyond any uptime, and far enough from the end for all the sums below.
        let arrival = min(max(uptimeMicroseconds, -(1 << 60)), 1 << 60)
        if let last = cadence.lastArrival,
            !(0...Self.silenceMicrosecondsMax).contains(arrival - last)
        {
            startOver()
        }
        let previous = cadence.isInStep ? cadence.lastArrival : nil
        note(cadence.note(arrival), isAfterStep: previous != nil)

        var span: Int64 = 0
        var firstLength: Int64 = 0
        var count = 0
        for ticks in rr where ticks > 0 {
            let length = Self.microseconds(ticks)
            if count == 0 { firstLength = length }
            span += length
            count += 1
        }
        guard count > 0 else { return [] }
        pending?.expected += span
        let floor = previous.map { $0 - Self.delayMicrosecondsMax + span - firstLength }
        let follows = advance(span, count, arrival, floor)
        return beats(rr, count, span - firstLength, follows)
    }

    // MARK: - The chain

    /// Moves the bounds to the last beat of a frame; returns whether the chain holds.
    private mutating func advance(
        _ span: Int64, _ count: Int, _ arrival: Int64, _ floor: Int64?
    ) -> Bool {
        guard var bounds else {
            bounds = Bounds(low: arrival - Self.firstAgeMicrosecondsMax, high: arrival)
            mayMiss = false
            return false
        }
        let error = Self.intervalErrorMicroseconds * Int64(count)
        bounds.low += span - error
        bounds.high += span + error
        let expected = bounds.middle
        var holds = !mayMiss
        bounds.high = mayMiss ? arrival : min(bounds.high, arrival)
        mayMiss = false
        if let floor {
            if floor > bounds.high {
                breakChain(expected: expected)
                holds = false
                bounds.high = arrival
            }
            bounds.low = max(bounds.low, floor)
        }
        if bounds.low > bounds.high {
            // Later than its own arrival: the chain was anchored too late.
            bounds.low = bounds.high - Self.firstAgeMicrosecondsMax
            holds = false
        }
        if !holds { reanchorCount += 1 }
        self.bounds = bounds
        return holds
    }

    /// The beats of a frame with `count` intervals, the last of which lies between the bounds, and
    /// the first `age` before it.
    private mutating func beats(
        _ rr: RRIntervals, _ count: Int, _ age: Int64, _ follows: Bool
    ) -> [Beat] {
        guard let bounds else { return [] }
        let uncertainty = (bounds.high - bounds.low + 1) / 2
        var beats: [Beat] = []
        beats.reserveCapacity(count)
        var time = bounds.middle - age
        for ticks in rr where ticks > 0 {
            let length = Self.microseconds(ticks)
            intervalMean = intervalMean == 0 ? length : intervalMean + (length - intervalMean) / 8
            if !beats.isEmpty { time += length }
            let later = Int64(count - 1 - beats.count)
            beats.append(
                Beat(
                    uptimeMicroseconds: time,
                    uncertaintyMicroseconds: uncertainty + later * Self.intervalErrorMicroseconds,
                    intervalTicks: ticks, followsLast: !beats.isEmpty || follows))
        }
        return beats
    }

    private static func microseconds(_ ticks: UInt16) -> Int64 {
        // 1,000,000 / 1024.
        Int64(ticks) * 15_625 / 16
    }

    // MARK: - What was lost

    private mutating func note(_ pace: Cadence.Pace, isAfterStep: Bool) {
        switch pace {
        case .unknown: mayMiss = true
        case .early: framesOwed -= 1
        case .inStep:
            // The pause before it may hide a lost frame behind the lateness of the one before.
            if !isAfterStep { suspect() }
            pending?.framesInStep += 1
            if let pending, pending.framesInStep < Self.framesToUnderstand { return }
            understand()
        case .late(let missing):
            suspect()
            framesOwed += missing
        }
    }

    private mutating func suspect() {
        mayMiss = true
        if let bounds { breakChain(expected: bounds.middle) }
    }

    private mutating func breakChain(expected: Int64) {
        pending?.framesInStep = 0
        // Bounds further apart than beats cannot count them.
        guard pending == nil, let bounds, bounds.high - bounds.low < intervalMean else { return }
        pending = Break(expected: expected)
    }

    private var pendingBeats: Int {
        guard let pending, let bounds, intervalMean > 0 else { return 0 }
        let missing = bounds.middle - pending.expected
        return missing < intervalMean / 2
            ? 0 : Int(clamping: (missing + intervalMean / 2) / intervalMean)
    }

    private mutating func understand() {
        beatsLost += pendingBeats
        pending = nil
        framesLost += max(framesOwed, 0)
        framesOwed = 0
    }

    private mutating func startOver() {
        understand()
        bounds = nil
        cadence = Cadence()
        mayMiss = false
    }
}
