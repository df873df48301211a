import Basics

/// Time of one assignment without samples, and the one cause of it.
public struct Gap: Sendable, Hashable {
    /// The assignment whose time line it is on.
    public let assignmentID: Int64
    /// The sensor worn.
    public let sensorID: Int64
    /// Why there is no data.
    public let cause: GapCause
    /// Where it begins; nil if the clock of that boot is not trusted.
    public var from: UTC? { fromMicroseconds.map { UTC(microseconds: $0) } }
    let fromMicroseconds: Int64?
    /// Where it ends; nil if it goes on, or if the clock of that boot is not trusted.
    public var until: UTC? { untilMicroseconds.map { UTC(microseconds: $0) } }
    let untilMicroseconds: Int64?
    /// The boot it begins in.
    public let fromBootID: String
    /// Where it begins, `CLOCK_BOOTTIME` of that boot.
    let fromUptimeMicroseconds: Int64
    /// The boot it ends in, another one only if the machine was restarted meanwhile; the running
    /// boot if it goes on.
    public let untilBootID: String
    /// Where it ends, `CLOCK_BOOTTIME` of that boot; now if it goes on.
    let untilUptimeMicroseconds: Int64
    /// Whether it goes on.
    public let isOpen: Bool
    /// How long it is, up to now if it goes on; nil for `clock-unknown`.
    public var duration: Duration? { durationMicroseconds.map { Duration.microseconds($0) } }
    let durationMicroseconds: Int64?
}

/// How much of a day there is data for.
public struct Coverage: Sendable, Hashable {
    /// A UTC day; UTC has no summer time, and CLOCK_REALTIME no leap second.
    public static let day = Duration.seconds(86_400)
    static let dayMicroseconds = day.microseconds

    /// Where the UTC day begins that `time` lies in; for a time before 1970, the first of 1970.
    public static func dayStart(of time: UTC) -> UTC { time.start(ofEach: day) }

    /// Where the day begins.
    public var dayStart: UTC { UTC(microseconds: dayStartMicroseconds) }
    let dayStartMicroseconds: Int64
    /// Seconds of the day in which a strap was assigned, up to now; several straps add up.
    public internal(set) var expectedSeconds = 0.0
    /// Seconds that samples speak for.
    public internal(set) var coveredSeconds = 0.0
    /// The longest range without data, whatever its causes.
    public internal(set) var longestGapSeconds = 0.0
    /// Seconds without data, by cause; with `coveredSeconds` they add up to `expectedSeconds`.
    public internal(set) var secondsByCause: [GapCause: Double] = [:]

    /// Covered of expected, 0…100; nil where nothing was expected.
    public var percent: Double? {
        // Both are sums of many tiles, which need not round alike.
        expectedSeconds > 0 ? min(100, 100 * coveredSeconds / expectedSeconds) : nil
    }

    init(dayStartMicroseconds: Int64) { self.dayStartMicroseconds = dayStartMicroseconds }

    /// Adds one assignment's tiles, which follow one another without holes, as far as they lie in the day.
    mutating func add(_ tiles: [TimeTile]) {
        let (dayEnd, overflow) =
            dayStartMicroseconds.addingReportingOverflow(Self.dayMicroseconds)
        var range = 0.0
        for tile in tiles {
            let from = max(tile.from, dayStartMicroseconds)
            let until = min(tile.until, overflow ? .max : dayEnd)
            guard from < until else { continue }
            let seconds = (Double(until) - Double(from)) / 1_000_000
            expectedSeconds += seconds
            if let cause = tile.cause {
                secondsByCause[cause, default: 0] += seconds
                range += seconds
                longestGapSeconds = max(longestGapSeconds, range)
            } else {
                coveredSeconds += seconds
                range = 0
            }
        }
    }
}

/// A range of UTC (µs) that samples speak for, or with the cause why they do not.
struct TimeTile: Sendable, Hashable {
    var from: Int64
    var until: Int64
    var cause: GapCause?
}
