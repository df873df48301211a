/// The work of a relay since it started, and its state.
public struct RelayFacts: Sendable, Hashable {
    /// Requests that came.
    public var requests = 0
    /// Data points in them.
    public var points = 0
    /// Requests that could not be read.
    public var malformed = 0
    /// Data points that their gateway may not write.
    public var forbidden = 0
    /// Requests that were turned away because there was too much work.
    public var busy = 0
    /// Requests that were too old when a worker was free, or before they were whole at the exchange.
    public var expired = 0
    /// How often this process or its network stood still, and it connected anew because of that.
    public var stalls = 0
    /// Requests to the exchange.
    public var bundles = 0
    /// Of them, those that were halved.
    public var halved = 0
    /// Data points that the exchange has stored.
    public var stored = 0
    /// Data points that it had already.
    public var storedBefore = 0
    /// Data points that were not taken, for any reason.
    public var notTaken = 0
    /// Requests that wait.
    public var waiting = 0
    /// Workers that send.
    public var busyWorkers = 0
    /// Whether it listens at a NATS server.
    public var isListening = false
    /// Why it does not; nil while it does.
    public var connectionFault: String?
    /// Why the last request to the exchange stored nothing; nil after one that did.
    public var exchangeFault: String?

    /// Nothing done.
    public init() {}

    /// Whether it is well: it listens, and the exchange takes what comes.
    public var isWell: Bool { isListening && exchangeFault == nil }
}
