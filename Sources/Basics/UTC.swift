#if canImport(Glibc)
    import Glibc
#endif

/// An instant of Coordinated Universal Time as POSIX counts it, without leap seconds: a wall clock's reading,
/// right or wrong. Any `Int64` of microseconds is one, the years −290308 to 294247; texts with a year of four
/// digits reach from 1970 to 9999.
public struct UTC: ClockInstant {
    /// Whole microseconds since 1970-01-01T00:00:00Z.
    public let microseconds: Int64

    /// 1970-01-01T00:00:00Z: earlier than any time that a sensor or a server means.
    public static let epoch = UTC(microseconds: 0)

    /// The instant so many microseconds after 1970-01-01T00:00:00Z.
    public init(microseconds: Int64) { self.microseconds = microseconds }

    /// The time of this machine's wall clock, to the microsecond, whether it was ever set or not.
    public static func now() -> UTC { UTC(reading: CLOCK_REALTIME) }

    private static let dayMicroseconds: Int64 = 86_400_000_000

    /// Where a day begins, which is given in days since 1970-01-01; saturates.
    public init(day: Int64) {
        let (start, overflow) = day.multipliedReportingOverflow(by: Self.dayMicroseconds)
        microseconds = overflow ? (day < 0 ? .min : .max) : start
    }

    /// The day that it lies in, in days since 1970-01-01: negative before that.
    public var day: Int64 {
        let (days, rest) = microseconds.quotientAndRemainder(dividingBy: Self.dayMicroseconds)
        return rest < 0 ? days - 1 : days
    }
}
