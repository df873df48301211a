import Basics
import GRDB

/// The heart rate of one sensor in a short range of time: one column of a chart.
public struct HeartRateBucket: Sendable, Hashable {
    /// Where the range begins.
    public var begin: UTC { UTC(microseconds: beginMicroseconds) }
    let beginMicroseconds: Int64
    /// Samples with a heart rate above 0.
    public internal(set) var count = 0
    /// Beats a minute: the lowest.
    public internal(set) var lowestBPM: UInt16 = .max
    /// Beats a minute: the highest.
    public internal(set) var highestBPM: UInt16 = 0
    private var sum = 0

    /// Beats a minute: the mean of the samples.
    public var meanBPM: Double { count > 0 ? Double(sum) / Double(count) : 0 }

    init(beginMicroseconds: Int64) { self.beginMicroseconds = beginMicroseconds }

    mutating func add(_ bpm: UInt16) {
        count += 1
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

    /// The heart rate of a sensor from `begin` to `end`, in ranges of `bucket` that
    /// begin at multiples of it; those without samples are left out. Samples that only memory has
    /// are not in it.
    ///
    /// An hour is read at a time, so that samples can be taken over in between.
    ///
    /// - Throws: ``QueueError`` `.invalidArgument` for a span or a bucket that is out of range.
    public func heartRateChart(
        sensor: Int64, from: UTC, until: UTC, bucket: Duration
    ) async throws(QueueError) -> [HeartRateBucket] {
        let (begin, end) = (from.microseconds, until.microseconds)
        let bucket = bucket.microseconds
        guard begin >= 0, end > begin, end <= UTCText.microsecondsMax, bucket > 0,
            end - begin <= Self.chartSpanMax.microseconds,
            (end - begin) / bucket < Int64(Self.bucketsMax)
        else {
            throw QueueError(.invalidArgument, "read chart", "the span is out of range")
        }
        var buckets: [Int64: HeartRateBucket] = [:]
        var next = begin
        while next < end {
            let behind = min(end, next + Self.hourMicroseconds)
            let found = try read("read chart") { [next] db in
                var found: [Int64: HeartRateBucket] = [:]
                try Self.heartRates(db, sensor: sensor, in: next..<behind) { time, bpm in
                    let start = time - time % bucket
                    found[start, default: HeartRateBucket(beginMicroseconds: start)].add(bpm)
                }
                return found
            }
            // A bucket may begin in one hour and end in the next.
            buckets.merge(found) { $0.joined(with: $1) }
            next = behind
            await Task.yield()
        }
        return buckets.values.sorted { $0.beginMicroseconds < $1.beginMicroseconds }
    }

    /// Hours one call covers at most: two days.
    public static let historyHoursMax = 48

    /// The heart rate of a sensor in each hour that has samples, oldest first, of the `hours` (1…48)
    /// that end with the one `end` lies in. Whatever is still there counts, sent or not; what
    /// was pruned does not, so that it reaches as far back as ``QueueSettings/keepDelivered``.
    public func hourlyHeartRate(
        sensor: Int64, until end: UTC, hours: Int = 24
    ) async throws(QueueError) -> [HeartRateBucket] {
        let end = end.microseconds
        guard (0...UTCText.microsecondsMax - Self.hourMicroseconds).contains(end) else {
            throw QueueError(.invalidArgument, "read history", "the time is out of range")
        }
        let hours = Int64(min(max(hours, 1), Self.historyHoursMax))
        let behind = (end / Self.hourMicroseconds + 1) * Self.hourMicroseconds
        return try await heartRateChart(
            sensor: sensor,
            from: UTC(microseconds: max(0, behind - hours * Self.hourMicroseconds)),
            until: UTC(microseconds: behind), bucket: .microseconds(Self.hourMicroseconds))
    }
}

extension HeartRateBucket {
    fileprivate func joined(with other: HeartRateBucket) -> HeartRateBucket {
        var joined = self
        joined.count += other.count
        joined.sum += other.sum
        joined.lowestBPM = min(lowestBPM, other.lowestBPM)
        joined.highestBPM = max(highestBPM, other.highestBPM)
        return joined
    }
}
