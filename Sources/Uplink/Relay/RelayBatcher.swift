import Basics

/// Decides which requests of gateways go to the exchange together, and which are turned away.
///
/// A value without I/O: it is told what comes and what is over, and says what is to be sent.
struct RelayBatcher: Sendable {
    /// One request that waits, or is under way.
    struct Job: Sendable, Hashable {
        /// Its number at this relay.
        var id: Int
        /// The gateway it is of.
        var gateway: String
        /// Its data points.
        var points: Int
        /// Whether the request is sent in a bundle of its own.
        var isAlone: Bool
        /// The time at which the request came.
        var received: Uptime
        /// The latest time at which it may begin at the exchange.
        var latest: Uptime
    }

    /// The outcome of a request that comes.
    enum Admission: Sendable, Hashable {
        /// It waits for a worker.
        case waits
        /// There is more work than its gateway has patience for.
        case busy(retryAfter: Duration)
    }

    /// The actions.
    enum Step: Sendable, Hashable {
        /// A worker sends these in one bundle.
        case send([Job])
        /// Nothing, before this time or the next event.
        case wait(until: Uptime?)
    }

    /// Requests to the exchange at a time.
    let workers: Int
    /// Most data points in a bundle.
    static let bundleMax = RelayRequest.pointsMax
    /// How long a bundle that is not full waits for more. Gateways send every 5 s at most, so a tenth of that
    /// costs a reader little, and fills the bundles of a ward.
    static let gather = Duration.milliseconds(500)
    /// The time of a bundle before any was seen (docs/develop/exchange.md: 0.6 to 0.8 s for a hundred entries).
    static let bundleTimeFirst = Duration.seconds(1)
    /// The weight of the newest bundle in the average is one of so many.
    private static let averageOf = 8
    /// A gateway that is turned away comes again after so long, at least and at most.
    static let retryRange = Duration.seconds(1)...Duration.seconds(30)

    /// Requests of one gateway that may wait. A gateway has one a delivery; more would take others' time.
    static let perGatewayMax = 4

    private var waiting: [Job] = []
    private var underWay: [Job] = []
    private var idle: Int
    /// How long a bundle takes, as lately seen.
    private(set) var bundleTime = Self.bundleTimeFirst

    init(workers: Int) {
        self.workers = max(1, workers)
        idle = self.workers
    }

    /// Requests that wait.
    var waitingCount: Int { waiting.count }
    /// Workers that send.
    var busyCount: Int { workers - idle }

    /// Takes a request, or turns it away.
    mutating func admit(_ job: Job, _ now: Uptime) -> Admission {
        guard waiting.count(where: { $0.gateway == job.gateway }) < Self.perGatewayMax else {
            return .busy(retryAfter: Self.retryRange.lowerBound)
        }
        let wait = expectedWait(of: job.points)
        guard now + wait <= job.latest else {
            let excess = now + wait - job.latest
            return .busy(
                retryAfter: min(max(excess, Self.retryRange.lowerBound), Self.retryRange.upperBound)
            )
        }
        waiting.append(job)
        return .waits
    }

    /// How long a request would wait that comes now.
    private func expectedWait(of points: Int) -> Duration {
        let ahead = waiting.reduce(0) { $0 + $1.points }
        let bundles = ahead / Self.bundleMax + busyCount
        guard bundles >= workers else { return .zero }
        return bundleTime * (bundles - workers + 1) / workers
    }

    /// Takes out the requests that are too old to be sent.
    mutating func expired(_ now: Uptime) -> [Job] {
        let old = waiting.filter { $0.latest < now }
        if !old.isEmpty { waiting.removeAll { $0.latest < now } }
        return old
    }

    /// The work for a worker. Of a gateway one request is under way at a time: its next one may hold the same
    /// samples.
    mutating func next(_ now: Uptime) -> Step {
        guard idle > 0 else { return .wait(until: waiting.map(\.latest).min()) }
        let held = Set(underWay.map(\.gateway))
        guard let first = waiting.first(where: { !held.contains($0.gateway) }) else {
            return .wait(until: waiting.map(\.latest).min())
        }
        var bundle = [first]
        var isFull = first.isAlone
        if !first.isAlone {
            var points = first.points
            var gateways = held.union([first.gateway])
            for job in waiting where job.id != first.id && !job.isAlone {
                guard !gateways.contains(job.gateway) else { continue }
                guard points + job.points <= Self.bundleMax else {
                    isFull = true
                    continue
                }
                points += job.points
                gateways.insert(job.gateway)
                bundle.append(job)
            }
            isFull = isFull || points >= Self.bundleMax
        }
        let due = first.received + Self.gather
        guard isFull || due <= now else { return .wait(until: due) }
        let ids = Set(bundle.map(\.id))
        waiting.removeAll { ids.contains($0.id) }
        underWay += bundle
        idle -= 1
        return .send(bundle)
    }

    /// A worker has answered all of a bundle.
    ///
    /// - Parameter took: of one request to the exchange; nil if none was made.
    mutating func finished(_ bundle: [Job], took: Duration?) {
        let ids = Set(bundle.map(\.id))
        underWay.removeAll { ids.contains($0.id) }
        idle = min(idle + 1, workers)
        if let took {
            bundleTime = (bundleTime * (Self.averageOf - 1) + took) / Self.averageOf
        }
    }

    /// Takes out all that wait: the relay ends.
    mutating func drain() -> [Job] {
        defer { waiting = [] }
        return waiting
    }
}
