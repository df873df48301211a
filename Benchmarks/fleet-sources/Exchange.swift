import DequeModule

/// An exchange, as its throughput was measured: servers with two workers that share two cores.
///
/// First come, first served, and a free worker of any server takes the next request. Who waits is in one
/// line: that of the only server, or that of a proxy before several (`deploy/exchange/haproxy.cfg`), which
/// sends those away that waited too long. A server goes on with a request whose client has gone, which
/// nothing tells it. All times in µs.
struct Exchange {
    /// What a gateway asks of it.
    struct Request {
        var number: Int
        var gateway: Int
        /// Data points of the gateway, by number; none when it is only asked how it is.
        var points: Range<Int>
        /// What all of it takes, and those of its data points that bring nothing new, alone; µs.
        var work: Int64 = 0
        var again: Int64 = 0
        /// What is left of the work, in parts of a µs: one for each worker.
        var left: Int64 = 0
        /// When it came.
        var since: Int64 = 0
    }

    /// Each request, whatever is in it; each new data point; each it has already. With these one takes
    /// 20 ms, ten 75, a hundred 0.62 s (160 a second), as measured.
    static let requestMicroseconds: Int64 = 14_000
    static let pointMicroseconds: Int64 = 6_100
    static let duplicateMicroseconds: Int64 = 2_200
    /// So many at a time; two are each half as fast as one. (One client got 125 to 160 data points a
    /// second, four 165.)
    static let workers = 2
    /// Connections that wait to be taken (gunicorn's `backlog`); others find no exchange.
    static let lineMax = 2048

    /// So long a request waits at a proxy (`timeout queue`).
    static let proxyMicroseconds: Int64 = 25_000_000

    private let hasProxy: Bool
    private var line = Deque<Request>()
    /// What each server works on.
    private var servers: [[Request]]
    private var now: Int64 = 0
    /// Of each gateway it has the first so many data points.
    private var stored: [Int]
    /// Times at which two requests of one gateway were worked on at once: what makes duplicates.
    private(set) var overlaps = 0

    init(servers: Int, gateways: Int) {
        hasProxy = servers > 1
        self.servers = Array(repeating: [], count: servers)
        stored = Array(repeating: 0, count: gateways)
    }

    /// When the next request is done, or is sent away.
    var nextDone: Int64? {
        let done = servers.compactMap { serving -> Int64? in
            guard let least = serving.map(\.left).min() else { return nil }
            let speed = Self.speed(of: serving)
            return now + (least + speed - 1) / speed
        }
        return (done + [nextSentAway].compactMap { $0 }).min()
    }

    private var nextSentAway: Int64? {
        hasProxy ? line.first.map { $0.since + Self.proxyMicroseconds } : nil
    }

    /// Takes a request; false if the line is full.
    mutating func take(_ request: Request, _ now: Int64) -> Bool {
        advance(to: now)
        guard line.count < Self.lineMax * servers.count else { return false }
        var request = request
        request.since = now
        line.append(request)
        serve()
        return true
    }

    /// Ends the request that is done, or sent away undone, at ``nextDone``, which is now.
    mutating func finish(_ now: Int64) -> (request: Request, isDone: Bool)? {
        advance(to: now)
        if let away = nextSentAway, away <= now, let request = line.popFirst() {
            return (request, false)
        }
        // Of each server the request that is done soonest.
        let places = servers.indices.compactMap { server in
            servers[server].indices.min { servers[server][$0].left < servers[server][$1].left }
                .map { (server, $0) }
        }
        func time(_ place: (Int, Int)) -> Int64 {
            servers[place.0][place.1].left / Self.speed(of: servers[place.0])
        }
        guard let (server, place) = places.min(by: { time($0) < time($1) }) else { return nil }
        let request = servers[server].remove(at: place)
        stored[request.gateway] = max(stored[request.gateway], request.points.upperBound)
        serve()
        return (request, true)
    }

    private static func speed(of serving: [Request]) -> Int64 { Int64(workers / serving.count) }

    private mutating func advance(to now: Int64) {
        for server in servers.indices where !servers[server].isEmpty {
            let done = (now - self.now) * Self.speed(of: servers[server])
            for place in servers[server].indices { servers[server][place].left -= done }
        }
        self.now = now
    }

    private mutating func serve() {
        while let server = servers.indices.min(by: { servers[$0].count < servers[$1].count }),
            servers[server].count < Self.workers, var request = line.popFirst()
        {
            if servers.joined().contains(where: { $0.gateway == request.gateway }) { overlaps += 1 }
            let points = request.points
            let known = min(max(stored[request.gateway] - points.lowerBound, 0), points.count)
            request.again = Int64(known) * Self.duplicateMicroseconds
            request.work =
                Self.requestMicroseconds + request.again
                + Int64(points.count - known) * Self.pointMicroseconds
            request.left = request.work * Int64(Self.workers)
            servers[server].append(request)
        }
    }
}
