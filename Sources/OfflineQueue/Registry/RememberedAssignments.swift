import Basics
import GRDB

/// The open assignments and their sensors, as the store had them after the last change. A run that salvages its store
/// believes this rather than what can be read, which may be older.
struct RememberedAssignments: Sendable {
    private typealias Values = SalvageSource.Values

    private var sensors: [Int64: Values] = [:]
    private var assignments: [Int64: Values] = [:]

    init(_ db: Database) throws {
        let open = "FROM assignment WHERE ended_boot IS NULL"
        assignments = try Self.rows(db, "SELECT * \(open)")
        sensors = try Self.rows(db, "SELECT * FROM sensor WHERE id IN (SELECT sensor \(open))")
    }

    private static func rows(_ db: Database, _ sql: String) throws -> [Int64: Values] {
        try Row.fetchAll(db, sql: sql).reduce(into: [:]) { rows, row in
            guard let id = row["id"] as Int64? else { return }
            rows[id] = Dictionary(row, uniquingKeysWith: { first, _ in first })
        }
    }

    /// Puts these rows in the place of those that were read. What was read as open and is not among them has ended:
    /// where the sensor's next assignment begins, or at `now`, when the sensor was forgotten.
    func correct(_ rows: inout [String: [Int64: SalvageSource.Values]], at now: Instant) {
        for (id, row) in rows["assignment"] ?? [:] where Self.isOpen(row) && assignments[id] == nil
        {
            let sensor = Self.number(row, "sensor")
            let next = assignments.values.first { Self.number($0, "sensor") == sensor }
            let (own, other) = (Self.began(row), next.map(Self.began) ?? (now.boot, now.uptime))
            let end = own < other ? other : own
            rows["assignment"]?[id]?["ended_boot"] = end.0.databaseValue
            rows["assignment"]?[id]?["ended_uptime_us"] = end.1.databaseValue
            if next == nil, let sensor {
                rows["sensor"]?[sensor]?["is_forgotten"] = true.databaseValue
            }
        }
        rows["assignment", default: [:]].merge(assignments) { _, remembered in remembered }
        rows["sensor", default: [:]].merge(sensors) { _, remembered in remembered }
    }

    private static func isOpen(_ row: Values) -> Bool { row["ended_boot"]?.isNull ?? true }

    private static func number(_ row: Values, _ column: String) -> Int64? {
        row[column].flatMap(Int64.fromDatabaseValue)
    }

    private static func began(_ row: Values) -> (Int64, Uptime) {
        (
            number(row, "began_boot") ?? 0,
            row["began_uptime_us"].flatMap(Uptime.fromDatabaseValue) ?? .zero
        )
    }
}
