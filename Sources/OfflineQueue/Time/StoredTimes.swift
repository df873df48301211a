import Basics
import GRDB

// Columns have times as whole microseconds. Here, and only here, such a number becomes an instant, and an
// instant such a number.

extension UTC: DatabaseValueConvertible, StatementColumnConvertible {}
extension Uptime: DatabaseValueConvertible, StatementColumnConvertible {}

extension ClockInstant where Self: DatabaseValueConvertible {
    /// The number of microseconds.
    public var databaseValue: DatabaseValue { microseconds.databaseValue }

    /// The instant that the stored value stands for; nil if the value is not an integer.
    public static func fromDatabaseValue(_ value: DatabaseValue) -> Self? {
        Int64.fromDatabaseValue(value).map(Self.init(microseconds:))
    }
}

extension ClockInstant where Self: StatementColumnConvertible {
    /// The instant in a column of a statement.
    public init?(sqliteStatement: SQLiteStatement, index: CInt) {
        self.init(microseconds: Int64(sqliteStatement: sqliteStatement, index: index))
    }
}

/// How far UTC is ahead of the uptime of one boot: what the times of its samples are computed with.
///
/// A type of its own rather than a `Duration`, because it is added once for each sample that is read.
struct WallOffset: Sendable, Hashable {
    let microseconds: Int64

    init(microseconds: Int64) { self.microseconds = microseconds }

    /// The one with which `uptime` is `utc`.
    init(utc: UTC, uptime: Uptime) {
        microseconds = utc.microseconds &- uptime.microseconds
    }

    init(_ duration: Duration) { microseconds = duration.microseconds }

    var duration: Duration { .microseconds(microseconds) }

    /// The time at an uptime of that boot; nil if there is no such time.
    func utc(_ uptime: Uptime) -> UTC? {
        let (time, overflow) = uptime.microseconds.addingReportingOverflow(microseconds)
        return overflow ? nil : UTC(microseconds: time)
    }
}

extension WallOffset: DatabaseValueConvertible, StatementColumnConvertible {
    var databaseValue: DatabaseValue { microseconds.databaseValue }

    static func fromDatabaseValue(_ value: DatabaseValue) -> WallOffset? {
        Int64.fromDatabaseValue(value).map(WallOffset.init(microseconds:))
    }

    init?(sqliteStatement: SQLiteStatement, index: CInt) {
        microseconds = Int64(sqliteStatement: sqliteStatement, index: index)
    }
}

extension Duration {
    /// Whole milliseconds of a bound, rounded up; 0 for less than nothing.
    public var millisecondsAtMost: Int64 {
        let whole = max(0, microseconds)
        return whole / 1000 + (whole % 1000 > 0 ? 1 : 0)
    }
}
