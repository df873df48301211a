import Basics
import GRDB

/// The facts that the samples of a segment have in common.
struct ExportedSegment: Sendable {
    /// How far one of its destinations is.
    struct Delivery: Sendable {
        /// Nil without an enrollment.
        var name: String?
        var settledThrough: Int64
        var isHeld: Bool
        /// The samples that it does not get.
        var dropped: [ClosedRange<Int64>]

        func state(of sample: Int64, _ isRequeued: Bool?) -> SampleState {
            if sample > settledThrough || isRequeued == true { return isHeld ? .held : .pending }
            if isRequeued == false { return .dead }
            return isDropped(sample) ? .dropped : .delivered
        }

        /// Looks in half of what is left, again and again: there may be a range for every other sample.
        private func isDropped(_ sample: Int64) -> Bool {
            var (first, end) = (0, dropped.count)
            while first < end {
                let middle = (first + end) / 2
                if dropped[middle].upperBound < sample { first = middle + 1 } else { end = middle }
            }
            return first < dropped.count && dropped[first].contains(sample)
        }
    }

    var own: Delivery
    var further: [(id: Int64, delivery: Delivery)]
    var identityShift: Int64
    var assignmentID: Int64
    var nonce: UInt64
    var bootID: String
    var wallOffset: WallOffset?
    var clock: BootClock?
    var sensor: String
    var patient: String?
    /// Whether a destination gets averages of its samples.
    var isAveraged = false
}

extension ExportedSegment {
    init?(_ db: Database, _ id: Int64) throws {
        let row = try Row.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT s.settled_through, s.identity_shift, s.assignment, r.nonce, b.boot_id,
                        s.wall_offset_us, n.address, coalesce(a.patient, e.patient), e.name,
                        e.id IS NULL OR s.wall_offset_us IS NULL OR e.state <> 'active'
                            OR e.hold_reason IS NOT NULL, r.boot,
                        coalesce(e.resolution, 'raw') <> 'raw' OR EXISTS (
                            SELECT 1 FROM further_delivery d
                            JOIN enrollment f ON f.id = d.destination
                            WHERE d.segment = s.id AND f.resolution <> 'raw')
                    FROM segment s
                    JOIN run r ON r.id = s.run
                    JOIN boot b ON b.id = r.boot
                    JOIN assignment a ON a.id = s.assignment
                    JOIN sensor n ON n.id = a.sensor
                    LEFT JOIN enrollment e ON e.id = a.enrollment
                    WHERE s.id = ?
                    """), arguments: [id])
        guard let row else { return nil }
        let ranges = try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT destination, first_sample, last_sample FROM dropped_range
                    WHERE segment = ? ORDER BY first_sample
                    """), arguments: [id])
        var dropped: [Int64: [ClosedRange<Int64>]] = [:]
        for range in ranges {
            let first: Int64 = range[1] ?? 0
            dropped[range[0] ?? 0, default: []].append(first...max(first, range[2] ?? 0))
        }
        let isUntimed = row[5] as Int64? == nil
        let further = try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT d.destination, e.name, d.settled_through,
                        e.state <> 'active' OR e.hold_reason IS NOT NULL
                    FROM further_delivery d JOIN enrollment e ON e.id = d.destination
                    WHERE d.segment = ? ORDER BY e.name
                    """), arguments: [id]
        ).map { row -> (id: Int64, delivery: Delivery) in
            let destination: Int64 = row[0] ?? 0
            return (
                destination,
                Delivery(
                    name: row[1], settledThrough: row[2] ?? 0, isHeld: isUntimed || row[3] ?? true,
                    dropped: dropped[destination] ?? [])
            )
        }
        self.init(
            own: Delivery(
                name: row[8], settledThrough: row[0] ?? 0, isHeld: row[9] ?? true,
                dropped: dropped[0] ?? []),
            further: further, identityShift: row[1] ?? 0, assignmentID: row[2] ?? 0,
            nonce: try SampleIdentity.nonce(stored: row[3]), bootID: row[4] ?? "",
            wallOffset: row[5], clock: try BootClock(db, boot: row[10] ?? 0),
            sensor: row[6] ?? "", patient: row[7], isAveraged: row[11] ?? false)
    }
}

/// The dead letters of a store, read along with its samples.
struct ExportedLetters {
    /// Where a sample died.
    enum Place: Hashable {
        case own
        case further(Int64)
    }

    private let rows: RowCursor
    private var next: (sample: Int64, place: Place, isRequeued: Bool)?

    init(_ db: Database) throws {
        rows = try Row.fetchCursor(
            db,
            sql: """
                SELECT sample, is_requeued, NULL FROM dead_letter
                UNION ALL SELECT sample, is_requeued, destination FROM further_dead_letter
                ORDER BY 1
                """)
        try advance()
    }

    /// Those of one sample, and whether they were put back since; samples are asked for in order.
    mutating func of(_ sample: Int64) throws -> [Place: Bool] {
        var found: [Place: Bool] = [:]
        while let letter = next, letter.sample <= sample {
            if letter.sample == sample { found[letter.place] = letter.isRequeued }
            try advance()
        }
        return found
    }

    private mutating func advance() throws {
        next = try rows.next().map { row in
            (
                row[0] ?? 0, (row[2] as Int64?).map(Place.further) ?? .own,
                row[1] as Bool? ?? false
            )
        }
    }
}
