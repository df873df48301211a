/// A UTC time as the exchange wants it: RFC 3339 with milliseconds and `Z`.
struct Timestamp {
    private let year: Int
    private let month: Int
    private let day: Int
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
        // Civil date from days, in years that begin in March so that the leap day comes last.
        let days = Int(milliseconds / Self.millisecondsPerDay) + 719_468
        let era = days / 146_097
        let dayOfEra = days % 146_097
        let yearOfEra =
            (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let marchMonth = (5 * dayOfYear + 2) / 153
        day = dayOfYear - (153 * marchMonth + 2) / 5 + 1
        month = marchMonth < 10 ? marchMonth + 3 : marchMonth - 9
        year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
    }

    /// Appends the 24 characters, without quotes.
    func write(to json: inout JSONBytes) {
        json.twoDigits(year / 100)
        json.twoDigits(year % 100)
        json.raw("-")
        json.twoDigits(month)
        json.raw("-")
        json.twoDigits(day)
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
