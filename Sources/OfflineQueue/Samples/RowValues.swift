import Basics
import Foundation
import GRDB

/// Values of a row as they are, or nil: GRDB's own subscripts trap when a value is not of the type
/// asked for, and a damaged page can hold anything. Swift prefers these wherever an optional of one
/// of these types is asked for, which is everywhere in this module.
extension Row {
    subscript(_ index: Int) -> Int64? { value(index) }
    subscript(_ index: Int) -> Int? { value(index) }
    subscript(_ index: Int) -> String? { value(index) }
    subscript(_ index: Int) -> Data? { value(index) }
    subscript(_ index: Int) -> Bool? { value(index) }
    subscript(_ index: Int) -> UTC? { value(index) }
    subscript(_ index: Int) -> Uptime? { value(index) }
    subscript(_ index: Int) -> WallOffset? { value(index) }
    subscript(_ name: String) -> Int64? { value(name) }
    subscript(_ name: String) -> Int? { value(name) }
    subscript(_ name: String) -> String? { value(name) }
    subscript(_ name: String) -> Data? { value(name) }
    subscript(_ name: String) -> Bool? { value(name) }
    subscript(_ name: String) -> UTC? { value(name) }
    subscript(_ name: String) -> Uptime? { value(name) }

    private func value<Value: DatabaseValueConvertible>(_ index: Int) -> Value? {
        (self[index] as StoredValue?).flatMap { Value.fromDatabaseValue($0.databaseValue) }
    }

    private func value<Value: DatabaseValueConvertible>(_ name: String) -> Value? {
        (self[name] as StoredValue?).flatMap { Value.fromDatabaseValue($0.databaseValue) }
    }
}

/// A value of any type but null. GRDB reads it straight from the statement. A `DatabaseValue` it reads by a slower way,
/// which took a twentieth of a delivery's processor time.
private struct StoredValue: DatabaseValueConvertible, StatementColumnConvertible {
    let databaseValue: DatabaseValue

    init(sqliteStatement: SQLiteStatement, index: CInt) {
        databaseValue = DatabaseValue(sqliteStatement: sqliteStatement, index: index)
    }

    private init(_ value: DatabaseValue) { databaseValue = value }

    static func fromDatabaseValue(_ value: DatabaseValue) -> StoredValue? { StoredValue(value) }
}

extension String {
    /// The text, cut to what the store keeps.
    var bounded: String { String(prefix(SampleQueue.textCharactersMax)) }
}
