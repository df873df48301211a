import Basics

/// The numbers a delivery goes by.
public struct DeliverySettings: Sendable, Hashable {
    /// Most samples in a request. At 20 ms a sample, the slowest exchange measured, 100 take 2 s of
    /// the 30 s after which it kills its worker.
    public var batchSamplesMax = 100
    /// A request that takes longer halves the next one; a full one that does not lets it grow again.
    public var slow = Duration.seconds(5)
    /// An exchange that answers a look so soon has nobody else waiting.
    public var quick = Duration.milliseconds(2_500)
    /// Before the same samples are sent again when their fate is unknown.
    /// The exchange may still be working on them, for 30 s at most; a second request meanwhile makes
    /// permanent duplicates.
    public var resendPause = Duration.seconds(30)
    /// The longest such pause; it doubles up to this.
    public var resendPauseMax = Duration.seconds(300)
    /// The longest such pause when the answer came quickly and said nothing: an exchange
    /// that says at once that it does not work is spared nothing by longer ones, and delivery resumes
    /// within a minute after it works again.
    public var answeredPauseMax = Duration.seconds(50)
    /// A longer pause after a request without a quick answer is interrupted by looks whether the exchange
    /// works: when it hung and works again, delivery resumes within a minute. Shorter ones
    /// are not: a look costs a crowded exchange as much as two data points (docs/operate/scale.md).
    public var pauseWithoutLookMax = Duration.seconds(60)
    /// Between two of these looks, at most.
    public var lookPauseMax = Duration.seconds(45)
    /// Before the next try when certainly nothing was sent.
    public var notSentPause = Duration.seconds(5)
    /// The longest such pause: what delivery lags behind the network at most.
    public var notSentPauseMax = Duration.seconds(60)
    /// Between two looks at the reason of a hold: at most one a minute.
    public var probePause = Duration.seconds(60)
    /// After a delivery behind which nothing waits, or a look into an empty queue, before the next.
    /// Samples that come meanwhile go out in one request instead of many.
    public var interval = Duration.seconds(30)
    /// The interval where the exchange has time for more requests. Where it is not shorter, the
    /// interval is always the same.
    public var shortestInterval = Duration.seconds(30)
    /// The longest `Retry-After` believed.
    public var retryAfterMax = Duration.seconds(3_600)
    /// Whole failures of a batch, with the exchange well, before it is taken apart; and failures of
    /// a sample alone, before it is given up.
    public var failuresMax = 3
    /// The same for a sample alone when no answer came at all: a network can lose many answers in a
    /// row, and a sample given up may have been a good one.
    public var silencesMax = 10
    /// Failures of a halving in which nothing at all is stored, before it is given up. Finding one sample
    /// among 100 takes 8 failures and its last attempts 4; four that follow one another are found before
    /// anything is stored.
    public var halvingFailuresMax = 40
    /// The flags of samples that are not delivered at all.
    public var policy = DeliveryPolicy()

    /// The shortest interval of a delivery to an exchange. It fetches when the oldest frame is 5 s old, with the
    /// store's commits; with its turn and half a second for the answer, a frame is acknowledged 6 s after it
    /// came at the latest. A request then costs
    /// the exchange half as much as the five data points of a strap in it.
    public static let exchangeInterval = Duration.seconds(5)

    /// The defaults.
    public init() {}

    func resendPause(attempt: Int, isAnswered: Bool) -> Duration {
        Backoff(first: resendPause, longest: isAnswered ? answeredPauseMax : resendPauseMax)
            .pause(after: attempt)
    }

    func notSentPause(attempt: Int) -> Duration {
        Backoff(first: notSentPause, longest: notSentPauseMax).pause(after: attempt)
    }
}

/// How many samples a delivery puts into a request, and how long it rests after a slow answer, by how the
/// last requests went.
struct DeliveryPace: Sendable {
    private(set) var size: Int
    /// How long to leave the exchange to others before the next request, at most.
    private(set) var rest = Duration.zero
    private var ceiling: Int
    /// The largest request that fits, as far as one that was too large tells, and when that was. Kept beyond the time
    /// for which it is the ceiling, so that one that has grown too large again is made as small as it was.
    private var limit: (count: Int, since: Uptime)?
    private let settings: DeliverySettings
    /// The request whose slow answer made the next one smaller.
    private var larger: (count: Int, took: Duration)?
    /// A smaller request was as slow as a larger one: neither its size nor the rests make this exchange
    /// quicker.
    private var isSteadilySlow = false
    private var slowInRow = 0
    /// How long the last request took.
    private var latest = Duration.zero

