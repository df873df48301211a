import Basics
import GRDB

/// The outcome of one day's samples at one destination.
public struct DayBooks: Sendable, Hashable {
    /// Samples that it has.
    public internal(set) var delivered = 0
    /// Samples that wait for it, held or not.
    public internal(set) var waiting = 0
    /// Samples that it refused for good.
    public internal(set) var dead = 0
    /// Samples that were dropped for it.
    public internal(set) var dropped = 0
    /// Samples that were gone before the destination was added.
    public internal(set) var before = 0
}

/// One day of two destinations.
public struct ComparedDay: Sendable, Hashable {
    /// The first and the last day (UTC) whose samples are counted, in days since 1970-01-01: one and the same
    /// but for what was recorded while the clock was not known. Nil while it still is not.
    public let days: ClosedRange<Int64>?
    /// Samples that go to both.
    public internal(set) var samples = 0
    /// The outcome of them at the first destination.
    public internal(set) var first = DayBooks()
    /// The outcome of them at the second.
    public internal(set) var second = DayBooks()
}

/// The counts of two destinations for the same samples.
public struct DestinationComparison: Sendable, Hashable {
    /// Newest first; samples without a known time come last.
    public internal(set) var days: [ComparedDay] = []
    /// Samples that go to the first destination alone, in the same days.
    public internal(set) var firstOnly = 0
    /// Samples that go to the second destination alone, in the same days.
    public internal(set) var secondOnly = 0

    /// Whether one has what the other has, as far as numbers tell.
    public var isSame: Bool { days.allSatisfy { $0.first.delivered == $0.second.delivered } }
}

extension SampleQueue {
    /// Compares two destinations day by day, from the day of `since` on. Only samples that go to
    /// both are compared. No sample is read.
    ///
    /// - Throws: ``QueueError`` `unknown-reference` if there is no such destination.
    public func compare(
        _ first: Int64, _ second: Int64, since: UTC
    ) throws(QueueError) -> DestinationComparison {
        try flush()
        return try read("compare destinations") { db in
            for destination in [first, second] { _ = try db.enrollment(destination) }
            let begin = UTC(day: since.day)
            return DestinationComparison(
                try SegmentOfDestination.all(db, first, since: begin),
                try SegmentOfDestination.all(db, second, since: begin))
        }
    }
}

extension DestinationComparison {
    fileprivate init(
        _ first: [Int64: SegmentOfDestination], _ second: [Int64: SegmentOfDestination]
    ) {
        var found: [ClosedRange<Int64>?: ComparedDay] = [:]
        for (id, one) in first {
            guard let other = second[id] else {
                firstOnly += one.stored
                continue
            }
            var day = found[one.days] ?? ComparedDay(days: one.days)
            day.samples += one.stored
            day.first.add(one.books)
            day.second.add(other.books)
            found[one.days] = day
        }
        secondOnly = second.filter { first[$0.key] == nil }.values.reduce(0) { $0 + $1.stored }
        days = found.values.filter { $0.samples > 0 }.sorted {
            ($0.days?.upperBound ?? .min, $0.days?.lowerBound ?? .min)
                > ($1.days?.upperBound ?? .min, $1.days?.lowerBound ?? .min)
        }
    }
}

extension DayBooks {
    fileprivate mutating func add(_ other: DayBooks) {
        delivered += other.delivered
        waiting += other.waiting
        dead += other.dead
        dropped += other.dropped
        before += other.before
    }
}

/// A segment with the books of one of its destinations.
private struct SegmentOfDestination {
    /// How far the ends of a segment may lie beyond its day: a frame that came late may have been sent before its
    /// segment began.
    private static let ends = Duration.seconds(3_600)

    var stored: Int
    var days: ClosedRange<Int64>?
    var books: DayBooks

    static func all(
        _ db: Database, _ destination: Int64, since: UTC
    ) throws -> [Int64: SegmentOfDestination] {
        var segments: [Int64: SegmentOfDestination] = [:]
        for view in SampleQueue.BooksView.allCases {
            let books = view.books
            let rows = try Row.fetchCursor(
                db,
                sql: """
                    SELECT s.id, s.stored, \(view.before), \(books).delivered, \(books).dead,
                        \(books).dropped, s.first_uptime_us, s.last_uptime_us, s.wall_offset_us
                    \(view.sql)
                    WHERE \(view.destination) = ?1 AND s.stored > 0
                        AND (s.wall_offset_us IS NULL OR s.last_uptime_us + s.wall_offset_us >= ?2)
                    """, arguments: [destination, since])
            while let row = try rows.next() {
                guard let id = row[0] as Int64? else { continue }
                segments[id] = SegmentOfDestination(row)
            }
        }
        return segments
    }

    private init(_ row: Row) {
        stored = row[1] ?? 0
        books = DayBooks()
        books.before = row[2] ?? 0
        books.delivered = row[3] ?? 0
        books.dead = row[4] ?? 0
        books.dropped = row[5] ?? 0
        books.waiting = stored - books.before - books.delivered - books.dead - books.dropped
        let first: Uptime = row[6] ?? .zero
        let last = max(first, row[7] ?? .zero)
        let margin = min(Self.ends, (last - first) / 2)
        guard let offset = row[8] as WallOffset?, let begin = offset.utc(first + margin)?.day,
            let end = offset.utc(last - margin)?.day
        else { return }
        days = begin...max(begin, end)
    }
}
