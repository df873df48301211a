@testable import OfflineQueue

/// What the gaps of one run must be, said as simply as possible: the run is cut into slots of 100 ms,
/// and each slot is checked by itself.
struct GapModel {
    static let slot: Int64 = 100_000
    static let bound: Int64 = 3_000_000

    enum Event {
        case sample
        case empty(GapCause)
        case note(GapCause?)
    }

    struct Span: Hashable {
        var cause: GapCause
        var from: Int64
        var until: Int64
    }

    let begin: Int64
    var noted: GapCause?
    /// In order, each with the cause noted last.
    private var events: [(uptime: Int64, event: Event, noted: GapCause?)] = []

    init(begin: Int64, noted: GapCause? = nil) {
        self.begin = begin
        self.noted = noted
        if let noted { events.append((begin, .note(noted), noted)) }
    }

    mutating func add(_ event: Event, at uptime: Int64) {
        if case .note(let cause) = event {
            // Saying the same again says nothing.
            if cause == noted { return }
            noted = cause
        }
        events.append((uptime, event, noted))
    }

    /// The gaps up to `end`, if of the samples only those at `samples` count.
    func gaps(until end: Int64, samples: Set<Int64>) -> [Span] {
        let bounds = ([begin, end] + samples.filter { $0 > begin && $0 < end }).sorted()
        return zip(bounds, bounds.dropFirst()).flatMap { from, until in
            until - from > Self.bound ? spans(from, until) : []
        }
    }

    private func spans(_ from: Int64, _ until: Int64) -> [Span] {
        var slots = stride(from: from, to: until, by: Int(Self.slot)).map { cause($0) }
        // Runs of slots without a cause.
        var at = 0
        while at < slots.count {
            guard slots[at] == nil else {
                at += 1
                continue
            }
            let end = slots[at...].firstIndex { $0 != nil } ?? slots.count
            let isLong = Int64(end - at) * Self.slot > Self.bound
            let before = at > 0 ? slots[at - 1] : nil
            let after = end < slots.count ? slots[end] : nil
            for index in at..<end { slots[index] = isLong ? .silent : before ?? after ?? .silent }
            at = end
        }
        var spans: [Span] = []
        for (index, cause) in slots.enumerated() {
            let start = from + Int64(index) * Self.slot
            let stop = min(until, start + Self.slot)
            if let last = spans.last, last.cause == cause {
                spans[spans.count - 1].until = stop
            } else {
                spans.append(Span(cause: cause ?? .silent, from: start, until: stop))
            }
        }
        return spans
    }

    /// What explains the slot that begins at `uptime`: the latest event decides.
    private func cause(_ uptime: Int64) -> GapCause? {
        var low = 0
        var high = events.count
        while low < high {
            let middle = (low + high) / 2
            if events[middle].uptime <= uptime { low = middle + 1 } else { high = middle }
        }
        guard low > 0 else { return nil }
        let latest = events[low - 1]
        if case .empty(let cause) = latest.event, uptime < latest.uptime + Self.bound {
            return cause
        }
        return latest.noted
    }
}
