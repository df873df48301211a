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
    public let from: UTC?
    /// Where it ends; nil if it goes on, or if the clock of that boot is not trusted.
    public let until: UTC?
    /// The boot it begins in.
    public let fromBootID: String
    /// Where it begins, `CLOCK_BOOTTIME` of that boot.
    let fromUptime: Uptime
    /// The boot it ends in, another one only if the machine was restarted meanwhile; the running
    /// boot if it goes on.
    public let untilBootID: String
    /// Where it ends, `CLOCK_BOOTTIME` of that boot; now if it goes on.
    let untilUptime: Uptime
    /// Whether it goes on.
    public let isOpen: Bool
    /// How long it is, up to now if it goes on; nil for `clock-unknown`.
    public let duration: Duration?
}

/// How much of a day there is data for.
public struct Coverage: Sendable, Hashable {
    /// A UTC day; UTC has no summer time, and CLOCK_REALTIME no leap second.
    public static let day = Duration.seconds(86_400)

    /// Where the UTC day begins that `time` lies in; for a time before 1970, the first of 1970.
    public static func dayStart(of time: UTC) -> UTC { time.start(ofEach: day) }

    /// Where the day begins.
    public let dayStart: UTC
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
        // Both are sums of many spans, which need not round alike.
        expectedSeconds > 0 ? min(100, 100 * coveredSeconds / expectedSeconds) : nil
    }

    /// Adds one assignment's spans, which follow one another without holes, as far as they lie in the day.
    mutating func add(_ spans: [TimeSpan]) {
        let dayEnd = dayStart + Self.day
        var range = 0.0
        for span in spans {
            let from = max(span.from, dayStart)
            let until = min(span.until, dayEnd)
            guard from < until else { continue }
            let seconds = (until - from).inSeconds
            expectedSeconds += seconds
            if let cause = span.cause {
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

/// A range of UTC that samples speak for, or with the cause why they do not.
struct TimeSpan: Sendable, Hashable {
    var from: UTC
    var until: UTC
    var cause: GapCause?
}
