import Basics

/// Decides when buffered samples are written: many in one transaction, because a commit costs the
/// card several kilobytes whatever it holds.
///
/// A value without a clock: every call brings the uptime.
struct GroupCommit: Sendable, Hashable {
    /// Samples that make a commit due at once. 50 is 5 s of ten straps: more would save little.
    static let samplesMaxDefault = 50
    /// Age of the oldest buffered sample that makes a commit due: what a power cut may cost.
    static let ageMaxDefault = Duration.seconds(5)
    /// Pause after a failed commit: long enough not to torture a full or failing disk.
    static let retryPause = Duration.seconds(5)

    private let samplesMax: Int
    private let ageMax: Duration
    private var count = 0
    private var oldestUptime: Uptime?
    private var retryUptime: Uptime?

    /// A group that is due at `samplesMax` samples or at `ageMax`, whichever is first.
    init(samplesMax: Int = samplesMaxDefault, ageMax: Duration = ageMaxDefault) {
        self.samplesMax = max(1, samplesMax)
        self.ageMax = max(.zero, ageMax)
    }

    /// One more sample waits, which arrived at `uptime`.
    mutating func add(uptime: Uptime) {
        count += 1
        if oldestUptime == nil { oldestUptime = uptime }
    }

    /// A commit succeeded; `count` samples, the oldest of `oldestUptime`, still wait.
    mutating func committed(remaining count: Int = 0, oldestUptime: Uptime? = nil) {
        self.count = count
        self.oldestUptime = count > 0 ? oldestUptime : nil
        retryUptime = nil
    }

    /// A commit failed at `uptime`; everything still waits.
    mutating func failed(uptime: Uptime) {
        retryUptime = uptime + Self.retryPause
    }

    /// The uptime at which a commit becomes due by age, or nil while nothing waits.
    var deadline: Uptime? {
        guard count > 0, let oldestUptime else { return nil }
        if let retryUptime { return retryUptime }
        return oldestUptime + ageMax
    }

    /// Whether a commit is due at `uptime`.
    func isDue(uptime: Uptime) -> Bool {
        guard let deadline else { return false }
        return uptime >= deadline || (retryUptime == nil && count >= samplesMax)
    }
}