    /// How much a request grows at a time, samples. Of deliveries that share an exchange the larger requests
    /// lose more by each halving than the smaller ones, so all become the same.
    static let growth = 10
    /// Slowness alone makes no request smaller than this, samples. Most likely others are being served:
    /// then small requests do not help, since each costs the exchange as much as two samples do, and a
    /// fleet that all shrank would never catch up (docs/operate/scale.md). An exchange that is slow by itself
    /// reaches its 30 s with so many only at 1.2 s a sample, sixty times the slowest measured.
    static let contendedSize = 25
    /// After a second slow answer in a row the delivery rests up to so many times as long as the answer
    /// was too slow. A thousand gateways that ask again at once make a queue of minutes, in which they
    /// give up and the exchange works for clients that have left (docs/operate/scale.md).
    static let restFactor = 8
    /// A request that takes longer is made smaller in any case: the exchange kills a worker after 30 s.
    static let tolerated = Duration.seconds(30)
    /// So long requests stay as small as one that was too large has made them. A proxy's limit may be a mistake that is
    /// mended the same day; where it stays, one request in this time is refused.
    static let limitTime = Duration.seconds(3_600)

    init(_ settings: DeliverySettings) {
        self.settings = settings
        size = max(settings.batchSamplesMax, 1)
        ceiling = size
    }

    /// A request of `count` was answered.
    mutating func took(_ time: Duration, count: Int) {
        latest = time
        guard time > settings.slow else {
            (slowInRow, rest, larger, isSteadilySlow) = (0, .zero, nil, false)
            if let limit { self.limit?.count = max(limit.count, count) }
            if count >= size {
                size = min(size + Self.growth, ceiling)
            }
            return
        }
        slowInRow += 1
        resize(time, count: count)
        let excess = time - settings.slow
        rest =
            isSteadilySlow || slowInRow < 2
            ? .zero : min(excess * Self.restFactor, settings.resendPauseMax)
    }

    private mutating func resize(_ time: Duration, count: Int) {
        let isTolerated = time <= Self.tolerated
        if let larger, isTolerated, count < larger.count, larger.took <= Self.tolerated,
            time * 10 >= larger.took * 7
        {
            size = min(larger.count, ceiling)
            isSteadilySlow = true
            self.larger = nil
        } else if !isSteadilySlow || !isTolerated {
            isSteadilySlow = false
            let smaller = max(min(size, count) / 2, min(Self.contendedSize, ceiling))
            if smaller < size { larger = (count, time) }
            size = smaller
        }
    }

    /// How many samples the next request takes along: more than slowness alone would have it where twice as
    /// many are recorded, `arrivals` data points a second, as long as such a request takes.
    func size(arrivals: Double) -> Int {
        guard arrivals > 0, latest > settings.slow, latest <= Self.tolerated else { return size }
        let needed = (2 * arrivals * latest.inSeconds).rounded(.up)
        return max(size, Int(min(needed, Double(ceiling))))
    }

    /// How long to rest at most after a request that took so long, for a backlog to become smaller although
    /// `arrivals` data points are recorded a second.
    func rest(after time: Duration, arrivals: Double) -> Duration {
        guard arrivals > 0 else { return rest }
        let cycle = Double(size(arrivals: arrivals)) / (gain(after: time) * arrivals)
        return min(rest, max(.microseconds(Int64(min(cycle * 1_000_000, 1e15))) - time, .zero))
    }

    /// The samples that requests carry, as a multiple of the samples that are recorded meanwhile: twice as many after
    /// an answer that was just too slow, hardly more than the same after one that took a minute. The slower the
    /// answers are, the more gateways wait. A thousand gateways that use 72 % of their exchange must not ask for more
    /// than it can do: with a constant 1.25 a fifth of its work was in vain (docs/operate/scale.md).
    func gain(after time: Duration) -> Double {
        1 + min(settings.slow / max(time, .microseconds(1)), 1)
    }

    /// A request of `count` brought no usable answer; a slow one shall be smaller next time.
    mutating func failed(after time: Duration, count: Int) {
        if time > settings.slow { took(time, count: count) }
    }

    /// A request of `count` was refused on the way, as too large.
    mutating func wasTooLarge(_ count: Int, _ now: Uptime) {
        let fitting = limit.map(\.count) ?? count
        ceiling = max(fitting < count ? fitting : count / 2, 1)
        limit = (ceiling, now)
        size = min(size, ceiling)
    }

    /// Lets requests grow again if the last one that was too large is long ago.
    mutating func forgetOldLimit(_ now: Uptime) {
        if let limit, now - limit.since >= Self.limitTime { raiseCeiling() }
    }

    /// Lets requests grow again, since what made them too large was mended.
    mutating func forgetLimit() {
        limit = nil
        raiseCeiling()
    }

    private mutating func raiseCeiling() { ceiling = max(settings.batchSamplesMax, 1) }
}
