import Basics
import GRDB
import GRDBSQLite

/// Inserts sample rows by SQLite's own calls: it is done once a frame, and putting each argument
/// into GRDB's boxes costs several times as much as the insertion itself.
struct SampleInsertion {
    private static let columns =
        "INTO sample (\(SampleColumn.list)) VALUES (\(SampleColumn.parameters))"
    private static let sql = "INSERT \(columns)"

    private let statement: Statement

    /// For one transaction.
    init(_ db: Database) throws {
        statement = try db.cachedStatement(sql: Self.sql)
    }

    func insert(_ row: SampleRow) throws {
        bind(row.id, to: .id)
        bind(row.segment, to: .segment)
        bind(row.uptime.microseconds, to: .uptime)
        bind(row.uncertainty, to: .uncertainty)
        bind(row.flags, to: .flags)
        bind(row.crc, to: .crc)
        let raw = statement.sqliteStatement
        // The bytes are only lent, so the row is inserted while they are there.
        let code = row.frame.withUnsafeBytes { bytes in
            let parameter = Self.parameter(.frame)
            if let base = bytes.baseAddress, !bytes.isEmpty {
                sqlite3_bind_blob(raw, parameter, base, Int32(clamping: bytes.count), nil)
            } else {
                sqlite3_bind_zeroblob(raw, parameter, 0)
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

    private func bind(_ value: Int64?, to column: SampleColumn) {
        if let value {
            sqlite3_bind_int64(statement.sqliteStatement, Self.parameter(column), value)
        } else {
            sqlite3_bind_null(statement.sqliteStatement, Self.parameter(column))
        }
    }

    /// SQLite counts parameters from 1.
    private static func parameter(_ column: SampleColumn) -> Int32 { Int32(column.rawValue) + 1 }
}
