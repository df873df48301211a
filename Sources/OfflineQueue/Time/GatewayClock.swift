import Basics
import CGlibc
import Foundation

/// The reading of the clocks at one instant.
public struct ClockReading: Sendable, Hashable {
    /// The time since boot.
    public var uptime: Uptime
    /// The wall clock, right or wrong.
    public var wall: UTC
    /// Whether the wall clock is trusted.
    public var isTrusted: Bool
    /// How far it may be wrong by the kernel's estimate; nil if that says nothing.
    public var error: Duration?

    /// A reading made of its parts.
    public init(uptime: Uptime, wall: UTC, isTrusted: Bool, error: Duration? = nil) {
        self.uptime = uptime
        self.wall = wall
        self.isTrusted = isTrusted
        self.error = error
    }

    /// The reading of the clocks at another uptime of this boot.
    public func at(_ uptime: Uptime) -> ClockReading {
        ClockReading(
            uptime: uptime, wall: wall - (self.uptime - uptime), isTrusted: isTrusted, error: error)
    }

    /// The wall clock if it is trusted.
    public var trustedWall: UTC? { isTrusted ? wall : nil }
}

extension ClockReading: Codable {}

/// A source of clock readings; the tests' one is simulated.
public protocol GatewayClock: Sendable {
    /// The time since boot, and the waits of whoever has this clock.
    var uptime: UptimeClock { get }

    /// The times that it believes; whoever states a time is held to the same ones.
    var credible: Range<UTC> { get }

    /// For how long the machine has been suspended since it started.
    var suspended: Duration { get }

    /// Both clocks and whether to believe the wall clock, now.
    func read() -> ClockReading
}

extension GatewayClock {
    /// The machine's own.
    public var uptime: UptimeClock { .system }

    /// None: a simulated machine is not suspended.
    public var suspended: Duration { .zero }

    /// From the building of this program to the end of ``ClockTrust/latestYear``.
    public var credible: Range<UTC> { ClockTrust.credible(latestYear: ClockTrust.latestYear) }

    /// Why a reading is not trusted; nil if it is.
    public func doubt(_ reading: ClockReading) -> ClockDoubt? {
        if reading.isTrusted { return nil }
        if reading.wall < credible.lowerBound { return .early(reading.wall) }
        if reading.wall >= credible.upperBound {
            return .late(
                reading.wall,
                latestYear:
                    Int(CivilDate(daysSince1970: (credible.upperBound - .microseconds(1)).day).year)
            )
        }
        return .unsynchronised
    }

    /// Sleeps; returns early when the task is cancelled.
    ///
    /// - Parameters:
    ///   - duration: how long it sleeps.
    ///   - tolerance: how much later it may end; without it an eighth of a wait of more than two seconds.
    public func sleep(_ duration: Duration, tolerance: Duration? = nil) async {
        await uptime.sleep(duration, tolerance: tolerance)
    }
}

/// Why a wall clock is not trusted.
public enum ClockDoubt: Sendable, Hashable {
    /// It is credible, and nothing disciplines it.
    case unsynchronised
    /// It says a time before this program was built.
    case early(UTC)
    /// It says a time after the last year in which a clock is credible.
    case late(UTC, latestYear: Int)
}

/// When the wall clock counts.
public enum ClockTrust: String, Sendable, Hashable, CaseIterable {
    /// While the kernel says it is synchronised (`KernelTime`) and it is credible.
    case kernel
    /// While it is credible, which is from ``earliestCredible`` to the end of a year that a person may
    /// set: for machines without NTP.
    case always

    /// 2026-11-01T00:00:00Z, before which this program was not built: an earlier wall clock is the
    /// default of a machine without a battery clock.
    public static let earliestCredible = UTC(microseconds: 1_793_491_200_000_000)

    /// 2010-01-01T00:00:00Z: there was no Bluetooth Low Energy, and so no sensor like these, before.
    static let earliestMeasurable = UTC(microseconds: 1_262_304_000_000_000)

