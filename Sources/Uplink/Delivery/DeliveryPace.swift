import Basics

/// The numbers a delivery goes by.
public struct DeliverySettings: Sendable, Hashable {
    /// Most samples in a request. At 20 ms a sample, the slowest exchange measured, 100 take 2 s of
    /// the 30 s after which it kills its worker.
    public var batchSamplesMax = 100
    /// A request that takes longer halves the next one, microseconds.
    public var slowMicroseconds: Int64 = 5_000_000
    /// A full request that takes less lets the next one grow again, microseconds.
    public var quickMicroseconds: Int64 = 2_500_000
    /// Before the same samples are sent again when their fate is unknown, microseconds.
    /// The exchange may still be working on them, for 30 s at most; a second request meanwhile makes
    /// permanent duplicates.
    public var resendPauseMicroseconds: Int64 = 30_000_000
    /// The longest such pause; it doubles up to this, microseconds.
    public var resendPauseMicrosecondsMax: Int64 = 300_000_000
    /// The longest such pause when the answer came quickly and said nothing, microseconds: an exchange
    /// that says at once that it does not work is spared nothing by longer ones, and delivery resumes
    /// within a minute after it works again.
    public var answeredPauseMicrosecondsMax: Int64 = 50_000_000
    /// A longer pause after a request without a quick answer is interrupted by looks whether the exchange
    /// works, microseconds: when it hung and works again, delivery resumes within a minute. Shorter ones
    /// are not: a look costs a crowded exchange as much as two data points (docs/scale.md).
    public var pauseWithoutLookMicrosecondsMax: Int64 = 60_000_000
    /// Between two of these looks, microseconds at most.
    public var lookPauseMicrosecondsMax: Int64 = 45_000_000
    /// Before the next try when certainly nothing was sent, microseconds.
    public var notSentPauseMicroseconds: Int64 = 5_000_000
    /// The longest such pause, microseconds: what delivery lags behind the network at most.
    public var notSentPauseMicrosecondsMax: Int64 = 60_000_000
    /// Between two looks at the reason of a hold, microseconds: at most one a minute.
    public var probePauseMicroseconds: Int64 = 60_000_000
    /// After a delivery behind which nothing waits, or a look into an empty queue, before the next,
    /// microseconds. What comes meanwhile goes out in one request instead of many.
    public var intervalMicroseconds: Int64 = 30_000_000
    /// The longest `Retry-After` believed, seconds.
    public var retryAfterSecondsMax: Int64 = 3600
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
    /// What is not delivered at all.
    public var policy = DeliveryPolicy()

    /// The defaults.
    public init() {}

    func resendPause(attempt: Int, isAnswered: Bool) -> Int64 {
        Backoff(
            first: .microseconds(resendPauseMicroseconds),
            longest: .microseconds(
                isAnswered ? answeredPauseMicrosecondsMax : resendPauseMicrosecondsMax)
        ).pause(after: attempt).microseconds
    }

    func notSentPause(attempt: Int) -> Int64 {
        Backoff(
            first: .microseconds(notSentPauseMicroseconds),
            longest: .microseconds(notSentPauseMicrosecondsMax)
        ).pause(after: attempt).microseconds
    }
}

/// How many samples a delivery puts into a request, and how long it rests after a slow answer, by how the
/// last requests went.
struct DeliveryPace: Sendable {
    private(set) var size: Int
    /// How long to leave the exchange to others before the next request, at most; microseconds.
    private(set) var rest: Int64 = 0
    private var ceiling: Int
    private let settings: DeliverySettings
    /// The request whose slow answer made the next one smaller.
    private var larger: (count: Int, took: Int64)?
    /// A smaller request was as slow as a larger one: neither its size nor the rests make this exchange
    /// quicker.
    private var isSteadilySlow = false
    private var slowInRow = 0
    /// How long the last request took.
    private var latest: Int64 = 0

