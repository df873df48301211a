/// An instant on a clock that counts whole microseconds, as the store keeps it and other programs send it.
///
/// Each clock has a type of its own, so an instant of one cannot be taken for an instant of another, for a
/// `Duration` or for a number. Arithmetic cuts durations to whole microseconds and saturates.
public protocol ClockInstant: InstantProtocol, Codable where Duration == Swift.Duration {
    /// Microseconds since the clock's zero; negative before it. Any `Int64` is an instant.
    var microseconds: Int64 { get }

    /// The instant so many microseconds after the clock's zero.
    init(microseconds: Int64)
}

extension ClockInstant {
    /// The instant so much later.
    public func advanced(by duration: Duration) -> Self { self + duration }

    /// How much later the other instant is.
    public func duration(to other: Self) -> Duration { other - self }

    /// The instant so much later.
    public static func + (instant: Self, duration: Duration) -> Self {
        let length = duration.microseconds
        let (sum, overflow) = instant.microseconds.addingReportingOverflow(length)
        return Self(microseconds: overflow ? (length < 0 ? .min : .max) : sum)
    }

    /// The instant so much earlier.
    public static func - (instant: Self, duration: Duration) -> Self {
        let length = duration.microseconds
        let (difference, overflow) = instant.microseconds.subtractingReportingOverflow(length)
        return Self(microseconds: overflow ? (length < 0 ? .max : .min) : difference)
    }

    /// How much later the first instant is.
    public static func - (later: Self, earlier: Self) -> Duration {
        .microseconds(later.microseconds) - .microseconds(earlier.microseconds)
    }

    /// Makes the instant so much later.
    public static func += (instant: inout Self, duration: Duration) {
        instant = instant + duration
    }

    /// Whether it is earlier.
    public static func < (left: Self, right: Self) -> Bool {
        left.microseconds < right.microseconds
    }
}

extension ClockInstant {
    /// The latest whole multiple of a length, counted from the clock's zero, that is not later; that zero, for an
    /// instant before it.
    ///
    /// - Parameter length: at least a microsecond.
    public func start(ofEach length: Duration) -> Self {
        let past = max(0, microseconds)
        return Self(microseconds: past - past % max(1, length.microseconds))
    }
}

/// A file has an instant as its number of microseconds.
extension ClockInstant {
    /// Reads the number.
    public init(from decoder: any Decoder) throws {
        self.init(microseconds: try decoder.singleValueContainer().decode(Int64.self))
    }

    /// Writes the number.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(microseconds)
    }
}

#if canImport(Glibc)
    import Glibc

    extension ClockInstant {
        /// Reads a clock of the kernel, to the microsecond.
        init(reading clock: clockid_t) {
            var time = timespec()
            // It cannot fail: both clocks exist on every kernel since 2.6.39 and the address is valid.
            clock_gettime(clock, &time)
            self.init(microseconds: Int64(time.tv_sec) * 1_000_000 + Int64(time.tv_nsec) / 1000)
        }
    }
#endif