    /// How far a clock may be wrong that the kernel calls synchronised: 16 s.
    public static let errorMax = Duration.microseconds(KernelTime.errorMax)

    /// Five years after this program was built; the default of the last year in which a clock is credible. What a
    /// broken clock dates to 2038 or 2100 would stay at an exchange for good.
    public static let latestYear = 2031

    /// The times in which a clock is credible.
    static func credible(latestYear: Int) -> Range<UTC> {
        earliestCredible..<max(earliestCredible, end(ofYear: latestYear))
    }

    /// The first instant after a year.
    static func end(ofYear year: Int) -> UTC {
        UTC(
            microseconds: CivilDate(year: Int64(year) + 1, month: 1, day: 1).daysSince1970
                * 86_400_000_000)
    }
}

/// The machine's own clocks.
public struct SystemClock: GatewayClock {
    private let trust: ClockTrust
    public let credible: Range<UTC>
    public let uptime: UptimeClock

    /// A clock that believes the wall clock as `trust` says, until the end of a year, and sleeps by `uptime`.
    public init(
        trust: ClockTrust = .kernel, latestYear: Int = ClockTrust.latestYear,
        uptime: UptimeClock = .system
    ) {
        self.trust = trust
        credible = ClockTrust.credible(latestYear: latestYear)
        self.uptime = uptime
    }

    public var suspended: Duration { Uptime.suspended() }

    /// Reads `CLOCK_BOOTTIME`, `CLOCK_REALTIME` and the kernel's synchronisation state.
    public func read() -> ClockReading {
        Self.read(
            trust, in: credible, uptime: { Uptime.now() }, wall: { UTC.now() },
            error: { KernelTime.error })
    }

    /// The longest that two clocks may be read after one another and still be of one instant; a
    /// process that was interrupted between them would give a whole boot an offset that is wrong.
    private static let instant = Duration.milliseconds(1)
    /// How often that is tried: a machine is not interrupted so often in a row.
    private static let readingsMax = 4

    /// Both clocks at one instant, and whether the wall clock was trusted before it and after: one
    /// that is just being set is not.
    ///
    /// - Parameter error: the kernel's, while its clock is synchronised.
    static func read(
        _ trust: ClockTrust,
        in credible: Range<UTC> = ClockTrust.credible(latestYear: ClockTrust.latestYear),
        uptime: () -> Uptime, wall: () -> UTC, error: () -> Duration?
    ) -> ClockReading {
        let wasTrusted = trust == .always || error() != nil
        var uptimeRead = uptime()
        var wallRead = wall()
        for _ in 1..<readingsMax {
            let after = uptime()
            if after - uptimeRead <= instant { break }
            uptimeRead = after
            wallRead = wall()
        }
        let error = error()
        let isStillTrusted = wasTrusted && (trust == .always || error != nil)
        return ClockReading(
            uptime: uptimeRead, wall: wallRead,
            isTrusted: isStillTrusted && credible.contains(wallRead), error: error)
    }
}

/// The kernel's own word on whether something disciplines its clock.
enum KernelTime {
    /// The largest error of a synchronised clock, µs: systemd's rule, and so that of timedatectl(1). The kernel sets
    /// the error to this value when the clock is set by hand, and some nine hours after the last correction. Its flag
    /// `STA_UNSYNC` says less: chrony leaves it set where it is not to write the hardware clock.
    static let errorMax = 16_000_000

    /// How far its clock may be wrong; nil while nothing disciplines it.
    ///
    /// adjtimex(2) with no modes set only reads, and needs no privilege.
    static var error: Duration? {
        var values = timex()
        return adjtimex(&values) >= 0 ? error(maxError: values.maxerror) : nil
    }

    static func error(maxError: Int) -> Duration? {
        maxError < errorMax ? .microseconds(max(0, maxError)) : nil
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
