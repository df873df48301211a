import Basics
import GRDB

/// How samples are written out.
public enum ExportFormat: String, Sendable, Hashable, CaseIterable {
    /// One JSON object a line, ASCII; ``SampleQueue/importSamples(from:into:progress:)`` reads it back.
    case ndjson
    /// RFC 4180, with a line of names: for people's own tools.
    case csv
}

/// Which samples are written out.
public enum ExportSelection: String, Sendable, Hashable, CaseIterable {
    /// Those that wait for a destination, for whatever reason.
    case unsent
    /// Every sample that is there, delivered ones too.
    case everything
}

/// Which of them, by time and sensor; the default leaves none out.
public struct ExportFilter: Sendable, Hashable {
    /// Only samples measured at this time or later. Those without a known time are left out.
    public var since: UTC?
    /// Only samples measured before this time. Those without a known time are left out.
    public var until: UTC?
    /// Only samples of the sensor with this address, upper case.
    public var sensor: String?
    /// Only samples that go to the destination of this name; with ``ExportSelection/unsent`` those that wait
    /// for it.
    public var destination: String?

    /// Leaves out what lies before `since`, or at or after `until`, is of another sensor, or does not go to
    /// `destination`.
    public init(
        since: UTC? = nil, until: UTC? = nil, sensor: String? = nil, destination: String? = nil
    ) {
        self.since = since
        self.until = until
        self.sensor = sensor
        self.destination = destination
    }

    /// Throws `unknown-reference` if the store has no such sensor or destination: nothing would be admitted.
    func check(_ db: Database, _ operation: String) throws {
        for (name, table, column, what) in [
            (sensor, "sensor", "address", "no sensor has this address"),
            (destination, "enrollment", "name", "no destination has this name"),
        ] {
            guard let name else { continue }
            let sql = "SELECT EXISTS (SELECT 1 FROM \(table) WHERE \(column) = ?)"
            if try Bool.fetchOne(db, sql: sql, arguments: [name]) != true {
                throw QueueError(.unknownReference, operation, what)
            }
        }
    }

    /// The same, widened to whole minutes: of part of a minute the gateway that imports it would make another average.
    fileprivate var ofWholeMinutes: ExportFilter {
        var whole = self
        whole.since = since.map { UTC(microseconds: $0.microseconds &- $0.intoMinute) }
        whole.until = until.map { until in
            let into = until.intoMinute
            return into == 0
                ? until : UTC(microseconds: until.microseconds &+ (ImportMinute.length - into))
        }
        return whole
    }

    fileprivate func admits(_ line: ExportLine, _ selection: ExportSelection) -> Bool {
        guard let destination else { return selection == .everything || line.isUnsent }
        guard let state = line.state(at: destination) else { return false }
        return selection == .everything || state.isUnsent
    }

    fileprivate func admits(_ sample: SampleRow, _ segment: ExportedSegment) -> Bool {
        (sensor == nil || sensor == segment.sensor)
            && sample.time(segment.wallOffset).lies(since: since, until: until)
    }
}

/// Lines on their way to whoever writes an export, in pieces of about 64 KiB.
struct ExportLines {
    private static let pieceBytes = 65_536

    private var piece: [UInt8] = []

    mutating func add(_ line: String, to sink: ([UInt8]) throws -> Void) throws {
        piece += line.utf8
        piece.append(UInt8(ascii: "\n"))
        if piece.count >= Self.pieceBytes { try flush(to: sink) }
    }

    /// Hands on what waits.
    mutating func flush(to sink: ([UInt8]) throws -> Void) throws {
        if !piece.isEmpty { try sink(piece) }
        piece.removeAll(keepingCapacity: true)
    }
}

extension ExportFilter {
    /// Writes a table of the store at `path` as CSV: `body` adds its lines.
    func exportTable<Value>(
        _ path: String, _ operation: String, _ columns: [String],
        to sink: ([UInt8]) throws -> Void,
        _ body: (Database, inout ExportLines) throws -> Value
    ) throws -> Value {
        try StoreFile.readOnce(path, operation) { db in
            try check(db, operation)
            var lines = ExportLines()
            try lines.add(ExportColumn.header(columns), to: sink)
            let value = try body(db, &lines)
            try lines.flush(to: sink)
            return value
        }
    }
}

/// The result of an export.
public struct ExportSummary: Sendable, Hashable {
    /// Samples written.
    public internal(set) var samples = 0
    /// Samples left out because their row fails its checksum.
    public internal(set) var damaged = 0
    /// Whether samples that the filter admits were left out because they wait for no destination.
    public internal(set) var leavesOut = false
    /// Samples left out because straps still record their minute.
    public internal(set) var underWay = 0
}