    /// How much a request grows at a time, samples.
    static let growth = 10
    /// Slowness alone makes no request smaller than this, samples. Most likely others are being served:
    /// then small requests do not help, since each costs the exchange as much as two samples do, and a
    /// fleet that all shrank would never catch up (docs/scale.md). An exchange that is slow by itself
    /// reaches its 30 s with so many only at 1.2 s a sample, sixty times the slowest measured.
    static let contendedSize = 25
    /// After a second slow answer in a row the delivery rests up to so many times as long as the answer
    /// was too slow. A thousand gateways that ask again at once make a queue of minutes, in which they
    /// give up and the exchange works for clients that have left (docs/scale.md).
    static let restFactor: Int64 = 8
    /// A request that takes longer is made smaller in any case, microseconds: the exchange kills a worker
    /// after 30 s.
    static let toleratedMicroseconds: Int64 = 30_000_000

    init(_ settings: DeliverySettings) {
        self.settings = settings
        ceiling = max(settings.batchSamplesMax, 1)
        size = ceiling
    }

    /// A request of `count` was answered.
    mutating func took(_ microseconds: Int64, count: Int) {
        latest = microseconds
        guard microseconds > settings.slowMicroseconds else {
            (slowInRow, rest, larger, isSteadilySlow) = (0, 0, nil, false)
            if microseconds < settings.quickMicroseconds, count >= size {
                size = min(size + Self.growth, ceiling)
            }
            return
        }
        slowInRow += 1
        resize(microseconds, count: count)
        let excess = microseconds - settings.slowMicroseconds
        rest =
            isSteadilySlow || slowInRow < 2
            ? 0 : min(excess * Self.restFactor, settings.resendPauseMicrosecondsMax)
    }

    private mutating func resize(_ microseconds: Int64, count: Int) {
        let isTolerated = microseconds <= Self.toleratedMicroseconds
        if let larger, isTolerated, count < larger.count, larger.took <= Self.toleratedMicroseconds,
            microseconds * 10 >= larger.took * 7
        {
            size = min(larger.count, ceiling)
            isSteadilySlow = true
            self.larger = nil
        } else if !isSteadilySlow || !isTolerated {
            isSteadilySlow = false
            let smaller = max(min(size, count) / 2, min(Self.contendedSize, ceiling))
            if smaller < size { larger = (count, microseconds) }
            size = smaller
        }
    }

    /// How many samples the next request takes along: more than slowness alone would have it where twice as
    /// many are recorded, `arrivals` data points a second, as long as such a request takes.
    func size(arrivals: Double) -> Int {
        guard arrivals > 0, latest > settings.slowMicroseconds,
            latest <= Self.toleratedMicroseconds
        else { return size }
        let needed = (2 * arrivals * Double(latest) / 1_000_000).rounded(.up)
        return max(size, Int(min(needed, Double(ceiling))))
    }

    /// How long to rest at most after a request that took so long, for a backlog to become smaller although
    /// `arrivals` data points are recorded a second; microseconds.
    func rest(after microseconds: Int64, arrivals: Double) -> Int64 {
        guard arrivals > 0 else { return rest }
        let cycle = Double(size(arrivals: arrivals)) / (gain(after: microseconds) * arrivals)
        return min(rest, max(Int64(min(cycle * 1_000_000, 1e15)) - microseconds, 0))
    }

    /// How many times what is recorded the requests take along: twice as much after an answer that was just
    /// too slow, hardly more than once after one that took a minute. The slower the answers, the more
    /// gateways wait, and a thousand that make 72 % of what their exchange takes must not ask for more than
    /// all of it: at 1.25 throughout a fifth of its work was for nothing (docs/scale.md).
    func gain(after microseconds: Int64) -> Double {
        1 + min(Double(settings.slowMicroseconds) / Double(max(microseconds, 1)), 1)
    }

    /// A request of `count` brought no usable answer; a slow one shall be smaller next time.
    mutating func failed(afterMicroseconds microseconds: Int64, count: Int) {
        if microseconds > settings.slowMicroseconds { took(microseconds, count: count) }
    }

    /// Requests larger than `count` are refused on the way.
    mutating func limit(to count: Int) {
        ceiling = max(count, 1)
        size = min(size, ceiling)
    }
}
