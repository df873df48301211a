/// One frame as a strap made it.
public struct PackedFrame: Sendable, Hashable {
    /// The bytes of the notification (HRS v1.0 §3.1).
    public var bytes: [UInt8]
    /// The RR intervals inside, in 1/1024 s, oldest first.
    public var ticks: [UInt16]
    /// The strap's own time in milliseconds.
    public var atMilliseconds: Int
}

/// Packs the beats of a heart into heart-rate frames, as a strap on a chest does.
///
/// A value without clock or radio: `advance(milliseconds:)` moves its time, and the same calls give
/// the same bytes. Every RR interval goes out exactly once, in order; what a frame has no room for
/// goes out in another frame at the same instant.
public struct StrapPacker: Sendable {
    /// The bytes that fit in one notification at the smallest ATT_MTU of 23 octets.
    public static let frameBytesMax = 20
    /// How many beats the rate is averaged over; chest straps smooth over a few seconds.
    public static let averagedBeats = 4
    /// How many frames `emitted` keeps; three days at one a second.
    public static let emittedMax = 262_144

    /// Every frame made since the last `forgetEmitted()`, oldest first, at most `emittedMax`.
    public private(set) var emitted: [PackedFrame] = []
    /// The strap's own time in milliseconds.
    public private(set) var milliseconds = 0
    /// How the strap packs.
    public var style: StrapStyle

    private let heart: RecordedHeart
    private var beat: Int
    private var beatMilliseconds: Int
    /// When the next frame is due, in the strap's own time.
    public private(set) var nextFrameMilliseconds: Int
    private var frames = 0
    private var energySinceMilliseconds = 0
    private var recent: [Int] = []
    private var waiting: [UInt16] = []

    /// Puts a strap on a heart.
    ///
    /// - Parameters:
    ///   - heart: the beats; after the last interval the series starts over.
    ///   - style: what the frames hold.
    ///   - beat: index of the first interval, so that two straps need not beat in step.
    public init(heart: RecordedHeart, style: StrapStyle = .chest, startingAt beat: Int = 0) {
        self.heart = heart
        self.style = style
        self.beat = max(beat, 0) % heart.intervals.count
        beatMilliseconds = heart.intervals[self.beat]
        nextFrameMilliseconds = style.frameIntervalMilliseconds
    }

    /// Moves the strap's time on and returns the frames that became due.
    ///
    /// - Parameter step: milliseconds, negative counts as zero.
    public mutating func advance(milliseconds step: Int) -> [PackedFrame] {
        let end = milliseconds + max(step, 0)
        let first = emitted.count
        while nextFrameMilliseconds <= end {
            listen(until: nextFrameMilliseconds)
            milliseconds = nextFrameMilliseconds
            pack()
            nextFrameMilliseconds += style.frameIntervalMilliseconds
        }
        listen(until: end)
        milliseconds = end
        let made = Array(emitted[first...])
        if emitted.count > Self.emittedMax {
            emitted.removeFirst(emitted.count - Self.emittedMax)
        }
        return made
    }

    /// Sets the energy back to zero, as control point opcode 1 asks (HRS v1.0 §3.3).
    public mutating func resetEnergy() {
        energySinceMilliseconds = milliseconds
    }

    /// Clears `emitted`, for runs without end.
    public mutating func forgetEmitted() {
        emitted.removeAll(keepingCapacity: true)
    }

    /// How many RR intervals a frame has room for: 9, one less for each of wide rate and energy.
    ///
    /// - Parameters:
    ///   - wideRate: the rate takes two octets.
    ///   - energy: the frame has the energy field.
    public static func capacity(wideRate: Bool, energy: Bool) -> Int {
        (frameBytesMax - 1 - (wideRate ? 2 : 1) - (energy ? 2 : 0)) / 2
    }

    /// Takes up the beats that fall before `end`.
    private mutating func listen(until end: Int) {
        while beatMilliseconds <= end {
            let interval = heart.intervals[beat]
            if style.hasContact(atMilliseconds: beatMilliseconds) {
                recent.append(interval)
                if recent.count > Self.averagedBeats { recent.removeFirst() }
                if style.sendsRRIntervals {
                    waiting.append(RecordedHeart.ticks(milliseconds: interval))
                }
            }
            beat = (beat + 1) % heart.intervals.count
            beatMilliseconds += heart.intervals[beat]
        }
    }

    /// Beats a minute now, or 0 while there is nothing to tell.
    private var rate: Int {
        if !style.hasContact(atMilliseconds: milliseconds), style.rateWithoutContact == .zero {
            return 0
        }
        let sum = recent.reduce(0, +)
        return sum == 0 ? 0 : (60_000 * recent.count + sum / 2) / sum
    }

    /// Kilojoules since the last reset; the field saturates (HRS v1.0 §3.1.1.3).
    private var energy: UInt16 {
        UInt16(
            clamping: (milliseconds - energySinceMilliseconds) * style.kilojoulesPerMinute / 60_000)
    }

    /// Makes the frame that is due, and more of them while intervals are left over.
    private mutating func pack() {
        repeat {
            frames += 1
            let withEnergy = style.framesPerEnergy.map { frames % $0 == 0 } ?? false
            let room = Self.capacity(
                wideRate: style.alwaysWideRate || rate > 255, energy: withEnergy)
            let ticks = Array(waiting.prefix(room))
            waiting.removeFirst(ticks.count)
            emitted.append(
                PackedFrame(
                    bytes: bytes(ticks: ticks, withEnergy: withEnergy), ticks: ticks,
                    atMilliseconds: milliseconds))
        } while !waiting.isEmpty
    }

    private func bytes(ticks: [UInt16], withEnergy: Bool) -> [UInt8] {
        let wide = style.alwaysWideRate || rate > 255
        var flags: UInt8 = wide ? 0b1 : 0
        if case .supported = style.contact {
            flags |= 0b100
            if style.hasContact(atMilliseconds: milliseconds) { flags |= 0b10 }
        }
        if withEnergy { flags |= 0b1000 }
        if !ticks.isEmpty { flags |= 0b1_0000 }
        var bytes = [flags]
        let rate = UInt16(clamping: rate)
        bytes.append(UInt8(truncatingIfNeeded: rate))
        if wide { bytes.append(UInt8(truncatingIfNeeded: rate >> 8)) }
        for field in (withEnergy ? [energy] : []) + ticks {
            bytes.append(UInt8(truncatingIfNeeded: field))
            bytes.append(UInt8(truncatingIfNeeded: field >> 8))
        }
        return bytes
    }
}