extension SampleQueue {
    /// The sensors of the store at `path`, forgotten ones too, and the names of its destinations. Works whether or not
    /// a daemon runs.
    public static func names(
        path: String
    ) throws -> (sensors: [Sensor], destinations: [String]) {
        try StoreFile.readOnce(path, "read names") { db in
            (
                try Row.fetchAll(db, sql: "SELECT * FROM sensor ORDER BY id")
                    .map(Sensor.init(row:)),
                try String.fetchAll(db, sql: "SELECT name FROM enrollment ORDER BY id")
            )
        }
    }

    /// Writes the samples of the store at `path` to `sink`, in pieces of about 64 KiB, oldest first.
    ///
    /// Only reads, in one snapshot. A daemon may be at work meanwhile; its log grows until this ends. An
    /// exported sample stays what it was: delivered from here and from where the file is imported, it
    /// has the same identity, and the exchange keeps it once. The file names sensors and patients.
    ///
    /// Unsent samples that are sent as averages are exported for an import by whole minutes. With `now`, the minutes that
    /// straps may still record are left out.
    ///
    /// `progress` gets the part done, 0…1, about every thousandth. Throws ``QueueError``
    /// (`unknown-reference` before it writes anything, if the filter names a sensor or a destination that the store
    /// does not have), and whatever `sink` throws.
    @discardableResult
    public static func export(
        path: String, format: ExportFormat = .ndjson, selection: ExportSelection = .unsent,
        filter: ExportFilter = ExportFilter(), now: UTC? = nil,
        progress: (Double) -> Void = { _ in }, to sink: ([UInt8]) throws -> Void
    ) throws -> ExportSummary {
        try StoreFile.readOnce(path, "export samples") { db in
            try filter.check(db, "export samples")
            let isForImport = format == .ndjson && selection == .unsent
            var export = SampleExport(
                db: db, format: format, selection: selection, filter: filter,
                ofAverages: isForImport ? filter.ofWholeMinutes : filter,
                underWay: isForImport ? try now.flatMap { try MinutesUnderWay(db, now: $0) } : nil)
            return try export.run(progress, sink)
        }
    }
}

extension SampleQueue {
    /// Whether the store at `path` may lack samples that the filter admits, because it has deleted them since they were
    /// settled everywhere.
    ///
    /// A segment's oldest samples are deleted first: they were measured before the first one that is left.
    public static func hasDeletedSamples(path: String, filter: ExportFilter) throws -> Bool {
        try StoreFile.readOnce(path, "look for deleted samples") { db in
            try Bool.fetchOne(
                db,
                sql: """
                    SELECT EXISTS (
                        SELECT 1 FROM segment s
                        JOIN assignment a ON a.id = s.assignment
                        JOIN sensor n ON n.id = a.sensor
                        LEFT JOIN enrollment e ON e.id = a.enrollment
                        WHERE s.pruned > 0 AND (?1 IS NULL OR n.address = ?1)
                            AND (?2 IS NULL OR s.wall_offset_us + coalesce(
                                (SELECT p.uptime_us FROM sample p
                                    WHERE p.id BETWEEN s.pruned_through + 1 AND s.last_sample
                                        AND +p.segment = s.id ORDER BY p.id LIMIT 1),
                                s.last_uptime_us + 1) > ?2)
                            AND (?3 IS NULL OR s.first_uptime_us + s.wall_offset_us < ?3)
                            AND (?4 IS NULL OR e.name = ?4 OR EXISTS (
                                SELECT 1 FROM further_delivery d
                                JOIN enrollment f ON f.id = d.destination
                                WHERE d.segment = s.id AND f.name = ?4)))
                    """,
                arguments: [filter.sensor, filter.since, filter.until, filter.destination])
                ?? false
        }
    }
}

/// One export under way.
private struct SampleExport {
    /// Segments kept in memory; the samples of only a few are interleaved at a time.
    private static let segmentsMax = 1_024

    let db: Database
    let format: ExportFormat
    let selection: ExportSelection
    let filter: ExportFilter
    /// The same for samples that are sent as averages.
    let ofAverages: ExportFilter
    let underWay: MinutesUnderWay?
    var summary = ExportSummary()
    var segments: [Int64: ExportedSegment] = [:]

