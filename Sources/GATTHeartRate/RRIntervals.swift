/// The RR intervals of one frame, oldest first, in ticks of 1/1024 s (HRS v1.0 §3.1.1.4).
///
/// Nine intervals are all that fit in a notification at the smallest ATT_MTU (23 octets, so 20 of
/// value: 1 flags + 1 rate + 9 × 2), which is what straps use. Up to nine are held in the value
/// itself, without a heap allocation; a longer frame spills the rest into an array.
public struct RRIntervals: RandomAccessCollection, Hashable, Sendable {
    /// Ticks in one second.
    public static let ticksPerSecond = 1024
    /// Intervals held without allocation: the most that 20 octets of value can carry.
    public static let inlineCapacity = 9

    // Four intervals to a word, the oldest in the lowest bits; the bits past `count` are zero.
    // Integers stay in registers. An InlineArray in their place is copied through memory, and
    // decoding a frame takes 1.6 times as long.
    private var firstFour: UInt64 = 0
    private var nextFour: UInt64 = 0
    private var ninth: UInt16 = 0
    // The tenth interval and those after it. Nil, not empty, when there are none: copying nil
    // touches no reference count.
    private var overflow: [UInt16]?
    /// How many intervals there are.
    public private(set) var count = 0

    /// No intervals.
    public init() {}

    /// The given intervals, each in ticks of 1/1024 s, oldest first.
    public init(_ ticks: some Sequence<UInt16>) {
        for tick in ticks { append(tick) }
    }

    /// The complete little-endian pairs of `frame` from `start` on; an odd last octet is left out.
    @inline(__always)
    init(littleEndian frame: Span<UInt8>, from start: Int) {
        count = (frame.count &- start) >> 1
        firstFour = Self.word(littleEndian: frame, from: start, count: count)
        if count > 4 {
            (nextFour, ninth, overflow) = Self.rest(littleEndian: frame, from: start &+ 8)
        }
    }

    /// The first four of `count` pairs from `start` on, or as many as there are.
    @inline(__always)
    private static func word(
        littleEndian frame: Span<UInt8>, from start: Int, count: Int
    ) -> UInt64 {
        // A ladder, not a loop, saves a tenth of the time of a whole decode.
        guard count > 0 else { return 0 }
        var word = UInt64(littleEndian16(frame, at: start))
        guard count > 1 else { return word }
        word |= UInt64(littleEndian16(frame, at: start &+ 2)) << 16
        guard count > 2 else { return word }
        word |= UInt64(littleEndian16(frame, at: start &+ 4)) << 32
        guard count > 3 else { return word }
        return word | UInt64(littleEndian16(frame, at: start &+ 6)) << 48
    }

    /// The pairs after the first four. Kept out of the decoder: common frames have one or two pairs.
    @inline(never)
    private static func rest(
        littleEndian frame: Span<UInt8>, from start: Int
    ) -> (nextFour: UInt64, ninth: UInt16, overflow: [UInt16]?) {
        let count = (frame.count - start) / 2
        let nextFour = word(littleEndian: frame, from: start, count: count)
        let ninth = count > 4 ? littleEndian16(frame, at: start + 8) : 0
        guard count > 5 else { return (nextFour, ninth, nil) }
        return (nextFour, ninth, (5..<count).map { littleEndian16(frame, at: start + 2 * $0) })
    }

    private mutating func append(_ tick: UInt16) {
        switch count {
        case 0..<4: firstFour |= UInt64(tick) << (16 * UInt64(count))
        case 4..<8: nextFour |= UInt64(tick) << (16 * UInt64(count - 4))
        case 8: ninth = tick
        case 9: overflow = [tick]
        default: overflow?.append(tick)
        }
        count += 1
    }

    public var startIndex: Int { 0 }
    public var endIndex: Int { count }

    /// The interval at `position`, in ticks of 1/1024 s.
    public subscript(position: Int) -> UInt16 {
        precondition(position >= 0 && position < count, "RR interval index out of range")
        switch position {
        case 0..<4: return UInt16(truncatingIfNeeded: firstFour >> (16 * UInt64(position)))
        case 4..<8: return UInt16(truncatingIfNeeded: nextFour >> (16 * UInt64(position - 4)))
        case 8: return ninth
        default:
            guard let overflow else { preconditionFailure("RR intervals without their overflow") }
            return overflow[position - Self.inlineCapacity]
        }
    }

    /// An interval in milliseconds. Exact: 1000/1024 ms a tick is a binary fraction.
    public static func milliseconds(_ ticks: UInt16) -> Double {
        Double(ticks) * 1000 / Double(ticksPerSecond)
    }
}

extension RRIntervals: ExpressibleByArrayLiteral {
    public init(arrayLiteral ticks: UInt16...) { self.init(ticks) }
}
