import Basics

/// A UTC time as the exchange wants it: RFC 3339 with milliseconds and `Z`.
struct Timestamp {
    private let date: CivilDate
    private let millisecondOfDay: Int

    /// 1970-01-01 … 9999-12-31, microseconds: what four digits of year can say. Times beyond are
    /// clamped, so that any stored number can be written.
    static let microsecondsRange: ClosedRange<Int64> = 0...253_402_300_799_999_999

    private static let millisecondsPerDay: Int64 = 86_400_000

    /// The time `microseconds` after 1970 in UTC, cut to the millisecond.
    init(microseconds: Int64) {
        let range = Self.microsecondsRange
        let milliseconds = min(max(microseconds, range.lowerBound), range.upperBound) / 1000
        millisecondOfDay = Int(milliseconds % Self.millisecondsPerDay)
        date = CivilDate(daysSince1970: milliseconds / Self.millisecondsPerDay)
    }

    /// Appends the 24 characters, without quotes.
    func write(to json: inout JSONBytes) {
        json.twoDigits(Int(date.year) / 100)
        json.twoDigits(Int(date.year) % 100)
        json.raw("-")
        json.twoDigits(Int(date.month))
        json.raw("-")
        json.twoDigits(Int(date.day))
        json.raw("T")
        json.twoDigits(millisecondOfDay / 3_600_000)
        json.raw(":")
        json.twoDigits(millisecondOfDay / 60_000 % 60)
        json.raw(":")
        json.twoDigits(millisecondOfDay / 1000 % 60)
        json.raw(".")
        json.digits(millisecondOfDay % 1000, 3)
        json.raw("Z")
    }
}
