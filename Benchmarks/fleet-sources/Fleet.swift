import Basics
import HeapModule
import OfflineQueue
import Uplink
import Testbed

/// Gateways with the product's own deliveries, and an exchange of one server or several; time is only
/// counted.
struct Fleet {
    /// What is varied.
    struct Scenario {
        var gateways = 1000
        /// The exchange's.
        var servers = 1
        /// Seconds of which a strap's data point is made.
        var resolution: Int64 = 1
        var settings = DeliverySettings()
        /// They were all switched on within this, µs.
        var startsWithin: Int64 = 60_000_000
        /// They choose their pauses by chance.
        var isJittered = true
        /// The network is away for all of them, µs.
        var outage: Range<Int64>
        /// Nothing is simulated after this.
        var end: Int64
        /// What is done before this is not counted, µs.
        var countedFrom: Int64 = 0
        /// Whether all delays are counted, not only those after an outage.
        var countsAllDelays = false
    }

    /// What came of it.
    struct Result {
        /// Work of the exchange, and that of it whose answer no gateway waited for or that brought nothing
        /// new, µs.
        var work: Int64 = 0
        var wasted: Int64 = 0
        /// Samples given up.
        var dead = 0
        /// Times at which two requests of one gateway were worked on at once.
        var overlaps = 0
        /// How long after the outage each gateway had delivered what had been waiting, in order, µs.
        var caughtUp: [Int64] = []
        /// How old data points were when their answer came, after all had caught up; in order, µs.
        var delays: [Int64] = []
    }

    private struct Event: Comparable {
        var at: Int64
        var gateway: Int
        /// The request whose answer does not come; nil: the delivery has something to do.
        var request: Int?
        /// Whether that was sent.
        var isSent = false
        /// Events of the same moment in the order in which they came about.
        var number = 0

        static func < (one: Event, other: Event) -> Bool {
            (one.at, one.number) < (other.at, other.number)
        }
        static func == (one: Event, other: Event) -> Bool { one.number == other.number }
    }

    /// What a gateway waits for a whole answer (`CurlSettings`).
    private static let patience = CurlSettings.totalTimeout.microseconds
    /// How long it takes to learn that there is no network, µs.
    private static let noNetwork: Int64 = 100_000
    /// How long it takes to learn that the exchange takes no more connections.
    private static let noPlace = CurlSettings.connectTimeout.microseconds
    /// For how long fresh data points are looked at after all have caught up, µs: half an hour.
    private static let afterwards: Int64 = 1_800_000_000

    private let scenario: Scenario
    private var exchange: Exchange
    private var gateways: [Gateway] = []
    private var events = Heap<Event>()
    private var eventNumber = 0
    private var requests = 0
    private var behind: Int
    private var end: Int64
    private var result = Result()

    init(_ scenario: Scenario, seed: UInt64) {
        self.scenario = scenario
        end = scenario.end
        behind = scenario.gateways
        exchange = Exchange(servers: scenario.servers, gateways: scenario.gateways)
        var chance = SeededRandom(seed: seed)
        for index in 0..<scenario.gateways {
            let own = chance.next()
            let draws = Draws(seed: own)
            let isJittered = scenario.isJittered
            let delivery = Delivery(settings: scenario.settings) { range in
                isJittered ? draws.one(of: range) : range.upperBound
            }
            let start = Int64(own % UInt64(scenario.startsWithin))
            gateways.append(Gateway(delivery, start: start, resolution: scenario.resolution))
            schedule(Event(at: start, gateway: index))
        }
    }

    /// Plays the scenario to its end, or until half an hour after all have caught up.
    mutating func run() -> Result {
        while true {
            let event = events.min?.at ?? .max
            let done = exchange.nextDone ?? .max
            let now = min(event, done)
            guard now <= end else { break }
            if done <= event {
                switch exchange.finish(done) {
                case (let request, true)?: finish(request, done)
                case (let request, false)?: sentAway(request, done)
                case nil: break
                }
            } else {
                events.popMin().map { handle($0) }
            }
        }
        result.caughtUp = gateways.compactMap(\.caughtUp).sorted()
        result.delays.sort()
        result.overlaps = exchange.overlaps
        return result
    }

