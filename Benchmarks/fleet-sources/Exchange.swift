import DequeModule

/// One exchange, as its throughput was measured: a line in front of two workers that share two cores.
///
/// First come, first served. It goes on with a request whose client has given up, which nothing tells
/// it. All times in µs.
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

    private var line = Deque<Request>()
    private var serving: [Request] = []
    private var now: Int64 = 0
    /// Of each gateway it has the first so many data points.
    private var stored: [Int]
    /// Times at which two requests of one gateway were worked on at once: what makes duplicates.
    private(set) var overlaps = 0

    init(gateways: Int) { stored = Array(repeating: 0, count: gateways) }

    /// When the next request is done.
    var nextDone: Int64? {
        guard let least = serving.map(\.left).min() else { return nil }
        return now + (least + speed - 1) / speed
    }

    /// Takes a request; false if the line is full.
    mutating func take(_ request: Request, _ now: Int64) -> Bool {
        advance(to: now)
        guard line.count < Self.lineMax else { return false }
        line.append(request)
        serve()
        return true
    }

    /// Ends the request that is done at ``nextDone``, which is now.
    mutating func finish(_ now: Int64) -> Request? {
        advance(to: now)
        guard let place = serving.indices.min(by: { serving[$0].left < serving[$1].left }) else {
            return nil
        }
        let request = serving.remove(at: place)
        stored[request.gateway] = max(stored[request.gateway], request.points.upperBound)
        serve()
        return request
    }

    private var speed: Int64 { Int64(Self.workers / serving.count) }

    private mutating func advance(to now: Int64) {
        if !serving.isEmpty {
            let done = (now - self.now) * speed
            for place in serving.indices { serving[place].left -= done }
        }
        self.now = now
    }

    private mutating func serve() {
        while serving.count < Self.workers, var request = line.popFirst() {
            if serving.contains(where: { $0.gateway == request.gateway }) { overlaps += 1 }
            let points = request.points
            let known = min(max(stored[request.gateway] - points.lowerBound, 0), points.count)
            request.again = Int64(known) * Self.duplicateMicroseconds
            request.work =
                Self.requestMicroseconds + request.again
                + Int64(points.count - known) * Self.pointMicroseconds
            request.left = request.work * Int64(Self.workers)
            serving.append(request)
        }
    }
}
