import Basics
import OfflineQueue
import Uplink

/// One gateway with one strap at 1 Hz: its samples, counted, and the product's own delivery.
struct Gateway {
    var delivery: Delivery
    /// When its first sample came, µs.
    let start: Int64
    /// Seconds of which a data point is made.
    let resolution: Int64
    /// Data points that are settled.
    private(set) var settled = 0
    /// The number of the first that was fetched.
    private var first = 0
    /// What it waits for.
    var waiting: Waiting?
    /// The exchange had all that was there when the network came back, µs.
    var caughtUp: Int64?

    /// Between two commits of a store (`storage.commit_seconds`), µs.
    private static let commit: Int64 = 5_000_000
    /// Samples of one segment that are read at a time where windows are made of them
    /// (`SampleGroup.samplesMax`).
    private static let samplesRead: Int64 = 2000

    init(_ delivery: Delivery, start: Int64, resolution: Int64) {
        self.delivery = delivery
        self.start = start
        self.resolution = resolution
    }

    /// When its data point of this number was there, µs.
    func made(_ number: Int) -> Int64 { start + Int64(number) * resolution * 1_000_000 }

    /// Data points there are, of samples committed or not.
    func made(by now: Int64) -> Int {
        now < start ? 0 : Int((now - start) / (resolution * 1_000_000)) + 1
    }

    /// Reads the store. A window is whole when a sample of the next one is committed.
    mutating func fetch(_ limit: Int, _ now: Int64) {
        let committed = delivery.isBrisk ? now : now - (now - start) % Self.commit
        let waiting = made(by: resolution > 1 ? committed - 1_000_000 : committed) - settled
        let most = resolution > 1 ? min(limit, Int(Self.samplesRead / resolution)) : limit
        let taken = max(0, min(most, waiting))
        delivery.fetched(
            Array(repeating: nil, count: taken), hasMore: taken == most,
            arrivalsPerSecond: taken > 1 ? 1 / Double(resolution) : nil,
            Uptime(microseconds: now))
        first = settled
    }

    /// The numbers of fetched data points.
    func points(_ indices: [Int]) -> Range<Int> {
        guard let low = indices.first, let high = indices.last else { return first..<first }
        return first + low..<first + high + 1
    }

    /// What it waited for has come at `now`; nil for a request that was not sent at all. Returns how
    /// many data points died of it.
    mutating func take(_ answer: DeliveryAnswer, _ now: Int64) -> Int {
        guard let waiting else { return 0 }
        self.waiting = nil
        var isWell = false
        if case .entries = answer { isWell = true }
        let uptime = Uptime(microseconds: now)
        var resolved: [Delivery.Resolved] = []
        switch waiting.what {
        case .answer:
            resolved = delivery.answered(answer, took: .microseconds(now - waiting.since), uptime)
        case .health: resolved = delivery.checked(isHealthy: isWell, uptime)
        case .mending: delivery.probed(isMended: isWell, uptime)
        }
        settled += resolved.count
        return resolved.count { if case .dead = $0.outcome { true } else { false } }
    }
}

/// What a gateway waits for.
struct Waiting {
    enum What {
        case answer([Int])
        /// How the exchange is; the second is asked of a delivery that is held.
        case health, mending
    }

    var what: What
    /// The request's number.
    var number: Int
    /// When it was sent, µs.
    var since: Int64
}
