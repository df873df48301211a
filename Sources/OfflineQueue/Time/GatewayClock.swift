import Foundation

/// What the clocks said at one instant.
public struct ClockReading: Sendable, Hashable, Codable {
    /// `CLOCK_BOOTTIME` in microseconds: time since boot, suspend included; never set, never steps.
    public var uptimeMicroseconds: Int64
    /// UTC in microseconds since 1970, right or wrong.
    public var wallMicroseconds: Int64
    /// Whether the wall clock is trusted.
    public var isTrusted: Bool

    /// A reading made of its parts.
    public init(uptimeMicroseconds: Int64, wallMicroseconds: Int64, isTrusted: Bool) {
        self.uptimeMicroseconds = uptimeMicroseconds
        self.wallMicroseconds = wallMicroseconds
        self.isTrusted = isTrusted
    }

    /// What the clocks would have said at another uptime of this boot.
    public func at(uptime: Int64) -> ClockReading {
        ClockReading(
            uptimeMicroseconds: uptime,
            wallMicroseconds: wallMicroseconds &- (uptimeMicroseconds &- uptime),
            isTrusted: isTrusted)
    }

    /// The wall clock if it is trusted.
    public var trustedWallMicroseconds: Int64? { isTrusted ? wallMicroseconds : nil }
}

/// A source of clock readings; the tests' one is simulated.
public protocol GatewayClock: Sendable {
    /// Both clocks and whether to believe the wall clock, now.
    func read() -> ClockReading
}

/// When a sample can have been measured.
public enum PlausibleTime {
    /// 2010-01-01T00:00:00Z: there was no Bluetooth Low Energy, and so no sensor like these, before.
    public static let earliestMicroseconds: Int64 = 1_262_304_000_000_000
    /// How far behind this machine's clock another one's may be, µs: a day.
    private static let aheadMicroseconds: Int64 = 86_400_000_000
    /// How long after it was built this program may run, at most, where no clock is trusted, µs: 20 years.
    private static let lifetimeMicroseconds: Int64 = 631_152_000_000_000

    /// The times that a file or a person may give to a sample, UTC µs: up to a day after now.
    public static func range(at reading: ClockReading) -> ClosedRange<Int64> {
        let latest =
            reading.trustedWallMicroseconds.map { $0 &+ aheadMicroseconds }
            ?? ClockTrust.earliestCredibleMicroseconds + lifetimeMicroseconds
        return earliestMicroseconds...max(latest, earliestMicroseconds)
    }
}

/// When the wall clock counts.
public enum ClockTrust: String, Sendable, Hashable, CaseIterable {
    /// While the kernel says it is synchronised (adjtimex(2), no `STA_UNSYNC`) and it is not before
    /// ``earliestCredibleMicroseconds``.
    case kernel
    /// While it is not before ``earliestCredibleMicroseconds``: for machines without NTP.
    case always

    /// 2026-11-01T00:00:00Z, before which this program was not built: an earlier wall clock is the
    /// default of a machine without a battery clock.
    public static let earliestCredibleMicroseconds: Int64 = 1_793_491_200_000_000
}

/// The machine's own clocks.
public struct SystemClock: GatewayClock {
    private let trust: ClockTrust

    /// A clock that believes the wall clock as `trust` says.
    public init(trust: ClockTrust = .kernel) {
        self.trust = trust
    }

    /// Reads `CLOCK_BOOTTIME`, `CLOCK_REALTIME` and the kernel's synchronisation state.
    public func read() -> ClockReading {
        Self.read(
            trust, uptime: { Self.microseconds(CLOCK_BOOTTIME) },
            wall: { Self.microseconds(CLOCK_REALTIME) },
            isSynchronised: { KernelTime.isSynchronised })
    }

    /// The longest that two clocks may be read after one another and still be of one instant, µs; a
    /// process that was interrupted between them would give a whole boot an offset that is wrong.
    private static let instantMicroseconds: Int64 = 1_000
    /// How often that is tried: a machine is not interrupted so often in a row.
    private static let readingsMax = 4

    /// Both clocks at one instant, and whether the wall clock was trusted before it and after: one
    /// that is just being set is not.
    static func read(
        _ trust: ClockTrust, uptime: () -> Int64, wall: () -> Int64, isSynchronised: () -> Bool
    ) -> ClockReading {
        let wasTrusted = trust == .always || isSynchronised()
        var uptimeRead = uptime()
        var wallRead = wall()
        for _ in 1..<readingsMax {
            let after = uptime()
            if after - uptimeRead <= instantMicroseconds { break }
            uptimeRead = after
            wallRead = wall()
        }
        let isStillTrusted = wasTrusted && (trust == .always || isSynchronised())
        return ClockReading(
            uptimeMicroseconds: uptimeRead, wallMicroseconds: wallRead,
            isTrusted: isStillTrusted && wallRead >= ClockTrust.earliestCredibleMicroseconds)
    }

    private static func microseconds(_ clock: clockid_t) -> Int64 {
        var time = timespec()
        // It cannot fail: both clocks exist on every kernel since 2.6.39 and the address is valid.
        clock_gettime(clock, &time)
        return Int64(time.tv_sec) * 1_000_000 + Int64(time.tv_nsec) / 1_000
    }
}

/// The kernel's own word on whether something disciplines its clock.
enum KernelTime {
    /// adjtimex(2) with no modes set only reads, needs no privilege, and returns `TIME_ERROR` (5)
    /// whenever `STA_UNSYNC` is set.
    static var isSynchronised: Bool {
        guard let adjtimex else { return false }
        // `struct timex` is 208 bytes on 64-bit Linux; all zero means "read only".
        var buffer = InlineArray<64, UInt64>(repeating: 0)
        let state = withUnsafeMutablePointer(to: &buffer) { adjtimex(UnsafeMutableRawPointer($0)) }
        return state >= 0 && state != 5
    }

    private typealias AdjTimeX = @convention(c) (UnsafeMutableRawPointer) -> Int32

    // Swift's Glibc module leaves out <sys/timex.h>, so the function is looked up by its name.
    private static let adjtimex: AdjTimeX? = dlsym(nil, "adjtimex").map {
        // `int adjtimex(struct timex *)` has exactly this C signature.
        unsafeBitCast($0, to: AdjTimeX.self)
    }
}

/// The name of the running boot.
public enum BootID {
    /// Linux's random id of this boot (random(4)), which changes at every start of the kernel.
    ///
    /// Nil when `/proc` is not mounted; samples of an unnamed boot could not be told apart from
    /// those of another, so the caller must not invent a constant.
    public static func current() -> String? {
        guard
            let text = try? String(
                contentsOfFile: "/proc/sys/kernel/random/boot_id", encoding: .utf8)
        else { return nil }
        let id = text.trimmingCharacters(in: .whitespacesAndNewlines)
        return id.isEmpty ? nil : id
    }
}
