import Basics

/// How a delivery goes.
public struct DeliveryFacts: Sendable, Hashable {
    /// Where it stands.
    public var state: Delivery.State
    /// Attempts in a row that delivered nothing; nil while it goes well, once it is held, or with nothing to deliver.
    public var trouble: Delivery.Trouble?
    /// Why the last attempt delivered nothing, in words without secrets and measurements.
    public var fault: String?
    /// The remedy, for a person, where the kind of destination does not say it.
    public var faultAdvice: String?
    /// The parts that do not work there while samples are delivered, in words.
    public var partialFault: String?
    /// From one request to the next, at most, while all goes well.
    public var interval = Duration.zero
    /// The outcome of the data points of each kind since the start.
    public var dataPoints = DataPointBooks()

    /// A fault may pass by itself within this time, or within this many attempts.
    static let passingTime = Duration.seconds(60)
    static let passingAttempts = 1

    /// The fault, if it has lasted: a server that is restarted answers one request badly. Of samples that are held,
    /// what the destination said, if that says more than the reason.
    public func lastingFault(at now: Uptime) -> String? {
        if case .held(let reason, _) = state { return reason == .enrollAgain ? nil : fault }
        guard let trouble,
            trouble.attempts > Self.passingAttempts
                || now - trouble.since >= Self.passingTime
        else { return nil }
        return fault ?? "the destination takes nothing"
    }
}
