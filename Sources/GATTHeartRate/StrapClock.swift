/// Learns from frames on time when a sensor sends. A value without a clock.
///
/// The clock counts frames. Most sensors send one each ``cadence``. Some send one with each heartbeat, whose one RR
/// interval tells when; a sensor that sends frames without RR intervals, or with several, has a clock. Until it is known
/// which of the two a sensor does, everything is possible that either allows.
///
/// The arrivals of frames on time, less the time that lies between them, form a band as wide as the sensor's jitter
/// and the time a frame takes on its way. A frame that nothing holds up arrives at the lower edge of the band.
struct StrapClock: Hashable, Sendable {
    /// A frame that is due comes at most so much later than the band, µs.
    private static let tolerance: Int64 = 125_000
    /// How far the edges of the band may be off, µs.
    private static let margin: Int64 = 100_000
    /// So many frames show the band.
    private static let ticksMax = 16
    /// So many frames measure the cadence.
    private static let countMax: Int64 = 512
    /// No sensor keeps frames for longer to send them together, µs.
    static let holdMax: Int64 = 10_000_000
    /// So many batches tell how long a sensor keeps frames.
    private static let delaysMax = 8
    /// The shortest plausible time between two heartbeats, µs.
    private static let beatMin = 60_000_000 / Int64(Plausibility.plausibleBPM.upperBound)
    /// After so many frames out of step in a row, the rhythm is another.
    private static let missesMax = 4

    /// A number of frames, the sum of their RR intervals, µs, and how many of them have exactly one.
    struct Count: Hashable {
        var frames: Int64 = 0
        var beats: Int64 = 0
        var withOne: Int64 = 0

        static func + (one: Count, other: Count) -> Count {
            Count(
                frames: one.frames + other.frames, beats: one.beats + other.beats,
                withOne: one.withOne + other.withOne)
        }
        static func - (one: Count, other: Count) -> Count {
            one + Count(frames: -other.frames, beats: -other.beats, withOne: -other.withOne)
        }
    }

    /// A frame on time, or one that may be.
    private struct Tick: Hashable {
        var count: Count
        var arrival: Int64
    }

    /// The mean time between two frames, µs; 0 while unknown.
    private(set) var cadence: Int64 = 0
    /// The last cadence that was known, µs; 0 if none was.
    private(set) var pace: Int64 = 0
    /// The recent width of the band, µs; nil before ``ticksMax`` frames have shown it.
    private var band: Int64?
    /// How long the sensor keeps frames to send them together, µs.
    private(set) var hold = StrapClock.holdMax
    /// How late the first frame of each of the last few batches was, µs.
    private var delays: [Int64] = []
    /// Whether it is known that the sensor sends with each heartbeat, or that it has a clock.
    private var isPerBeat = false
    private var isByClock = false
    private var ticks: [Tick] = []
    private var begin: Tick?
    /// The cadence is wrong by at most so much, µs, in so many frames.
    private var errorTime: Int64 = 0
    private var errorFrames: Int64 = 1
    private var now = Count()
    private var misses = 0
    /// Whether copies for other programs may hold up frames. Then, or while few frames are known, something may have
    /// held up even the frame at the lower edge of the band.
    var isShared = false

    /// How wide the band may be, µs.
    var jitter: Int64 { band ?? jitterMax }

    /// No sensor's band is wider, µs.
    private var jitterMax: Int64 { cadence / 10 + FrameIntake.wayMicrosecondsMax }

    /// Whether it is known when the next frame is due.
    var isSet: Bool { cadence > 0 && ticks.count > 1 }

    /// Whether the frame that is `count` after the last one is on time if it arrives then.
    func isOnTime(_ arrival: Int64, after count: Count) -> Bool {
        isSet && isInStep(arrival, after: count)
    }

    /// The longest silence before frames that nothing but the sensor held up, µs.
    var usualSilence: Int64 { pace + hold + jitter + Self.tolerance }

    /// The least time from one frame to the next, µs; 0 while unknown.
    var leastStep: Int64 { shortest(next(Count())) }

    /// Whether the sensor may have sent each of these frames with a heartbeat.
    private func mayBeBeats(_ count: Count) -> Bool {
        isPerBeat || !isByClock && count.withOne == count.frames
    }

