import Basics
import GRDB

/// A stored sample and where it stands.
public struct ListedSample: Sendable, Hashable {
    /// Where a sample can stand.
    public typealias State = SampleState

    /// The sample's number.
    public let id: Int64
    /// The sensor it came from.
    public let sensorID: Int64
    /// Its delivery, if any.
    public let enrollmentID: Int64?
    /// When it arrived; nil if that clock is not trusted.
    public let time: UTC?
    /// How far that may be wrong; nil if nobody says.
    public let timeUncertainty: Duration?
    /// The bytes of the notification.
    public let frame: [UInt8]
    /// Where it stands.
    public let state: State
    /// Why it is held, dead or dropped.
    public let reason: String?
}

extension SampleQueue {
    /// Samples one listing holds at most.
    /// One more than a caller gets, which shows whether there are more.
    public static let listedMax = 10_001

    /// Stored samples, newest first, `limit` (0…``listedMax``) at most: of one state or all, of one
    /// sensor or all, measured between two times or whenever. Those that only memory has are not among them.
    public func samples(
        state: ListedSample.State? = nil, sensor: Int64? = nil, since: UTC? = nil,
        until: UTC? = nil, limit: Int = 100
    ) throws(QueueError) -> [ListedSample] {
        let limit = min(max(limit, 0), Self.listedMax)
        return try read("list samples") { [holds = deliveries.patientHolds] db in
            let segments = try ListedSegment.all(
                db, sensor: sensor, since: since, until: until, holds)
            var found: [ListedSample] = []
            if state == nil || state == .dead {
                found += try Self.letters(db, segments, isRequeued: false, limit)
            }
            for done in [ListedSample.State.delivered, .dropped] where state == nil || state == done
            {
                found += try Self.rows(db, segments, limit, state: done) {
                    done == .dropped ? $0.dropped : $0.doneWith
                }
            }
            for waiting in [ListedSample.State.pending, .held]
            where state == nil || state == waiting {
                let chosen = segments.filter { ($0.value.hold == nil) == (waiting == .pending) }
                found += try Self.rows(db, chosen, limit, state: waiting) { $0.waiting }
                found += try Self.letters(db, chosen, isRequeued: true, limit)
            }
            return Array(found.sorted { $0.id > $1.id }.prefix(limit))
        }
    }

    /// The newest rows of these segments within their ranges, dead letters left out.
    private static func rows(
        _ db: Database, _ segments: [Int64: ListedSegment], _ limit: Int,
        state: ListedSample.State, _ range: (ListedSegment) -> ClosedRange<Int64>?
    ) throws -> [ListedSample] {
        let ranges = segments.compactMapValues(range)
        var found: [ListedSample] = []
        for span in ClosedRange<Int64>.joined(ranges.values).reversed()
        where found.count < limit {
            let rows = try Row.fetchCursor(
                db.cachedStatement(
                    sql: """
                        SELECT \(SampleColumn.listOfP),
                            \(DeliveryBooks.droppedSQL(destination: "0"))
                        FROM sample p WHERE p.id BETWEEN ? AND ?
                            AND NOT EXISTS (SELECT 1 FROM dead_letter d WHERE d.sample = p.id)
                        ORDER BY p.id DESC
                        """), arguments: [span.lowerBound, span.upperBound])
            while found.count < limit, let row = try rows.next() {
                let sample = SampleRow(row)
                guard let segment = segments[sample.segment],
                    ranges[sample.segment]?.contains(sample.id) == true, segment.admits(sample)
                else { continue }
                let dropped = row[SampleColumn.count] as String?
                if [.delivered, .dropped].contains(state),
                    (dropped != nil) != (state == .dropped)
                {
                    continue
                }
                found.append(
                    ListedSample(
                        sample, segment, state, reason: state == .dropped ? dropped : segment.hold))
            }
        }
        return found
    }

