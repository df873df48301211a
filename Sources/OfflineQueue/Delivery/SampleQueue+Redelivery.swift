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

    /// Samples of a destination.
    public init(destination: Int64, since: UTC, window: Duration? = nil) {
        self.destination = destination
        self.since = since
        self.window = window
    }

    /// The part of it that the store still has.
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

    /// Why the store or a person dropped samples that a destination never had. What its delivery dropped goes back
    /// with the others: a window is named by its first sample, withheld or not.
    static let neverSent = Set(
        LossReason.allCases.map(\.rawValue)
            + [discarded, erased, purged, destinationRemoved, SampleImport.saved])

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

    /// Has delivered samples that are still kept, and those withheld among them, wait for their destination again, under the same identities. A
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
    private let segment: PendingSegment
    private let books: DeliveryBooks
    private(set) var count = 0
    private(set) var firstTime: UTC?
    private(set) var keptSince: UTC?
    private var first: Int64?
    /// How many of them the delivery dropped, by reason.
    private var dropped: [String: Int] = [:]
    /// Rows that fail their checksum, each with why it was dropped: none of them can be delivered again.
    private var damaged: [(id: Int64, dropped: String?)] = []

    init(_ db: Database, _ segment: PendingSegment, _ redelivery: Redelivery) throws {
        self.segment = segment
        books = segment.books(of: redelivery.destination)
        let length = redelivery.window?.microseconds
        func window(_ time: UTC) -> Int64? {
            length.map { (time.microseconds - time.microseconds % $0) / $0 }
        }
        let since = length.map { redelivery.since.microseconds / $0 * $0 }
        var previous: Int64?
        // Rows before the first one that is kept may have been in its window.
        var isFirst = try books.isUnpruned(db)
        let key = try db.storeKey()
        let rows = try Row.fetchCursor(
            db.cachedStatement(sql: books.settledSQL),
            arguments: books.settledArguments(segment.pending))
        while let row = try rows.next() {
            let sample = SampleRow(row)
            let reason: String? = row[SampleColumn.count + 1]
            if let reason, SampleQueue.neverSent.contains(reason) { continue }
            guard sample.isIntact(key), let time = sample.time(segment.wallOffset) else {
                damaged.append((sample.id, reason))
                continue
            }
            keptSince = keptSince ?? time
            let ours = window(time)
            let begins = ours == nil || (previous == nil ? isFirst : ours != previous)
            previous = ours
            isFirst = false
            if first == nil {
                guard begins, time.microseconds >= since ?? redelivery.since.microseconds else {
                    continue
                }
                first = sample.id
            }
            let isLetter: Bool = row[SampleColumn.count] ?? false
            guard !isLetter else { continue }
            firstTime = firstTime ?? time
            count += 1
            if let reason { dropped[reason, default: 0] += 1 }
        }
    }

    func putBack(_ db: Database) throws {
        guard let first, count > 0 else { return }
        let ids = first...segment.pending.upperBound
        for (reason, count) in dropped {
            try books.takeBack(db, ids, count, droppedFor: reason)
        }
        for case (let id, let reason?) in damaged where dropped[reason] != nil && id >= first {
            try books.note(db, dropped: id...id, reason)
        }
        try books.insertRedeliveries(db, of: ids, except: damaged.map(\.id))
        try books.move(db, delivered: -count)
    }
}
