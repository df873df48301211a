import Basics

/// The times at which the gateway gives a sign of life, so that somebody notices when it stops. A value without I/O.
public struct LifeSign: Sendable, Equatable {
    /// The address that is called.
    public enum Call: Sendable, Equatable {
        /// The address that says "it lives".
        case alive
        /// The address that says "it does not".
        case failure
    }

    /// The rules need it to judge whether heartbeats flow: a gateway that starts again and again gives no sign.
    static let startWait = Duration.seconds(120)
    /// After a call that failed.
    static let retryWait = Duration.seconds(60)
    /// Calls that fail for so long are a health item.
    static let undeliveredAfter = Duration.seconds(600)

    private let every: Duration
    private let hasFailureAddress: Bool
    private var nextCall: Uptime?
    private var failingSince: Uptime?

    /// A sign each `every`, in a run that begins with the first question.
    public init(every: Duration, hasFailureAddress: Bool) {
        self.every = every
        self.hasFailureAddress = hasFailureAddress
    }

    /// The address to call now, if any. It is followed by ``called(works:at:)``.
    ///
    /// - Parameters:
    ///   - isFlowing: ``HealthRules/heartbeatsFlow(_:)``.
    ///   - now: when it is asked.
    public mutating func next(isFlowing: Bool, at now: Uptime) -> Call? {
        guard let due = nextCall else {
            nextCall = now + Self.startWait
            return nil
        }
        guard now >= due else { return nil }
        nextCall = now + every
        if isFlowing { return .alive }
        if !hasFailureAddress { failingSince = nil }
        return hasFailureAddress ? .failure : nil
    }

    /// The result of a call.
    public mutating func called(works: Bool, at now: Uptime) {
        failingSince = works ? nil : failingSince ?? now
        if !works { nextCall = now + min(every, Self.retryWait) }
    }

    /// How long calls have failed; nil while they do not, or not for long.
    public func undeliveredTime(at now: Uptime) -> Duration? {
        failingSince.flatMap { now - $0 >= Self.undeliveredAfter ? now - $0 : nil }
    }
}
