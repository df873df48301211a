#if canImport(Glibc)
    import Glibc
#endif

/// The time since the machine started, sleep included: the one clock that never jumps.
public enum Uptime {
    /// `CLOCK_BOOTTIME` in µs.
    public static func microseconds() -> Int64 {
        var time = timespec()
        clock_gettime(CLOCK_BOOTTIME, &time)
        return Int64(time.tv_sec) * 1_000_000 + Int64(time.tv_nsec) / 1000
    }
}
