/// Gives frames that were held up on their way the times at which they were sent. A value without a
/// clock.
///
/// When bluetoothd hangs, the kernel keeps what a sensor sends, and all of it arrives at once when
/// bluetoothd goes on. Such a flood after a silence is kept back until it is over, a moment after its
/// last frame. Its frames are then spread over the silence: by their own RR intervals or by the
/// sensor's cadence, whichever accounts better for it, backwards from the last one, which was sent
/// when it arrived. What the silence is longer than the frames account for is their uncertainty.
struct FloodClock: Hashable, Sendable {
    /// A silence that may end in a flood, µs; a longer one where the sensor sends less often.
    static let silenceMicrosecondsMin: Int64 = 3_000_000
    /// How close together the frames of a flood arrive, µs; closer where the sensor is faster.
    static let spacingMicrosecondsMax: Int64 = 500_000
    /// The cadence that is assumed before one is known, µs.
    static let cadenceAssumed: Int64 = 1_000_000
    /// A sensor with more time between frames sends rarely, µs.
    static let rareMicroseconds: Int64 = 2_000_000
    /// How far the frames' own time may be from the silence for them to fill it, µs; and parts of it.
    static let fillMicroseconds: Int64 = 2_000_000
    static let fillParts: Int64 = 33
    /// Frames that are kept back at most.
    static let heldMax = 16_384

    /// When the sensor's last frame was sent, or its link was made; µs.
    private var reference: Int64?
    /// Whether the reference is a frame's.
    private var followsFrame = false
    private var held: [CopyFilter.Frame] = []
    private var spacing: Int64 = 0
    /// bluetoothd is known to have hung in the present silence.
    private var hasHung = false

    /// When ``release(cadence:)`` is due, an uptime in µs, if ever.
    var deadline: Int64? { held.last.map { $0.uptime + spacing + 50_000 } }

    /// A link was made at `uptime`, µs: nothing can have been sent before.
    mutating func beginLink(at uptime: Int64, cadence: Int64?) -> [TimedFrame] {
        let frames = release(cadence: cadence)
        reference = max(reference ?? uptime, uptime)
        followsFrame = false
        return frames
    }

    /// bluetoothd does not answer.
    mutating func noteHang() { hasHung = true }

    /// Takes a frame; returns those whose times are known, in order.
    mutating func take(_ frame: CopyFilter.Frame, cadence: Int64?) -> [TimedFrame] {
        var frames: [TimedFrame] = []
        let typical = cadence ?? Self.cadenceAssumed
        if let last = held.last {
            if held.count < Self.heldMax, frame.uptime - last.uptime <= spacing {
                held.append(frame)
                return []
            }
            frames = release(cadence: cadence)
        }
        let silence = max(Self.silenceMicrosecondsMin, typical * 5 / 2)
        guard let reference, frame.uptime - reference > silence else {
            self.reference = frame.uptime
            followsFrame = true
            hasHung = false
            return frames + [TimedFrame(bytes: frame.bytes, uptimeMicroseconds: frame.uptime)]
        }
        held = [frame]
        spacing = min(typical / 2, Self.spacingMicrosecondsMax)
        return frames
    }

    /// Passes on what was kept back, with times.
    mutating func release(cadence: Int64?) -> [TimedFrame] {
        guard let last = held.last else { return [] }
        let frames = held
        let begin = reference ?? frames[0].uptime
        let mayBeLate = frames.count > 2 || hasHung
        let wasFrame = followsFrame
        held = []
        reference = last.uptime
        followsFrame = true
        hasHung = false
        guard frames.count > 1 else {
            return [TimedFrame(bytes: last.bytes, uptimeMicroseconds: last.uptime)]
        }
        let typical = cadence ?? Self.cadenceAssumed
        if wasFrame, typical > Self.rareMicroseconds,
            let spread = Self.follow(frames, from: begin, typical: typical)
        {
            return spread
        }
        return Self.spread(frames, from: begin, typical: typical, mayBeLate: mayBeLate)
    }

    /// The frames of a sensor that sends rarely, counted on from the one before: the last one may have
    /// been sent long before bluetoothd went on. Nil if the silence was of another length.
    private static func follow(
        _ frames: [CopyFilter.Frame], from begin: Int64, typical: Int64
    ) -> [TimedFrame]? {
        let end = frames[frames.count - 1].uptime
        let slack = end - begin - Int64(frames.count) * typical
        guard (-fillMicroseconds...typical + fillMicroseconds).contains(slack) else { return nil }
        return frames.indices.map { index in
            TimedFrame(
                bytes: frames[index].bytes,
                uptimeMicroseconds: min(begin + Int64(index + 1) * typical, end),
                uncertaintyMicroseconds: max(cadenceAssumed, typical / 10))
        }
    }

