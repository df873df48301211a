#if canImport(Glibc)
    import Glibc
#endif

/// An instant on `CLOCK_BOOTTIME`: the time since the machine started, sleep included. This clock is never set
/// and never jumps.
public struct Uptime: InstantProtocol {
    /// How long the machine had been up.
    public let sinceBoot: Duration

    /// The instant at which the machine started.
    public static let zero = Uptime(microseconds: 0)

    /// The instant so many microseconds after the machine started.
    public init(microseconds: Int64) { sinceBoot = .microseconds(microseconds) }

    private init(sinceBoot: Duration) { self.sinceBoot = sinceBoot }

    /// The clock, to the microsecond.
    public static func now() -> Uptime {
        var time = timespec()
        clock_gettime(CLOCK_BOOTTIME, &time)
        return Uptime(
            microseconds: Int64(time.tv_sec) * 1_000_000 + Int64(time.tv_nsec) / 1000)
    }

    /// Whole microseconds since the machine started: as the store has it.
    public var microseconds: Int64 { sinceBoot.microseconds }

    /// The instant so much later.
    public func advanced(by duration: Duration) -> Uptime { self + duration }

    /// How much later the other instant is.
    public func duration(to other: Uptime) -> Duration { other - self }

    /// The instant so much later.
    public static func + (instant: Uptime, duration: Duration) -> Uptime {
        Uptime(sinceBoot: instant.sinceBoot + duration)
    }

    /// The instant so much earlier.
    public static func - (instant: Uptime, duration: Duration) -> Uptime {
        Uptime(sinceBoot: instant.sinceBoot - duration)
    }

    /// How much later the first instant is.
    public static func - (later: Uptime, earlier: Uptime) -> Duration {
        later.sinceBoot - earlier.sinceBoot
    }

    /// Makes the instant so much later.
    public static func += (instant: inout Uptime, duration: Duration) {
        instant = instant + duration
    }

    /// Whether it is earlier.
    public static func < (left: Uptime, right: Uptime) -> Bool { left.sinceBoot < right.sinceBoot }
}
