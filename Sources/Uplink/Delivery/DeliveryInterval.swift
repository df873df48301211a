import Basics

/// How long a delivery without a backlog leaves between two requests, by how quickly the exchange answers.
///
/// A request costs the exchange as much as two data points (docs/operate/scale.md), so short intervals are for
/// an exchange that has the time. No gateway knows the others, but answers tell of them: the quickest of the
/// last ones took what such a request takes by itself, and slower ones met requests of others. Where none is
/// slower the interval is halved, where half of them are it is doubled.
///
/// A value without a clock: its caller passes in how long each answer took.
struct DeliveryInterval: Sendable {
    /// The interval now, between `shortest` and `longest`.
    private(set) var current: Duration
    private let shortest: Duration
    private let longest: Duration
    /// The last answers at this interval.
    private var answers: [Answer] = []

    private struct Answer {
        var took: Duration
        var points: Int
        /// Per unit of work: a request by itself costs an exchange as much as two data points.
        var pace: Duration { took / (points + 2) }
    }

    /// The number of answers that decide. At the shortest interval they take 80 s, at the longest 8 minutes. The
    /// interval is halved if none of them met others: at an exchange that works for a third of its time a third of the
    /// answers meet others, so that it is mistaken for an idle one once in 1,000 times.
    static let answersMax = 16
    /// The interval is doubled if so many of them met others. At an idle exchange one answer in seven or eight meets
    /// other requests of the same gateway; so many of 16 do so once in 5,000 times.
    static let busyMin = 8
    /// A request that takes longer than the quickest by more than a quarter has met others.
    static let crowdedFactor = 1.25
    /// An answer that takes more than this part of the interval keeps the exchange too busy, whatever the
    /// reason is: at 0.6 s eight straps ask for as much as one of its workers can do in 5 s.
    static let shareMax = 8
    /// A request waits for so many data points, so that they cost more than the request itself: averages of 10 s are
    /// sent as seldom as with the longest interval.
    static let pointsMin = 5.0

    /// Begins at the shortest: an exchange that has no time for it shows it within two minutes.
    init(shortest: Duration, longest: Duration) {
        self.shortest = min(shortest, longest)
        self.longest = longest
        current = self.shortest
    }

    /// A request of `points` data points that were all that waited was answered.
    mutating func answered(after took: Duration, points: Int) {
        guard shortest < longest else { return }
        answers.append(Answer(took: max(took, .zero), points: points))
        if answers.count > Self.answersMax { answers.removeFirst() }
        guard answers.count == Self.answersMax else { return }
        if crowded(at: current) >= Self.busyMin {
            set(current * 2)
        } else if crowded(at: current / 2) == 0 {
            set(current / 2)
        }
    }

    /// A request brought no answer, or one that asks for a pause.
    mutating func failed() {
        set(longest)
    }

    /// How long to wait after a request that took so long, at least and at most, while `arrivals` data
    /// points are recorded a second; 0: unknown.
    ///
    /// Intervals below the longest count from the fetch, so that the oldest sample is as old as the
    /// interval and one answer. They vary, and the first ones after a change vary more: gateways that
    /// began together must not meet for ever, and take each other for a crowd. (Deliveries of one gateway
    /// take turns, ``SharedFetches``.) The longest is never
    /// shortened: what it is longer at times pays for the times at which a crowded exchange is mistaken for an
    /// idle one.
    func pause(after took: Duration, arrivals: Double) -> ClosedRange<Duration> {
        let needed = arrivals > 0 ? Self.pointsMin / arrivals : .infinity
        guard shortest < longest, needed < longest.inSeconds else { return longest...longest }
        let interval = max(current, .microseconds(Int64(needed * 1_000_000)))
        let spread = interval / (answers.count <= 1 ? 2 : 10)
        guard interval < longest else { return longest...longest + spread }
        let most = max(interval - max(took, .zero), .zero)
        return max(most - spread, .zero)...most
    }

    /// How many answers came from an exchange that is too busy for this interval.
    private func crowded(at interval: Duration) -> Int {
        guard let quickest = answers.map(\.took).min(), let pace = answers.map(\.pace).min() else {
            return 0
        }
        // A request that is a little larger takes a little longer, or no longer where the network is what
        // takes the time: neither is a crowd.
        return answers.count {
            ($0.took > quickest * Self.crowdedFactor && $0.pace > pace * Self.crowdedFactor)
                || $0.took * Self.shareMax > interval
        }
    }

    private mutating func set(_ interval: Duration) {
        let interval = min(max(interval, shortest), longest)
        guard interval != current else { return }
        current = interval
        answers = []
    }
}
