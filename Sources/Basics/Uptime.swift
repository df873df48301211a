#if canImport(Glibc)
    import Glibc
#endif

/// An instant on `CLOCK_BOOTTIME`: the time since the machine started, sleep included. This clock is never set
/// and never jumps. Uptimes of two boots have nothing to do with each other.
public struct Uptime: ClockInstant {
    /// Whole microseconds since the machine started.
    public let microseconds: Int64

    /// The instant at which the machine started: earlier than anything a program sees.
    public static let zero = Uptime(microseconds: 0)

    /// The instant so many microseconds after the machine started.
    public init(microseconds: Int64) { self.microseconds = microseconds }

    /// The clock, to the microsecond.
    public static func now() -> Uptime { Uptime(reading: CLOCK_BOOTTIME) }

    /// For how long the machine has been suspended since it started: `CLOCK_MONOTONIC` stands still then.
    public static func suspended() -> Duration {
        let uptime = now()
        return uptime - Uptime(reading: CLOCK_MONOTONIC)
    }
}
