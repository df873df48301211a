import GRDB
import GRDBSQLite

/// Inserts sample rows by SQLite's own calls: it is done once a frame, and putting each argument
/// into GRDB's boxes costs several times as much as the insertion itself.
struct SampleInsertion {
    private static let sql = """
        INSERT INTO sample (id, segment, uptime_us, wall_us, flags, crc, frame)
        VALUES (?, ?, ?, ?, ?, ?, ?)
        """

    private let statement: Statement

    /// For one transaction.
    init(_ db: Database) throws {
        statement = try db.cachedStatement(sql: Self.sql)
    }

    func insert(
        id: Int64, segment: Int64, uptime: Int64, wall: Int64?, flags: Int64, crc: Int64,
        frame: [UInt8]
    ) throws {
        let raw = statement.sqliteStatement
        sqlite3_bind_int64(raw, 1, id)
        sqlite3_bind_int64(raw, 2, segment)
        sqlite3_bind_int64(raw, 3, uptime)
        if let wall { sqlite3_bind_int64(raw, 4, wall) } else { sqlite3_bind_null(raw, 4) }
        sqlite3_bind_int64(raw, 5, flags)
        sqlite3_bind_int64(raw, 6, crc)
        // The bytes are only lent, so the row is inserted while they are there.
        let code = frame.withUnsafeBytes { bytes in
            if let base = bytes.baseAddress, !bytes.isEmpty {
                sqlite3_bind_blob(raw, 7, base, Int32(clamping: bytes.count), nil)
            } else {
                sqlite3_bind_zeroblob(raw, 7, 0)
            }
            return sqlite3_step(raw)
        }
        let message =
            code == SQLITE_DONE ? nil : String(cString: sqlite3_errmsg(sqlite3_db_handle(raw)))
        sqlite3_reset(raw)
        sqlite3_clear_bindings(raw)
        guard code == SQLITE_DONE else {
            throw DatabaseError(resultCode: ResultCode(rawValue: code), message: message)
        }
    }
}
