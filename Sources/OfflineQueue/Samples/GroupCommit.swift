/// Decides when buffered samples are written: many in one transaction, because a commit costs the
/// card several kilobytes whatever it holds.
///
/// A value without a clock: every call brings the uptime (`CLOCK_BOOTTIME`, µs).
struct GroupCommit: Sendable, Hashable {
    /// Samples that make a commit due at once. 50 is 5 s of ten straps: more would save little.
    static let samplesMaxDefault = 50
    /// Age of the oldest buffered sample that makes a commit due: what a power cut may cost.
    static let ageMicrosecondsMaxDefault: Int64 = 5_000_000
    /// Pause after a failed commit: long enough not to torture a full or failing disk.
    static let retryMicroseconds: Int64 = 5_000_000

    private let samplesMax: Int
    private let ageMicrosecondsMax: Int64
    private var count = 0
    private var oldestUptime: Int64?
    private var retryUptime: Int64?

    /// A group that is due at `samplesMax` samples or at `ageMicrosecondsMax`, whichever is first.
    init(
        samplesMax: Int = samplesMaxDefault,
        ageMicrosecondsMax: Int64 = ageMicrosecondsMaxDefault
    ) {
        self.samplesMax = max(1, samplesMax)
        self.ageMicrosecondsMax = max(0, ageMicrosecondsMax)
    }

    /// One more sample waits, which arrived at `uptime`.
    mutating func add(uptime: Int64) {
        count += 1
        if oldestUptime == nil { oldestUptime = uptime }
    }

    /// A commit succeeded; `count` samples, the oldest of `oldestUptime`, still wait.
    mutating func committed(remaining count: Int = 0, oldestUptime: Int64? = nil) {
        self.count = count
        self.oldestUptime = count > 0 ? oldestUptime : nil
        retryUptime = nil
    }

    /// A commit failed at `uptime`; everything still waits.
    mutating func failed(uptime: Int64) {
        retryUptime = uptime.addingReportingOverflow(Self.retryMicroseconds).partialValue
    }

    /// The uptime at which a commit becomes due by age, or nil while nothing waits.
    var deadline: Int64? {
        guard count > 0, let oldestUptime else { return nil }
        if let retryUptime { return retryUptime }
        let (deadline, overflow) = oldestUptime.addingReportingOverflow(ageMicrosecondsMax)
        return overflow ? .max : deadline
    }

    /// Whether a commit is due at `uptime`.
    func isDue(uptime: Int64) -> Bool {
        guard let deadline else { return false }
        return uptime >= deadline || (retryUptime == nil && count >= samplesMax)
    }
}
