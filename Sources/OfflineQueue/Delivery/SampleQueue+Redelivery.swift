import Basics
import GRDB

/// Samples that a destination once took, and is to get again: as an exchange that was restored from a backup, which has
/// lost them.
public struct Redelivery: Sendable {
    /// The enrollment whose samples they are.
    public var destination: Int64
    /// The time of the first of them. With ``window`` the whole window goes in which it lies.
    public var since: UTC
    /// How long the windows are of which the destination gets averages; nil: it gets single samples.
    public var window: Duration?
    /// Why a policy withholds a sample; nil if it does not. Those go back with the others, since the store does not say
    /// which they were, and a window is named by its first sample.
    public var withheld: @Sendable (PendingSample) -> String?

    /// Samples of a destination.
    public init(
        destination: Int64, since: UTC, window: Duration? = nil,
        withheld: @escaping @Sendable (PendingSample) -> String? = { _ in nil }
    ) {
        self.destination = destination
        self.since = since
        self.window = window
        self.withheld = withheld
    }

    /// What of it the store still has.
    public struct Extent: Sendable, Hashable {
        /// How many samples.
        public var samples = 0
        /// The time of the first of them; nil if there are none.
        public var first: UTC?
        /// The time of the oldest delivered sample that the store still has; nil if it has none.
        public var keptSince: UTC?

        /// Nothing.
        public init() {}

        mutating func add(_ rows: DeliveredRows) {
            samples += rows.count
            if let time = rows.firstTime, rows.count > 0 { first = min(first ?? time, time) }
            if let time = rows.keptSince { keptSince = min(keptSince ?? time, time) }
        }
    }
}

extension SampleQueue {
    /// The reason in the row of a sample that is delivered again. It has the form of a dead letter that was put back,
    /// which is outside of the order of its segment.
    static let redelivered = "redelivered"

    /// How much ``redeliver(_:)`` would put back.
    public func extent(of redelivery: Redelivery) throws(QueueError) -> Redelivery.Extent {
        try settleUnwritten(redelivery.destination)
        return try read("count delivered samples") { db in
            var extent = Redelivery.Extent()
            for segment in try PendingSegment.settled(db, enrollment: redelivery.destination) {
                extent.add(try DeliveredRows(db, segment, redelivery))
            }
            return extent
        }
    }

    /// Has delivered samples that are still kept wait for their destination again, under the same identities. A
    /// destination that has one of them says so, and it counts as delivered again. Returns how many.
    ///
    /// A segment is put back as a whole or not at all. What was put back before an error stays so, and the same call
    /// again adds the rest.
    @discardableResult
    public func redeliver(_ redelivery: Redelivery) throws(QueueError) -> Int {
        try settleUnwritten(redelivery.destination)
        let segments = try read("list delivered samples") { db in
            try PendingSegment.settled(db, enrollment: redelivery.destination)
        }
        var count = 0
        for segment in segments {
            count += try write("deliver samples again") { db in
                let rows = try DeliveredRows(db, segment, redelivery)
                try rows.putBack(db)
                return rows.count
            }
        }
        return count
    }
}

/// The rows of one segment that one delivery is done with, from the first that is to go again to its cursor.
struct DeliveredRows {
    private var segment: PendingSegment
    private var books: DeliveryBooks
    private(set) var count = 0
    private(set) var firstTime: UTC?
    private(set) var keptSince: UTC?
    private var first: Int64?
    /// How many of them were withheld, by reason.
    private var withheld: [String: Int] = [:]
    /// Rows that fail their checksum: what they were is delivered, and cannot be again.
    private var damaged: [Int64] = []

    init(_ db: Database, _ segment: PendingSegment, _ redelivery: Redelivery) throws {
        self.segment = segment
        books = DeliveryBooks(
            segment: segment.id, further: segment.isFurther ? redelivery.destination : nil)
        let delivered = try books.delivered(db)
        let losses = try books.losses(db)
        var skipped = 0
        while true {
            var rows = self
            try rows.walk(db, redelivery, skipping: skipped)
            for (reason, count) in rows.withheld {
                rows.withheld[reason] = min(count, losses[reason] ?? 0)
            }
            // The oldest were dropped by something else, such as their age, and were never there.
            let excess = rows.count - rows.withheld.values.reduce(0, +) - delivered
            guard excess > 0 else {
                self = rows
                return
            }
            skipped += excess
        }
    }

    private mutating func walk(
        _ db: Database, _ redelivery: Redelivery, skipping skipped: Int
    ) throws {
        let length = redelivery.window?.microseconds
        func window(_ time: UTC) -> Int64? {
            length.map { (time.microseconds - time.microseconds % $0) / $0 }
        }
        let since = length.map { redelivery.since.microseconds / $0 * $0 }
        var previous: Int64?
        // What came before the first row that is kept may have been in its window.
        var isFirst = try books.isUnpruned(db)
        var left = skipped
        let rows = try Row.fetchCursor(
            db.cachedStatement(sql: books.settledSQL),
            arguments: books.settledArguments(segment.pending))
        while let row = try rows.next() {
            let sample = SampleRow(row)
            guard sample.isIntact, let time = sample.time(segment.wallOffset) else {
                damaged.append(sample.id)
                continue
            }
            let isLetter: Bool = row[SampleColumn.count] ?? false
            keptSince = keptSince ?? time
            let ours = window(time)
            let begins = ours == nil || (previous == nil ? isFirst : ours != previous)
            previous = ours
            isFirst = false
            if left > 0 {
                if !isLetter { left -= 1 }
                continue
            }
            if first == nil {
                guard begins, time.microseconds >= since ?? redelivery.since.microseconds else {
                    continue
                }
                first = sample.id
            }
            guard !isLetter else { continue }
            firstTime = firstTime ?? time
            count += 1
            if let reason = redelivery.withheld(PendingSample(sample, time, of: segment)) {
                withheld[reason, default: 0] += 1
            }
        }
    }

    func putBack(_ db: Database) throws {
        guard let first, count > 0 else { return }
        try books.insertRedeliveries(
            db, of: first...segment.pending.upperBound, except: Set(damaged))
        for (reason, count) in withheld { try books.takeBack(db, count, droppedFor: reason) }
        try books.move(db, delivered: -count)
    }
}
