import Basics

/// A UTC time as the exchange wants it: RFC 3339 with milliseconds and `Z`.
struct Timestamp {
    private let date: CivilDate
    private let millisecondOfDay: Int
    private let microsecond: Int

    /// 1970-01-01 … 9999-12-31: what four digits of year can say. Times beyond are clamped, so that any
    /// stored number can be written.
    static let range = UTC.epoch...UTC(microseconds: microsecondsMax)

    private static let microsecondsMax: Int64 = 253_402_300_799_999_999

    private static let millisecondsPerDay: Int64 = 86_400_000

    /// The time. Reckoned in numbers: this is done several times a data point.
    init(_ utc: UTC) {
        let clamped = min(max(utc.microseconds, 0), Self.microsecondsMax)
        microsecond = Int(clamped % 1000)
        let milliseconds = clamped / 1000
        millisecondOfDay = Int(milliseconds % Self.millisecondsPerDay)
        date = CivilDate(daysSince1970: milliseconds / Self.millisecondsPerDay)
    }

    /// Appends the 24 characters, without quotes.
    func write(to json: inout JSONBytes) {
        writeMilliseconds(to: &json)
        json.raw("Z")
    }

    /// Appends the time with microseconds, 27 characters, without quotes.
    func writeMicroseconds(to json: inout JSONBytes) {
        writeMilliseconds(to: &json)
        json.digits(microsecond, 3)
        json.raw("Z")
    }

    private func writeMilliseconds(to json: inout JSONBytes) {
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
    }
}