    /// The newest dead letters of these segments: dead, or put back.
    private static func letters(
        _ db: Database, _ segments: [Int64: ListedSegment], isRequeued: Bool, _ limit: Int
    ) throws -> [ListedSample] {
        let rows = try Row.fetchCursor(
            db,
            sql: """
                SELECT \(SampleColumn.listOfP), d.reason
                FROM dead_letter d JOIN sample p ON p.id = d.sample
                WHERE d.is_requeued = ? ORDER BY d.sample DESC
                """, arguments: [isRequeued])
        var found: [ListedSample] = []
        while found.count < limit, let row = try rows.next() {
            let sample = SampleRow(row)
            guard let segment = segments[sample.segment], segment.admits(sample) else { continue }
            let waits = segment.hold == nil ? ListedSample.State.pending : .held
            found.append(
                ListedSample(
                    sample, segment, isRequeued ? waits : .dead,
                    reason: isRequeued ? segment.hold : row[SampleColumn.count]))
        }
        return found
    }
}

/// A segment that has rows, and what they have in common.
private struct ListedSegment: Sendable {
    var sensorID: Int64
    var enrollmentID: Int64?
    var wallOffset: WallOffset?
    var clock: BootClock?
    var hold: String?
    /// Ids of rows that are done with, and of those that wait.
    var doneWith: ClosedRange<Int64>?
    var waiting: ClosedRange<Int64>?
    /// From the first to the last that was dropped, of those that are done with.
    var dropped: ClosedRange<Int64>? {
        guard let doneWith, let droppedSpan else { return nil }
        return doneWith.overlaps(droppedSpan) ? doneWith.clamped(to: droppedSpan) : nil
    }
    private var droppedSpan: ClosedRange<Int64>?
    private var since, until: UTC?

    /// Whether the sample was measured in the time that is asked for.
    func admits(_ sample: SampleRow) -> Bool {
        sample.time(wallOffset).lies(since: since, until: until)
    }

    static func all(
        _ db: Database, sensor: Int64?, since: UTC?, until: UTC?,
        _ patientHolds: [Int64: [String?: String]]
    ) throws -> [Int64: ListedSegment] {
        let rows = try Row.fetchCursor(
            db,
            sql: """
                SELECT s.id, a.sensor, a.enrollment, s.wall_offset_us,
                    \(SampleQueue.BooksView.own.hold) AS hold,
                    s.pruned_through, s.settled_through, s.last_sample, a.patient, r.boot,
                    (SELECT min(d.first_sample) FROM dropped_range d
                        WHERE d.segment = s.id AND d.destination = 0),
                    (SELECT max(d.last_sample) FROM dropped_range d
                        WHERE d.segment = s.id AND d.destination = 0)
                \(SampleQueue.BooksView.own.sql)
                WHERE (?1 IS NULL OR a.sensor = ?1) AND s.stored > s.pruned
                    AND (?2 IS NULL OR s.last_uptime_us + s.wall_offset_us >= ?2)
                    AND (?3 IS NULL OR s.first_uptime_us + s.wall_offset_us < ?3)
                """,
            // A segment is of one day, and a late frame may be earlier than its first.
            arguments: [sensor, since, until.map { $0 + Coverage.day }])
        var segments: [Int64: ListedSegment] = [:]
        var clocks = BootClocks(db)
        while let row = try rows.next() {
            guard let id = row[0] as Int64? else { continue }
            let pruned: Int64 = row[5] ?? 0
            let settled: Int64 = row[6] ?? 0
            let last: Int64 = row[7] ?? 0
            let delivery: [String?: String]? = (row[2] as Int64?).flatMap { patientHolds[$0] }
            let ofPatient = delivery?[row[8] as String?]
            var segment = ListedSegment(
                sensorID: row[1] ?? 0, enrollmentID: row[2], wallOffset: row[3],
                clock: try clocks.of(row[9] ?? 0), hold: row[4] ?? ofPatient,
                doneWith: pruned < settled ? pruned + 1...settled : nil,
                waiting: settled < last ? settled + 1...last : nil)
            (segment.since, segment.until) = (since, until)
            if let first = row[10] as Int64?, let end = row[11] as Int64?, first <= end {
                segment.droppedSpan = first...end
            }
            segments[id] = segment
        }
        return segments
    }
}

extension ListedSample {
    fileprivate init(
        _ sample: SampleRow, _ segment: ListedSegment, _ state: State, reason: String?
    ) {
        id = sample.id
        sensorID = segment.sensorID
        enrollmentID = segment.enrollmentID
        time = sample.time(segment.wallOffset)
        timeUncertainty = time.flatMap { _ in sample.timeUncertainty(segment.clock) }
        frame = sample.frame
        self.state = state
        self.reason = reason
    }
}
