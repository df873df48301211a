import Basics

/// A rule's memory of the time before: whether anything moved. It is fed by the monitor, which looks at regular
/// intervals; asking changes nothing.
public struct HealthHistory: Sendable {
    /// The counts of one look.
    public struct Counts: Sendable, Equatable {
        /// Frames of each strap that the store has taken, by its number.
        public var stored: [Int64: Int] = [:]
        /// The samples that each delivery has settled, and those that wait for it, by its enrollment's number.
        public var deliveries: [Int64: Backlog] = [:]
        /// Rows the store has written, and samples that wait in memory.
        public var written = 0
        /// Samples that wait in memory.
        public var buffered = 0
        /// Paired straps of which nothing is recorded, by number. One that is just being paired is among them.
        public var unrecorded: Set<Int64> = []

        /// Nothing counted yet.
        public init() {}
    }

    /// The progress of one delivery.
    public struct Backlog: Sendable, Equatable {
        /// Delivered, dead or dropped.
        public var settled: Int
        /// Waiting, and not held.
        public var pending: Int

        /// So many settled, and so many waiting.
        public init(settled: Int, pending: Int) {
            self.settled = settled
            self.pending = pending
        }
    }

    /// Three such parts make the hour over which a backlog must have grown.
    static let part = Duration.seconds(1_200)
    /// A minute of one strap: less is no trend.
    static let growthMin = 60

    /// A count, and since when it has been the same.
    private struct Steady: Sendable {
        var count: Int
        var since: Uptime
    }

    /// The smallest backlog of a part of an hour: what is left when a request has just been answered.
    private struct Part: Sendable {
        var began: Uptime
        var least: Int
    }

    private var stored: [Int64: Steady] = [:]
    private var settled: [Int64: Steady] = [:]
    private var parts: [Int64: [Part]] = [:]
    private var written: Steady?
    /// Since when nothing has been recorded of a paired strap, by its number.
    private var unrecorded: [Int64: Uptime] = [:]

    /// A history that begins with the first counts.
    public init() {}

    /// Takes over what was counted at `uptime`.
    public mutating func note(_ counts: Counts, at uptime: Uptime) {
        unrecorded = counts.unrecorded.reduce(into: [:]) { next, strap in
            next[strap] = unrecorded[strap] ?? uptime
        }
        stored = counts.stored.reduce(into: [:]) { next, one in
            next[one.key] = Self.follow(stored[one.key], one.value, uptime)
        }
        written =
            counts.buffered == 0
            ? Steady(count: counts.written, since: uptime)
            : Self.follow(written, counts.written, uptime)
        settled = counts.deliveries.reduce(into: [:]) { next, one in
            next[one.key] =
                one.value.pending == 0
                ? Steady(count: one.value.settled, since: uptime)
                : Self.follow(settled[one.key], one.value.settled, uptime)
        }
        parts = counts.deliveries.reduce(into: [:]) { next, one in
            next[one.key] = Self.follow(parts[one.key] ?? [], one.value.pending, uptime)
        }
    }

    private static func follow(_ before: Steady?, _ count: Int, _ uptime: Uptime) -> Steady {
        guard let before, before.count == count else { return Steady(count: count, since: uptime) }
        return before
    }

    private static func follow(_ before: [Part], _ pending: Int, _ uptime: Uptime) -> [Part] {
        var parts = before
        if let last = parts.last, uptime - last.began < part {
            parts[parts.count - 1].least = min(last.least, pending)
        } else {
            parts.append(Part(began: uptime, least: pending))
        }
        // The part that has just begun is not finished.
        return parts.suffix(4)
    }

    /// How long nothing of a strap has been stored.
    public func unstoredTime(of strap: Int64, now counts: Counts, at uptime: Uptime) -> Duration {
        guard let steady = stored[strap], counts.stored[strap] == steady.count else { return .zero }
        return uptime - steady.since
    }

    /// For how long nothing has been recorded of a strap.
    public func unrecordedTime(of strap: Int64, now counts: Counts, at uptime: Uptime) -> Duration {
        guard let since = unrecorded[strap], counts.unrecorded.contains(strap) else { return .zero }
        return uptime - since
    }

    /// How long samples have waited in memory without one being written.
    public func uncommittedTime(now counts: Counts, at uptime: Uptime) -> Duration {
        guard let written, counts.buffered > 0, counts.written == written.count else {
            return .zero
        }
        return uptime - written.since
    }

    /// How long samples have waited for a delivery without one being settled.
    public func stalledTime(of delivery: Int64, now counts: Counts, at uptime: Uptime) -> Duration {
        guard let steady = settled[delivery], let now = counts.deliveries[delivery],
            now.pending > 0, now.settled == steady.count
        else { return .zero }
        return uptime - steady.since
    }

    /// By how many samples the backlog of a delivery grew in the last hour; nil unless each third of the
    /// hour left more of it than the one before.
    public func growth(of delivery: Int64, now counts: Counts) -> Int? {
        guard let parts = parts[delivery], parts.count == 4, let now = counts.deliveries[delivery]
        else { return nil }
        let least = parts.prefix(3).map(\.least)
        guard least[0] < least[1], least[1] < least[2], now.pending > least[2],
            now.pending - least[0] >= Self.growthMin
        else { return nil }
        return now.pending - least[0]
    }
}