    mutating func run(
        _ progress: (Double) -> Void, _ sink: ([UInt8]) throws -> Void
    ) throws -> ExportSummary {
        var lines = ExportLines()
        let isNDJSON = format == .ndjson
        try lines.add(
            isNDJSON ? ExportLine.header : ExportColumn.header(ExportColumn.samples), to: sink)
        var letters = try ExportedLetters(db)
        let first = try firstID()
        if selection == .unsent { summary.leavesOut = try isSettled(before: first) }
        let last = try Int64.fetchOne(db, sql: "SELECT max(id) FROM sample") ?? 0
        let span = max(1, last &- first)
        var next = first
        let key = try db.storeKey()
        let rows = try Row.fetchCursor(
            db,
            sql: """
                SELECT \(SampleColumn.list) FROM sample
                WHERE id >= ? ORDER BY id
                """, arguments: [first])
        while let row = try rows.next() {
            let sample = SampleRow(row)
            if sample.id >= next {
                progress(Double(sample.id &- first) / Double(span))
                next = sample.id &+ max(1, span / 1_000)
            }
            guard sample.isIntact(key), let segment = try segment(sample.segment) else {
                summary.damaged += 1
                continue
            }
            let line = ExportLine(sample, segment, letters: try letters.of(sample.id))
            let filter = segment.isAveraged ? ofAverages : filter
            guard filter.admits(sample, segment) else { continue }
            guard filter.admits(line, selection) else {
                if filter.admits(line, .everything) { summary.leavesOut = true }
                continue
            }
            if let underWay, underWay.holds(sample, segment) {
                summary.underWay += 1
                continue
            }
            try lines.add(isNDJSON ? line.json : line.csv, to: sink)
            summary.samples += 1
        }
        if isNDJSON { try lines.add(ExportLine.trailer(summary), to: sink) }
        try lines.flush(to: sink)
        return summary
    }

    /// Where to begin: what is settled before the first that waits is skipped.
    private func firstID() throws -> Int64 {
        guard selection == .unsent else {
            return try Int64.fetchOne(db, sql: "SELECT min(id) FROM sample") ?? 0
        }
        return try Int64.fetchOne(
            db,
            sql: """
                SELECT min(id) FROM (
                    SELECT min(d.settled_through + 1) AS id FROM \(DeliveryBooks.allSQL) d
                        JOIN segment s ON s.id = d.segment WHERE d.settled_through < s.last_sample
                    UNION ALL SELECT min(sample) FROM \(SampleQueue.lettersSQL) WHERE is_requeued = 1)
                """) ?? .max
    }

    /// Whether the filter admits a sample that is skipped at the beginning. The first one found answers: counting
    /// them would read a whole card, and so would an index that SQLite makes by itself for `p.segment` without `+`.
    private func isSettled(before first: Int64) throws -> Bool {
        try Bool.fetchOne(
            db,
            sql: """
                SELECT EXISTS (
                    SELECT 1 FROM segment s
                    JOIN assignment a ON a.id = s.assignment
                    JOIN sensor n ON n.id = a.sensor
                    LEFT JOIN enrollment e ON e.id = a.enrollment
                    CROSS JOIN sample p ON +p.segment = s.id
                        AND p.id BETWEEN s.pruned_through + 1 AND min(s.last_sample, ?1 - 1)
                    WHERE s.first_sample < ?1 AND (?2 IS NULL OR n.address = ?2)
                        AND (?3 IS NULL OR s.last_uptime_us + s.wall_offset_us >= ?3)
                        AND (?4 IS NULL OR s.first_uptime_us + s.wall_offset_us < ?4)
                        AND (?3 IS NULL OR p.uptime_us + s.wall_offset_us >= ?3)
                        AND (?4 IS NULL OR p.uptime_us + s.wall_offset_us < ?4)
                        AND (?5 IS NULL OR e.name = ?5 OR EXISTS (
                            SELECT 1 FROM further_delivery d
                            JOIN enrollment f ON f.id = d.destination
                            WHERE d.segment = s.id AND f.name = ?5)))
                """,
            arguments: [first, filter.sensor, filter.since, filter.until, filter.destination])
            ?? false
    }

    private mutating func segment(_ id: Int64) throws -> ExportedSegment? {
        if let known = segments[id] { return known }
        if segments.count >= Self.segmentsMax { segments = [:] }
        let segment = try ExportedSegment(db, id)
        segments[id] = segment
        return segment
    }
}

/// The minutes that straps may still record.
private struct MinutesUnderWay {
    private let nonce: UInt64
    private let times: Range<UTC>

    /// Nil if no run goes on.
    init?(_ db: Database, now: UTC) throws {
        let nonce = try Int64.fetchOne(
            db,
            sql: """
                SELECT nonce FROM run WHERE id = (SELECT max(id) FROM run WHERE is_imported = 0)
                    AND ended_uptime_us IS NULL
                """)
        guard let nonce else { return nil }
        self.nonce = UInt64(bitPattern: nonce)
        let begin = now - PendingRange.grace
        times = UTC(microseconds: begin.microseconds - begin.intoMinute)..<(now + .seconds(60))
    }

    func holds(_ sample: SampleRow, _ segment: ExportedSegment) -> Bool {
        segment.isAveraged && segment.nonce == nonce
            && sample.time(segment.wallOffset).map(times.contains) ?? false
    }
}

extension UTC {
    /// µs since the last whole minute.
    fileprivate var intoMinute: Int64 {
        let into = microseconds % ImportMinute.length
        return into < 0 ? into + ImportMinute.length : into
    }
}