    /// The least time that so many frames take, or the most; µs.
    private func length(_ count: Count, isMost: Bool) -> Int64 {
        let error = abs(count.frames) * errorTime / errorFrames
        let steps = count.frames * cadence + (isMost ? error : -error)
        if isPerBeat || !mayBeBeats(count) { return isPerBeat ? count.beats : steps }
        return isMost ? max(count.beats, steps) : min(count.beats, steps)
    }

    /// When a sensor sends: by a clock, or with each heartbeat.
    enum Rhythm { case clock, beats }

    /// The rhythms that the sensor may have.
    var rhythms: [Rhythm] { isPerBeat ? [.beats] : isByClock ? [.clock] : [.clock, .beats] }

    /// The least time that so many frames take in a rhythm, but for the jitter; µs.
    func shortest(_ count: Count, _ rhythm: Rhythm) -> Int64 {
        switch rhythm {
        case .clock: max(0, count.frames * cadence - count.frames * errorTime / errorFrames)
        case .beats: count.beats
        }
    }

    /// The least time that so many frames take, but for the jitter; µs.
    func shortest(_ count: Count) -> Int64 { max(0, length(count, isMost: false)) }

    /// The least time that so many frames take, µs.
    func least(_ count: Count) -> Int64 { max(0, shortest(count) - slack) }

    /// How much closer to each other than their distance two frames may be sent, µs: the band may not have shown all.
    var slack: Int64 { jitter + jitter / 8 }

    /// How many frames were sent by `end` after the last one, if none was lost, and `passed` more; nil while unknown.
    func due(by end: Int64, _ passed: Int) -> ClosedRange<Int64>? {
        guard isSet, let edge = edge(Count()) else { return nil }
        let span = end - edges().low - length(now)
        let slack = jitter + (isByClock ? 0 : span / 4)
        let least = max(0, span - slack - Self.tolerance + cadence - 1) / cadence
        let most = max(0, end - edge + (isByClock ? 0 : slack)) / cadence
        return least + Int64(passed)...max(least, most) + Int64(passed)
    }

    /// The earliest time at which the frame `count` after the last one can have been sent.
    func earliest(_ count: Count) -> Int64? {
        let isShown = ticks.count == Self.ticksMax && !isShared
        return edge(count).map { isShown ? $0 : $0 + Self.margin - FrameIntake.wayMicrosecondsMax }
    }

    /// The lower edge of the band.
    private func edge(_ count: Count) -> Int64? {
        guard isSet else { return nil }
        return ticks.reduce(.min) {
            max($0, $1.arrival + length(now + count - $1.count, isMost: false))
        } - width
    }

    /// The latest time at which the frame `count` after the last one can have been sent.
    func latest(_ count: Count) -> Int64? {
        guard isSet else { return nil }
        return ticks.reduce(.max) {
            min($0, $1.arrival + length(now + count - $1.count, isMost: true))
        } + width
    }

    /// How far a frame may be from another one in the band, µs.
    private var width: Int64 {
        max(jitter, edges().high - edges().low) + slack - jitter + Self.margin
    }

    /// One frame more than `count`, as soon as the sensor can send it.
    func next(_ count: Count) -> Count { count + Count(frames: 1, beats: Self.beatMin, withOne: 1) }

    /// Takes frames that came together, the first and the last one of them at these times; `isSteady` if nothing tells
    /// that something held them up or was lost.
    mutating func follow(
        _ count: Count, from first: Int64, to end: Int64, isSteady: Bool, isUsual: Bool
    ) {
        guard count.frames > 0 else { return }
        let isOnTime = isOnTime(end, after: count)
        if isOnTime, isUsual { return note(count, at: end, firstAt: first) }
        if let this = earliest(count), let next = earliest(next(count)),
            isOnTime || this <= end && end < next
        {
            // None was lost, but these frames do not show the rhythm.
            now = now + count
            return
        }
        if isSet { restart(isUnexpected: isSteady) }
        if isSteady {
            note(count, at: end, firstAt: first)
        } else {
            restart(isUnexpected: true)
        }
    }

