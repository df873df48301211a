import Basics

/// When a delivery fetches, so that the deliveries of a gateway share the commits of its store.
///
/// A commit costs the card some pages, whatever is in it. A delivery that wants samples as soon as they come
/// therefore fetches right after a commit that is made anyway, though its interval is not quite over, or waits for
/// one that is due. It asks for a commit of its own only where none is near; the others come along then.
///
/// A value without a clock.
public struct SharedFetches: Sendable {
    /// Commits come every 4.5 to 5 s. A delivery at such an interval fetches after every commit that it did not wait
    /// for: otherwise what is committed a second after a fetch is twice as old at the next one.
    static let commitPause = Duration.seconds(5)
    /// At a longer interval a delivery fetches with a commit that comes so long before it is due, or less: that commit is
    /// nearer than the next.
    static let near = Duration.milliseconds(2_500)
    /// This part of its interval a fetch that is due waits for the next commit.
    static let patiencePart = 5
    /// From one delivery's fetch to the next one's after the same commit: what an exchange takes for a request of
    /// five data points (docs/operate/scale.md). All at once they would take each other for a crowd.
    static let step = Duration.milliseconds(50)
    /// The last one's fetch is so long after the commit, at most.
    static let turnMax = Duration.milliseconds(400)
    /// How much later than it is due a commit may come.
    static let lateness = Duration.milliseconds(250)
    /// After a commit that is no older a fetch needs no other.
    static let freshTime = Duration.seconds(2)

    /// The time of the commit that the next fetch follows.
    private var committedAt: Uptime?
    /// Whether this fetch has waited for a commit that was due.
    private var hasWaited = false
    /// How many fetches in a row found nothing.
    private var emptyFetches = 0

    /// How long after a commit a delivery fetches: always at the same place in the row of the gateway's `count`
    /// deliveries, so that its answers can be compared with one another.
    public static func turn(_ position: Int, of count: Int) -> Duration {
        min(step, turnMax / max(count - 1, 1)) * position
    }

    /// Samples were committed. Returns whether a delivery that fetches each `interval`, and the next time at `due`,
    /// fetches now. It also does so once after a fetch that found nothing and may have come just before the commit; not
    /// twice, since a strap that is away has no samples in the next commit either.
    mutating func committed(due: Uptime, interval: Duration, _ now: Uptime) -> Bool {
        let near = interval > Self.commitPause ? Self.near : interval - interval / Self.patiencePart
        guard !isFresh(now), emptyFetches == 1 || due - now <= near else { return false }
        committedAt = now
        return true
    }

    /// A fetch is due. Returns how long it may wait for the next commit; nil if there was one just now, and it need not
    /// wait.
    func patience(interval: Duration, _ now: Uptime) -> Duration? {
        if isFresh(now) { return nil }
        return hasWaited ? .zero : interval / Self.patiencePart
    }

    private func isFresh(_ now: Uptime) -> Bool {
        committedAt.map { now - $0 <= Self.freshTime } ?? false
    }

    /// The fetch waits for a commit that is due at `due`. Returns until when it waits at most.
    mutating func wait(for due: Uptime) -> Uptime {
        hasWaited = true
        return due + Self.lateness
    }

    /// The delivery has fetched; `isEmpty`: it found nothing.
    mutating func fetched(isEmpty: Bool) {
        emptyFetches = isEmpty ? emptyFetches + 1 : 0
        hasWaited = false
        committedAt = nil
    }
}
