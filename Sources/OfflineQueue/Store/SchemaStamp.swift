import GRDB

// Each step of the schema stamps the store: `user_version` is a checksum of the steps so far and of what SQLite keeps
// of the tables. Whoever opens a store makes it again:
//
//   - The stamp is not that of the tables: they were damaged since, or the stamp was.
//   - It is, and not one of this program: the store is sound, and another version's. A store without a stamp is
//     another program's.

extension Schema {
    /// Stamps a store in the transaction of a step, whose name is not among the steps yet.
    static func stamp(_ db: Database, after step: String) throws {
        try db.execute(
            sql: "PRAGMA user_version = \(try checksum(db, try steps(db).union([step])))")
        // It was of the tables as they were before.
        try db.execute(sql: "UPDATE registry_change SET seal = NULL")
    }

    /// Whether a store has every step of this program; false for one without tables, and for one that a step is
    /// still to come for. Only reads.
    ///
    /// - Throws: ``QueueError`` `other-version` for a sound store that this program does not know; `corrupt` if its
    ///   tables are not as they were made.
    static func isComplete(_ db: Database) throws -> Bool {
        let (steps, stamp) = (try steps(db), try stamp(of: db))
        if steps.isEmpty, stamp == 0, try statements(db).isEmpty { return false }
        if stamp != 0, stamp != (try checksum(db, steps)) {
            throw QueueError(.corrupt, "open store", "its tables are not as they were made")
        }
        let known = migrator.migrations.prefix(steps.count)
        guard stamp != 0, let last = known.last, Set(known) == steps,
            stamp == (try made.get()[last])
        else {
            throw QueueError(
                .otherVersion, "open store", "another version of edge-gateway wrote this store")
        }
        return steps.count == migrator.migrations.count
    }

    /// The stamps of stores that this program makes, by their last step. To make one takes longer than all else of an
    /// opening.
    private static let made = Result<[String: Int32], any Error> {
        let database = try DatabaseQueue()
        defer { try? database.close() }
        return try migrator.migrations.reduce(into: [String: Int32]()) { stamps, step in
            try migrator.migrate(database, upTo: step)
            stamps[step] = try database.read(stamp(of:))
        }
    }

    private static func stamp(of db: Database) throws -> Int32 {
        try Int32.fetchOne(db, sql: "PRAGMA user_version") ?? 0
    }

    private static func steps(_ db: Database) throws -> Set<String> {
        guard try db.tableExists("grdb_migrations") else { return [] }
        return try String.fetchSet(db, sql: "SELECT identifier FROM grdb_migrations")
    }

    /// Of the tables, indexes and triggers that a step makes.
    private static func statements(_ db: Database) throws -> [String] {
        try String.fetchAll(
            db,
            sql: """
                SELECT type || ' ' || name || ' ' || sql FROM sqlite_master
                WHERE sql IS NOT NULL AND name <> 'grdb_migrations' AND name NOT LIKE 'sqlite_%'
                ORDER BY type, name
                """)
    }

    /// Never 0, which says that there is none.
    private static func checksum(_ db: Database, _ steps: Set<String>) throws -> Int32 {
        let lines = steps.sorted() + (try statements(db))
        let sum = Int32(bitPattern: RowChecksum.crc32(lines.flatMap { [UInt8]($0.utf8) + [0x0A] }))
        return sum == 0 ? 1 : sum
    }
}