    /// Learns from frames that came together, the first of them at `first` and the last at `arrival`.
    mutating func note(_ count: Count, at arrival: Int64, firstAt first: Int64) {
        let wasSet = isSet
        if wasSet {
            let one = Count(frames: 1, beats: count.beats / count.frames)
            let late = first - edges().low - length(now + one)
            delays.append(min(max(late, 0), Self.holdMax))
            if delays.count > Self.delaysMax { delays.removeFirst() }
            // One of the delays may be that of a hang.
            hold = delays.count == 1 ? delays[0] : delays.sorted()[delays.count - 2]
        }
        let isInStep = ticks.isEmpty || cadence == 0 || isInStep(arrival, after: count)
        now = now + count
        if !isInStep {
            restart(isUnexpected: true)
        } else if wasSet {
            misses = 0
        }
        ticks.append(Tick(count: now, arrival: arrival))
        if ticks.count > Self.ticksMax { ticks.removeFirst() }
        learn()
    }

    /// Frames may have been lost: the next ones do not continue the count.
    mutating func restart(isUnexpected: Bool = false) {
        ticks.removeAll(keepingCapacity: true)
        (begin, isShared) = (nil, false)
        misses += isUnexpected ? 1 : 0
        // The rhythm is another.
        if misses == Self.missesMax { self = StrapClock() }
    }

    /// Whether frames are, by the rhythm that is known, or by both if several come and nothing tells which it is.
    private func isInStep(_ arrival: Int64, after count: Count) -> Bool {
        let isEither = count.frames > 1 && mayBeBeats(count)
        return [isPerBeat, isPerBeat || isEither].allSatisfy { perBeat in
            let off = arrival - edges(perBeat: perBeat).low - length(now + count, perBeat: perBeat)
            return (-jitter - FrameIntake.wayMicrosecondsMax...jitter + Self.tolerance)
                .contains(off)
        }
    }

    private func length(_ count: Count, perBeat: Bool? = nil) -> Int64 {
        perBeat ?? isPerBeat ? count.beats : count.frames * cadence
    }

    private func edges(perBeat: Bool? = nil) -> (low: Int64, high: Int64) {
        let times = ticks.map { $0.arrival - length($0.count, perBeat: perBeat) }
        return (times.min() ?? 0, times.max() ?? 0)
    }

    private mutating func learn() {
        guard let first = ticks.first, let last = ticks.last else { return }
        defer { if cadence > 0 { pace = cadence } }
        if cadence == 0 {
            guard ticks.count > 3, last.arrival - first.arrival >= 2_000_000 else { return }
            let count = last.count.frames - first.count.frames
            cadence = max(1, (last.arrival - first.arrival) / count)
            (errorTime, errorFrames) = (jitter + Self.margin, count)
            for (one, next) in zip(ticks, ticks.dropFirst()) {
                let frames = next.count.frames - one.count.frames
                let off = abs(next.arrival - one.arrival - frames * cadence)
                guard off <= frames * cadence / 8 + FrameIntake.wayMicrosecondsMax else {
                    cadence = 0
                    ticks.removeFirst()
                    return
                }
            }
        }
        let (new, wasPerBeat) = (last.count - first.count, isPerBeat)
        let isFull = ticks.count == Self.ticksMax
        let (byClock, byBeat) = (edges(perBeat: false), edges(perBeat: true))
        let (clock, beat) = (byClock.high - byClock.low, byBeat.high - byBeat.low)
        if new.withOne < new.frames {
            (isPerBeat, isByClock) = (false, true)
        } else if isFull {
            isPerBeat = isPerBeat ? beat <= clock : beat < clock / 2
            isByClock = clock < beat / 2
        }
        if isPerBeat != wasPerBeat { band = nil }
        if isFull {
            let width = isPerBeat ? beat : isByClock ? clock : max(clock, beat)
            // The sensor has another rhythm, and the band must not widen after it.
            if width > jitterMax { return self = StrapClock() }
            // So few frames hardly show all of it.
            band = max(width, band.map { $0 - $0 / 64 } ?? width * 3 / 2)
        }
        let start = begin ?? first
        begin = start
        let count = last.count.frames - start.count.frames
        let time = jitter + Self.margin
        if count > 2, time * errorFrames <= errorTime * count {
            cadence = max(1, (last.arrival - start.arrival) / count)
            (errorTime, errorFrames) = (time, count)
        }
        if count >= Self.countMax { begin = first }
    }
}
