/// How the last commits went.
struct CommitFacts: Sendable {
    /// Why the last one failed; nil if it did not.
    private(set) var fault: QueueError?
    /// Uptime of the first failure since the last success, µs.
    private(set) var failingSince: Int64?
    /// Uptime of the last that wrote something recorded, µs.
    private(set) var committedUptime: Int64?
    /// By assignment, the uptime of the newest frame that is stored, µs.
    private(set) var storedUptimes: [Int64: Int64] = [:]
    /// Whether there was no room for all of the last one.
    private(set) var isFull = false

    mutating func failed(_ error: QueueError, uptime: Int64) {
        fault = error
        failingSince = failingSince ?? uptime
    }

    mutating func worked() {
        fault = nil
        failingSince = nil
    }

    mutating func wroteLedgers(uptime: Int64) {
        committedUptime = uptime
        worked()
    }

    mutating func stored(_ arrivals: ArraySlice<Arrival>, isFull: Bool, uptime: Int64) {
        committedUptime = uptime
        self.isFull = isFull
        for arrival in arrivals {
            storedUptimes[arrival.assignmentID] = arrival.uptimeMicroseconds
        }
    }
}
