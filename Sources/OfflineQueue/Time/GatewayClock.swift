import Basics
import CGlibc
import Foundation

/// What the clocks said at one instant.
public struct ClockReading: Sendable, Hashable {
    /// The time since boot.
    public var uptime: Uptime
    /// The wall clock, right or wrong.
    public var wall: UTC
    /// Whether the wall clock is trusted.
    public var isTrusted: Bool

    /// A reading made of its parts.
    public init(uptime: Uptime, wall: UTC, isTrusted: Bool) {
        self.uptime = uptime
        self.wall = wall
        self.isTrusted = isTrusted
    }

    /// What the clocks would have said at another uptime of this boot.
    public func at(_ uptime: Uptime) -> ClockReading {
        ClockReading(uptime: uptime, wall: wall - (self.uptime - uptime), isTrusted: isTrusted)
    }

    /// The wall clock if it is trusted.
    public var trustedWall: UTC? { isTrusted ? wall : nil }
}

extension ClockReading: Codable {}

/// A source of clock readings; the tests' one is simulated.
public protocol GatewayClock: Sendable {
    /// The time since boot, and the waits of whoever has this clock.
    var uptime: UptimeClock { get }

    /// Both clocks and whether to believe the wall clock, now.
    func read() -> ClockReading
}

extension GatewayClock {
    /// The machine's own.
    public var uptime: UptimeClock { .system }

    /// Sleeps; returns early when the task is cancelled.
    ///
    /// - Parameter tolerance: how much later it may end; without it an eighth of a wait of more than two seconds.
    public func sleep(_ duration: Duration, tolerance: Duration? = nil) async {
        await uptime.sleep(duration, tolerance: tolerance)
    }
}

/// When a sample can have been measured.
enum PlausibleTime {
    /// 2010-01-01T00:00:00Z: there was no Bluetooth Low Energy, and so no sensor like these, before.
    static let earliest = UTC(microseconds: 1_262_304_000_000_000)
    /// How far behind this machine's clock another one's may be: a day.
    private static let ahead = Duration.seconds(86_400)

    /// The times that a file or a person may give to a sample: up to a day after now.
    static func range(at reading: ClockReading) -> ClosedRange<UTC> {
        let latest =
            reading.trustedWall.map { $0 + ahead } ?? ClockTrust.end(ofYear: ClockTrust.latestYear)
        return earliest...max(latest, earliest)
    }
}

/// When the wall clock counts.
public enum ClockTrust: String, Sendable, Hashable, CaseIterable {
    /// While the kernel says it is synchronised (``KernelTime``) and it is credible.
    case kernel
    /// While it is credible, which is from ``earliestCredible`` to the end of a year that a person may
    /// set: for machines without NTP.
    case always

    /// 2026-11-01T00:00:00Z, before which this program was not built: an earlier wall clock is the
    /// default of a machine without a battery clock.
    public static let earliestCredible = UTC(microseconds: 1_793_491_200_000_000)

    /// Five years after this program was built; the default of the last year in which a clock is credible. What a
    /// broken clock dates to 2038 or 2100 would stay at an exchange for good.
    public static let latestYear = 2031

    /// The first instant after a year.
    public static func end(ofYear year: Int) -> UTC {
        UTC(
            microseconds: CivilDate(year: Int64(year) + 1, month: 1, day: 1).daysSince1970
                * 86_400_000_000)
    }
}

/// The machine's own clocks.
public struct SystemClock: GatewayClock {
    private let trust: ClockTrust
    private let end: UTC
    public let uptime: UptimeClock

    /// A clock that believes the wall clock as `trust` says, until the end of a year, and sleeps by `uptime`.
    public init(
        trust: ClockTrust = .kernel, latestYear: Int = ClockTrust.latestYear,
        uptime: UptimeClock = .system
    ) {
        self.trust = trust
        end = ClockTrust.end(ofYear: latestYear)
        self.uptime = uptime
    }

    /// Reads `CLOCK_BOOTTIME`, `CLOCK_REALTIME` and the kernel's synchronisation state.
    public func read() -> ClockReading {
        Self.read(
            trust, before: end, uptime: { Uptime.now() }, wall: { UTC.now() },
            isSynchronised: { KernelTime.isSynchronised })
    }

    /// The longest that two clocks may be read after one another and still be of one instant; a
    /// process that was interrupted between them would give a whole boot an offset that is wrong.
    private static let instant = Duration.milliseconds(1)
    /// How often that is tried: a machine is not interrupted so often in a row.
    private static let readingsMax = 4

    /// Both clocks at one instant, and whether the wall clock was trusted before it and after: one
    /// that is just being set is not.
    static func read(
        _ trust: ClockTrust, before end: UTC = ClockTrust.end(ofYear: ClockTrust.latestYear),
        uptime: () -> Uptime, wall: () -> UTC, isSynchronised: () -> Bool
    ) -> ClockReading {
        let wasTrusted = trust == .always || isSynchronised()
        var uptimeRead = uptime()
        var wallRead = wall()
        for _ in 1..<readingsMax {
            let after = uptime()
            if after - uptimeRead <= instant { break }
            uptimeRead = after
            wallRead = wall()
        }
        let isStillTrusted = wasTrusted && (trust == .always || isSynchronised())
        return ClockReading(
            uptime: uptimeRead, wall: wallRead,
            isTrusted: isStillTrusted && wallRead >= ClockTrust.earliestCredible && wallRead < end)
    }
}

/// The kernel's own word on whether something disciplines its clock.
enum KernelTime {
    /// The largest error of a synchronised clock, µs: systemd's rule, and so that of timedatectl(1). The kernel sets
    /// the error to this value when the clock is set by hand, and some nine hours after the last correction. Its flag
    /// `STA_UNSYNC` says less: chrony leaves it set where it is not to write the hardware clock.
    static let errorMax = 16_000_000

    /// adjtimex(2) with no modes set only reads, and needs no privilege.
    static var isSynchronised: Bool {
        var values = timex()
        return adjtimex(&values) >= 0 && isSynchronised(maxError: values.maxerror)
    }

    static func isSynchronised(maxError: Int) -> Bool { maxError < errorMax }
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