    private static func spread(
        _ frames: [CopyFilter.Frame], from begin: Int64, typical: Int64, mayBeLate: Bool
    ) -> [TimedFrame] {
        let end = frames[frames.count - 1].uptime
        let silence = max(end - begin, Int64(frames.count))
        let byCadence = frames.map { _ in typical }
        let byIntervals = lengths(frames)
        func total(_ lengths: [Int64]) -> Int64 { lengths.reduce(0, +) }
        let isByIntervals =
            abs(silence - total(byIntervals)) < abs(silence - total(byCadence))
        let lengths = isByIntervals ? byIntervals : byCadence
        let sum = max(total(lengths), 1)
        let slack = silence - sum
        let fills = abs(slack) <= max(fillMicroseconds, silence / fillParts) || slack < 0
        var uncertainty = (fills ? abs(slack) / 2 : slack) + typical
        // Two frames in a row after a pause are no flood unless bluetoothd hung.
        if !fills, !mayBeLate { uncertainty = 2 * typical }
        var times: [Int64] = []
        times.reserveCapacity(frames.count)
        var passed: Int64 = 0
        for length in lengths {
            passed += length
            times.append(
                fills
                    ? begin + Int64(Double(silence) * (Double(passed) / Double(sum)))
                    : end - (sum - passed))
        }
        // Frames without an interval lie where the beat before them does; no two at the same time.
        var latest = end
        for index in times.indices.reversed() {
            times[index] = min(times[index], latest)
            latest = times[index] - 1
        }
        var earliest = begin + 1
        for index in times.indices {
            times[index] = min(max(times[index], earliest), end)
            earliest = times[index] + 1
        }
        return zip(frames, times).map {
            TimedFrame(
                bytes: $0.bytes, uptimeMicroseconds: $1, uncertaintyMicroseconds: uncertainty)
        }
    }

    /// The time that each frame's RR intervals account for.
    private static func lengths(_ frames: [CopyFilter.Frame]) -> [Int64] {
        frames.map { frame in
            guard let measurement = try? HeartRateMeasurement(frame: frame.bytes, policy: .lenient)
            else { return 0 }
            var length: Int64 = 0
            for ticks in measurement.rrIntervals { length += Int64(ticks) * 15_625 / 16 }
            return length
        }
    }
}

/// A frame and when it was sent.
public struct TimedFrame: Hashable, Sendable {
    /// From this uncertainty on, a time is not to be believed, µs.
    public static let uncertaintyMicrosecondsMax: Int64 = 5_000_000

    /// The octets of the notification, as they came.
    public let bytes: [UInt8]
    /// `CLOCK_BOOTTIME` µs: of its arrival, or rebuilt.
    public let uptimeMicroseconds: Int64
    /// How far off a rebuilt time may be, in either direction, µs; nil for a time of arrival.
    public let uncertaintyMicroseconds: Int64?

    init(bytes: [UInt8], uptimeMicroseconds: Int64, uncertaintyMicroseconds: Int64? = nil) {
        self.bytes = bytes
        self.uptimeMicroseconds = uptimeMicroseconds
        self.uncertaintyMicroseconds = uncertaintyMicroseconds
    }

    /// Whether the time is so uncertain that the frame tells little.
    public var isUncertain: Bool {
        (uncertaintyMicroseconds ?? 0) > Self.uncertaintyMicrosecondsMax
    }
}

/// What a sensor's notifications go through before they are judged and stored: copies are dropped,
/// and frames that were held up get the times at which they were sent. A value without a clock.
///
/// Every frame is returned once, in the order of arrival, now or later; ``deadline`` says when
/// ``release(at:)`` has to be called if no frame comes before.
public struct FrameIntake: Hashable, Sendable {
    private var filter = CopyFilter()
    private var flood = FloodClock()
    /// Frames of the present link that were passed over as copies, since the beginning.
    public private(set) var copiesDropped = 0
    private var taken = 0
    private var passed = 0

    /// An intake of a sensor of which nothing is known.
    public init() {}

    /// The typical time between two frames, µs; nil while unknown.
    public var cadenceMicroseconds: Int64? { filter.cadence }

    /// When ``release(at:)`` is due, `CLOCK_BOOTTIME` µs; nil while nothing is kept back.
    public var deadline: Int64? {
        guard let first = filter.deadline else { return flood.deadline }
        return flood.deadline.map { min($0, first) } ?? first
    }

    /// A link was made at this uptime, µs: nothing can have been sent before. Returns what was kept back.
    public mutating func beginLink(at uptime: Int64) -> [TimedFrame] {
        let frames = pass(filter.beginLink())
        return frames + flood.beginLink(at: uptime, cadence: filter.cadence)
    }

    /// bluetoothd does not answer: frames that come next may have been sent long before.
    public mutating func noteHang() { flood.noteHang() }

    /// Takes a frame that arrived at this uptime, µs; returns those that are ready.
    public mutating func take(_ bytes: [UInt8], at uptime: Int64) -> [TimedFrame] {
        taken += 1
        // Far beyond any uptime, and far enough from the end for all the sums.
        let uptime = min(max(uptime, -(1 << 60)), 1 << 60)
        return pass(filter.take(CopyFilter.Frame(bytes: bytes, uptime: uptime)))
    }

    /// Returns what was kept back and is due by now, an uptime in µs.
    public mutating func release(at now: Int64) -> [TimedFrame] {
        var frames = pass(filter.release(at: now))
        if let deadline = flood.deadline, deadline <= now {
            frames += flood.release(cadence: filter.cadence)
        }
        return frames
    }

    /// Returns everything that was kept back: the link or the run ends.
    public mutating func releaseAll() -> [TimedFrame] {
        let frames = pass(filter.release())
        return frames + flood.release(cadence: filter.cadence)
    }

    private mutating func pass(_ frames: [CopyFilter.Frame]) -> [TimedFrame] {
        passed += frames.count
        copiesDropped = taken - passed - filter.heldCount
        return frames.flatMap { flood.take($0, cadence: filter.cadence) }
    }
}
