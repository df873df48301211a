import Basics

/// How a delivery goes.
public struct DeliveryFacts: Sendable, Hashable {
    /// Where it stands.
    public var state: Delivery.State
    /// Attempts in a row that delivered nothing; nil while it goes well, or is held.
    public var trouble: Delivery.Trouble?
    /// Why the last attempt delivered nothing, in words without secrets and measurements.
    public var fault: String?
    /// The remedy, for a person, where the kind of destination does not say it.
    public var faultAdvice: String?
    /// The result of the last attempt, in a word: `delivered`, `throttled`, an HTTP status; nil before the
    /// first.
    public var lastAnswer: String?
    /// When the destination last took a data point; nil if it has not since the start.
    public var latestDelivery: Uptime?
    /// How much waited, minute by minute.
    public var backlog: Backlog
    /// The parts that do not work there while samples are delivered, in words.
    public var partialFault: String?
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

/// How many samples of a delivery waited, minute by minute, for an hour.
public struct Backlog: Sendable, Hashable {
    static let step = Duration.seconds(60)
    static let steps = 60

    private var counts: [(at: Uptime, count: Int)] = []

    /// Nothing noted.
    public init() {}

    /// How many waited when it was last noted; nil before.
    public var latest: Int? { counts.last?.count }

    /// How many more wait than an hour before; nil while no hour was seen.
    public var growthInAnHour: Int? {
        guard counts.count > Self.steps, let first = counts.first, let last = counts.last else {
            return nil
        }
        return last.count - first.count
    }

    /// Whether it is time to note how much waits.
    func isDue(_ now: Uptime) -> Bool {
        counts.last.map { now - $0.at >= Self.step } ?? true
    }

    /// So many wait now; nil if that could not be read.
    mutating func note(_ count: Int?, _ now: Uptime) {
        guard let count = count ?? counts.last?.count else { return }
        counts.append((now, count))
        if counts.count > Self.steps + 1 { counts.removeFirst() }
    }

    /// Whether both saw the same.
    public static func == (one: Backlog, other: Backlog) -> Bool {
        one.counts.elementsEqual(other.counts) { $0 == $1 }
    }

    /// Feeds the counts into `hasher`.
    public func hash(into hasher: inout Hasher) {
        for (at, count) in counts {
            hasher.combine(at)
            hasher.combine(count)
        }
    }
}
