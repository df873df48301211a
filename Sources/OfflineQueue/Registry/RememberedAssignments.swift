import GRDB

/// The open assignments and their sensors, as the store had them after the last change: a salvage puts back what it
/// cannot read.
struct RememberedAssignments: Sendable {
    private typealias Values = [String: DatabaseValue]

    private var sensors: [Values] = []
    private var assignments: [Values] = []

    init() {}

    init(_ db: Database) throws {
        let open = "FROM assignment WHERE ended_boot IS NULL"
        assignments = try Self.rows(db, "SELECT * \(open)")
        sensors = try Self.rows(db, "SELECT * FROM sensor WHERE id IN (SELECT sensor \(open))")
    }

    private static func rows(_ db: Database, _ sql: String) throws -> [Values] {
        try Row.fetchAll(db, sql: sql).map { row in
            Dictionary(row, uniquingKeysWith: { first, _ in first })
        }
    }

    /// Puts back those that are lost. One whose enrollment is lost as well goes on without.
    func putBack(_ db: Database) throws {
        for sensor in sensors {
            try insert(sensor, into: "sensor", db)
            // A salvage makes one up of which it knows no more than the number.
            let names = sensor.keys.sorted()
            try db.execute(
                sql: """
                    UPDATE OR IGNORE sensor SET \(names.map { "\($0) = ?" }.joined(separator: ", "))
                    WHERE id = ? AND address = 'salvaged-' || id
                    """,
                arguments: StatementArguments(names.map { sensor[$0] } + [sensor["id"]]))
        }
        for assignment in assignments {
            var assignment = assignment
            guard try exists(assignment["sensor"], in: "sensor", db) else { continue }
            if try !exists(assignment["enrollment"], in: "enrollment", db) {
                assignment["enrollment"] = .null
            }
            try insert(assignment, into: "assignment", db)
        }
    }

    private func insert(_ row: Values, into table: String, _ db: Database) throws {
        let names = row.keys.sorted()
        let marks = names.map { _ in "?" }.joined(separator: ", ")
        try db.execute(
            sql: """
                INSERT OR IGNORE INTO \(table) (\(names.joined(separator: ", "))) VALUES (\(marks))
                """,
            arguments: StatementArguments(names.map { row[$0] }))
    }

    private func exists(_ id: DatabaseValue?, in table: String, _ db: Database) throws -> Bool {
        try Bool.fetchOne(
            db, sql: "SELECT EXISTS (SELECT 1 FROM \(table) WHERE id = ?)", arguments: [id]) == true
    }
}
