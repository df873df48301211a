#if canImport(Glibc)
    import Glibc
#endif

/// An instant of Coordinated Universal Time as POSIX counts it, without leap seconds: a wall clock's reading,
/// right or wrong. Any `Int64` of microseconds is one, the years −290308 to 294247; texts with a year of four
/// digits reach from 1970 to 9999.
public struct UTC: ClockInstant {
    /// Whole microseconds since 1970-01-01T00:00:00Z.
    public let microseconds: Int64

    /// The instant so many microseconds after 1970-01-01T00:00:00Z.
    public init(microseconds: Int64) { self.microseconds = microseconds }

    /// What this machine's wall clock says, to the microsecond, whether it was ever set or not.
    public static func now() -> UTC { UTC(reading: CLOCK_REALTIME) }
}
