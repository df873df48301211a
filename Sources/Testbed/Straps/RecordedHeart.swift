import Foundation

/// A series of RR intervals: the times between the beats of one heart.
///
/// The two that come with the package were recorded from people (see `NOTICE`); a test that needs
/// a rate that none of them had at rest builds its own.
public struct RecordedHeart: Sendable, Hashable {
    /// Why a series was refused.
    public enum Fault: Error, Sendable, Hashable {
        /// No such series among the resources.
        case unknown(String)
        /// The series has no interval at all.
        case empty
        /// A line that is not a whole number of milliseconds within `plausibleMilliseconds`.
        case badInterval(line: Int)
        /// More than `intervalCountMax` intervals.
        case tooLong
    }

    /// The range of a human heart: 300 beats a minute at one end, a pause of 3 s at the other.
    public static let plausibleMilliseconds = 200...3000

    /// A day and a half at 60 beats a minute; a longer file is a mistake.
    public static let intervalCountMax = 131_072

    /// The intervals in milliseconds, oldest first; never empty.
    public let intervals: [Int]

    /// Takes a series over.
    ///
    /// - Parameter intervals: RR intervals in milliseconds, oldest first.
    /// - Throws: `Fault`, when it is empty, too long or not a heart's.
    public init(intervals: [Int]) throws(Fault) {
        guard !intervals.isEmpty else { throw .empty }
        guard intervals.count <= Self.intervalCountMax else { throw .tooLong }
        for (index, interval) in intervals.enumerated()
        where !Self.plausibleMilliseconds.contains(interval) {
            throw .badInterval(line: index + 1)
        }
        self.intervals = intervals
    }

    /// Reads a series from text: one interval in milliseconds a line, `#` starts a comment line.
    ///
    /// - Throws: `Fault`; the line numbers count from 1 and include the comments.
    public init(text: String) throws(Fault) {
        var intervals: [Int] = []
        for (index, line) in text.split(separator: "\n", omittingEmptySubsequences: false)
            .enumerated()
        {
            if line.isEmpty || line.hasPrefix("#") { continue }
            guard let interval = Int(line), Self.plausibleMilliseconds.contains(interval) else {
                throw .badInterval(line: index + 1)
            }
            guard intervals.count < Self.intervalCountMax else { throw .tooLong }
            intervals.append(interval)
        }
        try self.init(intervals: intervals)
    }

    /// Reads one of the recorded series that come with the package.
    ///
    /// - Parameter name: file name in `Hearts` without its extension.
    public init(named name: String) throws(Fault) {
        guard
            let url = Bundle.module.url(
                forResource: name, withExtension: "txt", subdirectory: "Hearts"),
            let data = try? Data(contentsOf: url),
            let text = String(data: data, encoding: .utf8)
        else { throw .unknown(name) }
        try self.init(text: text)
    }

    /// Five minutes of a person at rest, 337 intervals.
    public static func fiveMinutes() throws(Fault) -> RecordedHeart {
        try RecordedHeart(named: "five-minutes")
    }

    /// One hour of a person, 4,684 intervals.
    public static func oneHour() throws(Fault) -> RecordedHeart {
        try RecordedHeart(named: "one-hour")
    }

    /// A heart that beats like a metronome, for tests.
    public static func steady(milliseconds: Int) throws(Fault) -> RecordedHeart {
        try RecordedHeart(intervals: [milliseconds])
    }

    /// An interval in the unit of the Heart Rate Service (HRS v1.0 §3.1), 1/1024 s, rounded.
    public static func ticks(milliseconds: Int) -> UInt16 {
        UInt16(clamping: (milliseconds * 1024 + 500) / 1000)
    }
}
