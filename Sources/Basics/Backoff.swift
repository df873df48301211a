/// Pauses between attempts that fail: the first one, then twice as long with each further failure, up to the
/// longest one.
public struct Backoff: Sendable, Hashable {
    /// The pause after one failure, and the longest pause.
    public let first, longest: Duration
    /// Failures in a row, 32 at most: further ones no longer change the pause.
    public private(set) var failures = 0

    /// No failure yet. Negative durations count as zero.
    public init(first: Duration, longest: Duration) {
        self.first = max(first, .zero)
        self.longest = max(longest, .zero)
    }

    /// The pause after that many failures in a row; fewer than one count as one.
    public func pause(after failures: Int) -> Duration {
        let (pause, isTooLong) = first.microseconds.multipliedReportingOverflow(
            by: 1 << (min(max(failures, 1), 32) - 1))
        return isTooLong ? longest : min(.microseconds(pause), longest)
    }

    /// Counts a failure and returns the pause after it.
    public mutating func next() -> Duration {
        failures = min(failures + 1, 32)
        return pause(after: failures)
    }

    /// Counts a failure and draws the pause after it: whole microseconds from zero to what ``next()`` returns
    /// (full jitter), so that those that failed together do not try again together.
    public mutating func next(using random: inout some RandomNumberGenerator) -> Duration {
        let bound = next().microseconds
        return .microseconds(Int64(random.next() % (UInt64(bound) + 1)))
    }

    /// An attempt succeeded: the next pause is the first one.
    public mutating func reset() { failures = 0 }
}
