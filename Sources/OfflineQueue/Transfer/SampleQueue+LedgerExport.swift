import Basics
import GRDB

extension SampleQueue {
    /// Writes the gaps of the store at `path` to `sink` as CSV, oldest first: those that overlap the filter's times, to
    /// their whole length, and those whose time is unknown.
    ///
    /// Only reads, in one snapshot, whether or not a daemon runs. A gap that goes on counts up to the last commit. The
    /// file names sensors and patients. The filter's destination is not asked for.
    ///
    /// - Returns: how many.
    /// - Throws: ``QueueError`` (`unknown-reference` as
    ///   ``export(path:format:selection:filter:now:progress:to:)`` does), and whatever `sink` throws.
    @discardableResult
    public static func exportGaps(
        path: String, filter: ExportFilter = ExportFilter(), to sink: ([UInt8]) throws -> Void
    ) throws -> Int {
        try filter.exportTable(path, "export gaps", ExportColumn.gaps, to: sink) { db, lines in
            let ledger = try StoredLedger(db)
            var count = 0
            for row in try ledger.gaps(db, filter) {
                let (gap, worn) = (row.gap(ledger.boots), ledger.assignments[row.assignment])
                let sensor: String = worn?["address"] ?? ""
                guard filter.sensor == nil || filter.sensor == sensor else { continue }
                let length = gap.duration.map { ExportColumn.decimal($0.inSeconds) }
                try lines.add(
                    ExportColumn.line([
                        sensor, String(row.assignment), worn?["worn_by"] ?? "",
                        gap.cause.rawValue, gap.from.flatMap(UTCText.text) ?? "",
                        gap.until.flatMap(UTCText.text) ?? "", length ?? "", String(gap.isOpen),
                    ]), to: sink)
                count += 1
            }
            return count
        }
    }

    /// Writes how much of each UTC day there is data for to `sink` as CSV, oldest day first, a row for each sensor and
    /// patient: of the days that the filter's times touch. A day on which the sensor was not assigned has no row.
    ///
    /// Reads and throws as ``exportGaps(path:filter:to:)`` does.
    ///
    /// - Returns: how many rows.
    @discardableResult
    public static func exportCoverage(
        path: String, filter: ExportFilter = ExportFilter(), to sink: ([UInt8]) throws -> Void
    ) throws -> Int {
        let columns = ExportColumn.coverage
        return try filter.exportTable(path, "export coverage", columns, to: sink) { db, lines in
            let days = try StoredLedger(db).coverage(db, filter)
            for (key, day) in days {
                let causes = day.secondsByCause.map { ($0.key.rawValue, $0.value) }
                let figures = ExportColumn.figures(
                    percent: day.percent, expectedSeconds: day.expectedSeconds,
                    coveredSeconds: day.coveredSeconds, longestGapSeconds: day.longestGapSeconds,
                    secondsByCause: Dictionary(causes, uniquingKeysWith: +))
                let date = String(UTCText.text(day.dayStart)?.prefix(10) ?? "")
                try lines.add(
                    ExportColumn.line([key.sensor, key.patient, date] + figures), to: sink)
            }
            return days.count
        }
    }
}

/// The gaps and assignments of a store, as its file has them.
private struct StoredLedger {
    /// Which rows of coverage are one.
    struct Key: Hashable {
        var day: Int64
        var sensor: String
        var patient: String
    }

    let boots: Boots
    /// With the address of the sensor and the patient who wore it.
    let assignments: [Int64: Row]
    /// Up to when the store knows what was recorded; nil before the first run.
    private let end: Instant?

    init(_ db: Database) throws {
        boots = try Boots(db)
        end = try PreviousRun(db)?.end
        let rows = try Row.fetchAll(
            db,
            sql: """
                SELECT a.*, n.address, coalesce(a.patient, e.patient) AS worn_by
                FROM assignment a JOIN sensor n ON n.id = a.sensor
                LEFT JOIN enrollment e ON e.id = a.enrollment
                WHERE NOT a.is_imported
                """)
        assignments = Dictionary(rows.map { ($0["id"] ?? 0, $0) }) { first, _ in first }
    }

    /// Those that overlap the filter's times, and those that go on.
    func gaps(_ db: Database, _ filter: ExportFilter) throws -> [GapRow] {
        let closed = try GapRow.closed(
            db, assignment: nil, since: filter.since, until: filter.until, limit: -1)
        let open = try GapRow.open(db, until: end).filter {
            $0.overlaps(since: filter.since, until: filter.until, boots)
        }
        return (closed + open).sorted(by: GapRow.isEarlier)
    }

    func coverage(
        _ db: Database, _ filter: ExportFilter
    ) throws -> [(key: Key, day: Coverage)] {
        guard let end else { return [] }
        let first = filter.since?.day ?? .min
        let last = filter.until.map { ($0 - .microseconds(1)).day } ?? .max
        // A time line leads from boot to boot: it takes all of its gaps.
        let gaps = Dictionary(grouping: try self.gaps(db, ExportFilter()), by: \.assignment)
        var days: [Key: Coverage] = [:]
        for (id, worn) in assignments.sorted(by: { $0.key < $1.key }) {
            let sensor: String = worn["address"] ?? ""
            guard filter.sensor == nil || filter.sensor == sensor else { continue }
            let line = TimeLine(of: worn, now: end, gaps: gaps[id] ?? [])
            var spans: [Int64: [TimeSpan]] = [:]
            for span in line.spans(boots) where span.from < span.until {
                let touched =
                    max(
                        span.from.day, first)...max(
                        span.from.day, first, min((span.until - .microseconds(1)).day, last))
                for day in touched where day <= last { spans[day, default: []].append(span) }
            }
            for (day, spans) in spans {
                let key = Key(day: day, sensor: sensor, patient: worn["worn_by"] ?? "")
                days[key, default: Coverage(dayStart: UTC(day: day))].add(spans)
            }
        }
        return days.filter { $0.value.expectedSeconds > 0 }.map { ($0.key, $0.value) }.sorted {
            ($0.key.day, $0.key.sensor, $0.key.patient)
                < ($1.key.day, $1.key.sensor, $1.key.patient)
        }
    }
}
