import Basics
import GRDB

/// The heart rate of one sensor in a short range of time: one column of a chart.
public struct HeartRateBucket: Sendable, Hashable {
    /// Where the range begins.
    public let begin: UTC
    /// Samples with a usable heart rate.
    public internal(set) var count = 0
    /// Beats a minute: the lowest.
    public internal(set) var lowestBPM: UInt16 = .max
    /// Beats a minute: the highest.
    public internal(set) var highestBPM: UInt16 = 0
    /// How far the time of one of them may be wrong, at the most; nil if nobody says.
    public internal(set) var timeUncertainty: Duration?
    private var sum = 0

    /// Beats a minute: the mean of the samples.
    public var meanBPM: Double { count > 0 ? Double(sum) / Double(count) : 0 }

    init(begin: UTC) { self.begin = begin }

    mutating func add(_ bpm: UInt16, _ uncertainty: Duration?) {
        count += 1
        timeUncertainty = [timeUncertainty, uncertainty].compactMap { $0 }.max()
        sum += Int(bpm)
        lowestBPM = min(lowestBPM, bpm)
        highestBPM = max(highestBPM, bpm)
    }
}

extension SampleQueue {
    /// Buckets one call returns at most: more than a screen has columns for.
    public static let bucketsMax = 2_000
    /// One call spans this at most: samples are kept for a day by default.
    public static let chartSpanMax = Duration.seconds(2 * 86_400)

    /// The heart rate of a sensor, or of one of its assignments, from `begin` to `end`, in ranges of
    /// `bucket` that begin at multiples of it; those without samples are left out. Samples that only
    /// memory has are not in it.
    ///
    /// An hour is read at a time, so that samples can be taken over in between. With `needsContact`, rates without skin
    /// contact are left out.
    ///
    /// - Throws: ``QueueError`` `.invalidArgument` for a span or a bucket that is out of range.
    public func heartRateChart(
        sensor: Int64, assignment: Int64? = nil, from: UTC, until: UTC, bucket: Duration,
        needsContact: Bool
    ) async throws(QueueError) -> [HeartRateBucket] {
        // The buckets are counted in whole microseconds, of which one has none if it is shorter.
        guard from >= .epoch, until > from, until <= UTCText.latest, bucket.microseconds > 0,
            until - from <= Self.chartSpanMax,
            (until - from).microseconds / bucket.microseconds < Int64(Self.bucketsMax)
        else {
            throw QueueError(.invalidArgument, "read chart", "the span is out of range")
        }
        var buckets: [UTC: HeartRateBucket] = [:]
        var next = from
        while next < until {
            let behind = min(until, next + Self.hour)
            let found = try read("read chart") { [next] db in
                var found: [UTC: HeartRateBucket] = [:]
                try Self.heartRates(
                    db, sensor: sensor, assignment: assignment, in: next..<behind,
                    lacking: .withoutRate(needsContact: needsContact)
                ) { time, bpm, error in
                    let start = time.start(ofEach: bucket)
                    found[start, default: HeartRateBucket(begin: start)].add(bpm, error)
                }
                return found
            }
            // A bucket may begin in one hour and end in the next.
            buckets.merge(found) { $0.joined(with: $1) }
            next = behind
            await Task.yield()
        }
        return buckets.values.sorted { $0.begin < $1.begin }
    }

    /// Hours one call covers at most: two days.
    public static let historyHoursMax = 48

    /// The heart rate of a sensor in each hour that has samples, oldest first, of the `hours` (1…48)
    /// that end with the one `end` lies in. Whatever is still there counts, sent or not; what
    /// was pruned does not, so that it reaches as far back as ``QueueSettings/keepDelivered``.
    public func hourlyHeartRate(
        sensor: Int64, until end: UTC, hours: Int = 24, needsContact: Bool
    ) async throws(QueueError) -> [HeartRateBucket] {
        guard (.epoch...UTCText.latest - Self.hour).contains(end) else {
            throw QueueError(.invalidArgument, "read history", "the time is out of range")
        }
        let hours = min(max(hours, 1), Self.historyHoursMax)
        let behind = end.start(ofEach: Self.hour) + Self.hour
        return try await heartRateChart(
            sensor: sensor, from: max(.epoch, behind - Self.hour * hours), until: behind,
            bucket: Self.hour, needsContact: needsContact)
    }
}

extension HeartRateBucket {
    fileprivate func joined(with other: HeartRateBucket) -> HeartRateBucket {
        var joined = self
        joined.count += other.count
        joined.sum += other.sum
        joined.timeUncertainty = [timeUncertainty, other.timeUncertainty].compactMap { $0 }.max()
        joined.lowestBPM = min(lowestBPM, other.lowestBPM)
        joined.highestBPM = max(highestBPM, other.highestBPM)
        return joined
    }
}