    private mutating func schedule(_ event: Event) {
        eventNumber += 1
        var event = event
        event.number = eventNumber
        events.insert(event)
    }

    private mutating func handle(_ event: Event) {
        let (now, index) = (event.at, event.gateway)
        if let number = event.request {
            guard gateways[index].waiting?.number == number else { return }
            take(
                event.isSent ? .unanswered("timeout") : .notSent(retryAt: nil), index,
                now)
        }
        advance(index, now)
    }

    /// The proxy answers 503.
    private mutating func sentAway(_ request: Exchange.Request, _ now: Int64) {
        guard gateways[request.gateway].waiting?.number == request.number else { return }
        take(.throttled(retryAfter: nil), request.gateway, now)
        advance(request.gateway, now)
    }

    /// The exchange is done with a request; whoever waits gets the answer.
    private mutating func finish(_ request: Exchange.Request, _ now: Int64) {
        let index = request.gateway
        if now >= scenario.countedFrom { result.work += request.work }
        guard gateways[index].waiting?.number == request.number else {
            result.wasted += request.work
            return
        }
        result.wasted += request.again
        let isAfterwards = now > end - Self.afterwards && end < scenario.end
        if scenario.countsAllDelays ? now >= scenario.countedFrom : isAfterwards {
            result.delays += request.points.map { now - gateways[index].made($0) }
        }
        let entries = request.points.map { _ in
            EntryAnswer(.stored, status: 201)
        }
        take(.entries(entries), index, now)
        advance(index, now)
    }

    private mutating func take(_ answer: DeliveryAnswer, _ index: Int, _ now: Int64) {
        result.dead += gateways[index].take(answer, now)
        let back = scenario.outage.upperBound
        let gateway = gateways[index]
        // What comes within two intervals is no backlog.
        let fresh =
            2 * scenario.settings.interval.microseconds / (gateway.resolution * 1_000_000)
        guard now >= back, gateway.caughtUp == nil,
            gateway.made(by: now) - gateway.settled <= max(Int(fresh), 1)
        else { return }
        gateways[index].caughtUp = now - back
        behind -= 1
        if behind == 0 { end = min(end, now + 2 * Self.afterwards) }
    }

    private mutating func advance(_ index: Int, _ now: Int64) {
        while true {
            switch gateways[index].delivery.step(Uptime(microseconds: now)) {
            case .wait(let until):
                if let until { schedule(Event(at: until.microseconds, gateway: index)) }
                return
            case .fetch(let limit): gateways[index].fetch(limit, now)
            case .send(let indices): return send(.answer(indices), index, now)
            case .sendAlone(let position): return send(.answer([position]), index, now)
            case .checkHealth, .checkSilence: return send(.health, index, now)
            case .probe: return send(.mending, index, now)
            // These are of deliveries that serve many patients.
            case .probePatient, .fetchTrial: return
            }
        }
    }

    private mutating func send(_ what: Waiting.What, _ index: Int, _ now: Int64) {
        requests += 1
        gateways[index].waiting = Waiting(what: what, number: requests, since: now)
        var indices: [Int] = []
        if case .answer(let some) = what { indices = some }
        let request = Exchange.Request(
            number: requests, gateway: index, points: gateways[index].points(indices))
        if scenario.outage.contains(now) {
            schedule(Event(at: now + Self.noNetwork, gateway: index, request: requests))
        } else if exchange.take(request, now) {
            schedule(
                Event(
                    at: now + Self.patience, gateway: index, request: requests, isSent: true))
        } else {
            schedule(Event(at: now + Self.noPlace, gateway: index, request: requests))
        }
    }
}
