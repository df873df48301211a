import Basics

/// How the last commits went.
struct CommitFacts: Sendable {
    /// Why the last one failed; nil if it did not.
    private(set) var fault: QueueError?
    /// Uptime of the first failure since the last success.
    private(set) var failingSince: Uptime?
    /// Uptime of the last that wrote something recorded.
    private(set) var committedUptime: Uptime?
    /// Whether there was no room for all of the last one.
    private(set) var isFull = false

    mutating func failed(_ error: QueueError, uptime: Uptime) {
        fault = error
        failingSince = failingSince ?? uptime
    }

    mutating func worked() {
        fault = nil
        failingSince = nil
    }

    mutating func wroteLedgers(uptime: Uptime) {
        committedUptime = uptime
        worked()
    }

    mutating func stored(isFull: Bool, uptime: Uptime) {
        committedUptime = uptime
        self.isFull = isFull
    }
}
