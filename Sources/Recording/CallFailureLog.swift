import Basics
import BlueZ

/// Which failed calls have been logged lately, so that each kind is logged once an hour. A value.
struct CallFailureLog: Sendable {
    static let pause = Duration.seconds(3_600)
    /// Texts come from outside: no more kinds than this in an hour.
    static let kindsMax = 64

    private var loggedAt: [CallFailure: Uptime] = [:]

    /// Whether this one is to be logged now.
    mutating func admits(_ failure: CallFailure, at now: Uptime) -> Bool {
        loggedAt = loggedAt.filter { $0.value + Self.pause > now }
        guard loggedAt[failure] == nil, loggedAt.count < Self.kindsMax else { return false }
        loggedAt[failure] = now
        return true
    }
}
