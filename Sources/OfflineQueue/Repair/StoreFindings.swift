import Basics
import GRDB

/// A store whose files were gone.
public struct MissingStore: Sendable, Hashable {
    /// In what way.
    public let detail: String
    /// Whether all of it was carried into new files: the program still had the old ones open.
    public let isCarried: Bool
}

/// The faults of a store that were not acknowledged yet, apart from what was salvaged.
struct StoreFindings: Sendable, Hashable {
    /// Bounds the table on a store that is damaged all over.
    static let damagedMax = 1_000

    var damagedRows = 0
    var missing: MissingStore?

    init() {}

    init(_ db: Database) throws {
        damagedRows =
            try Int.fetchOne(
                db, sql: "SELECT count(*) FROM damaged_row WHERE is_acknowledged = 0") ?? 0
        missing = try Row.fetchOne(
            db,
            sql: """
                SELECT detail, is_carried FROM missing_store
                WHERE is_acknowledged = 0 ORDER BY at_wall_us DESC LIMIT 1
                """
        ).map { row in MissingStore(detail: row[0] ?? "", isCarried: row[1] ?? false) }
    }

    static func insertMissing(
        _ db: Database, at wall: UTC, _ detail: String, isCarried: Bool
    ) throws {
        try db.execute(
            sql: """
                INSERT OR REPLACE INTO missing_store (at_wall_us, detail, is_carried)
                VALUES (?, ?, ?)
                """, arguments: [wall, detail.bounded, isCarried])
    }

    static func acknowledge(_ db: Database) throws {
        try db.execute(sql: "UPDATE damaged_row SET is_acknowledged = 1")
        try db.execute(sql: "UPDATE missing_store SET is_acknowledged = 1")
    }
}
