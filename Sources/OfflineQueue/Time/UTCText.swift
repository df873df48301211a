import Basics

/// Times as export files word them: `2026-12-01T00:00:00.000000Z`, always in this form, so that what
/// was written is read back to the microsecond.
enum UTCText {
    /// 9999-12-31T23:59:59.999999Z.
    static let latest = UTC(microseconds: 253_402_300_799_999_999)

    /// The text; nil outside the years 1970…9999.
    static func text(_ time: UTC) -> String? {
        let microseconds = time.microseconds
        guard (0...latest.microseconds).contains(microseconds) else { return nil }
        let seconds = microseconds / 1_000_000
        let date = CivilDate(daysSince1970: seconds / 86_400)
        let second = seconds % 86_400
        return digits(date.year, 4) + "-" + digits(date.month, 2) + "-" + digits(date.day, 2) + "T"
            + digits(second / 3600, 2) + ":" + digits(second / 60 % 60, 2) + ":"
            + digits(second % 60, 2) + "." + digits(microseconds % 1_000_000, 6) + "Z"
    }

    /// The time; nil if `text` is not exactly of this form, or no time.
    static func time(_ text: String) -> UTC? {
        let form = Array("0000-00-00T00:00:00.000000Z".utf8)
        let bytes = Array(text.utf8)
        guard bytes.count == form.count else { return nil }
        for (byte, model) in zip(bytes, form) {
            let isDigit = (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
            guard model == UInt8(ascii: "0") ? isDigit : byte == model else { return nil }
        }
        func number(_ range: Range<Int>) -> Int64 {
            bytes[range].reduce(0) { $0 * 10 + Int64($1 - UInt8(ascii: "0")) }
        }
        let date = CivilDate(year: number(0..<4), month: number(5..<7), day: number(8..<10))
        let seconds =
            date.daysSince1970 * 86_400 + number(11..<13) * 3600 + number(14..<16) * 60
            + number(17..<19)
        let time = UTC(microseconds: seconds * 1_000_000 + number(20..<26))
        // A date that does not exist, such as 31 February, comes back as another.
        return Self.text(time) == text ? time : nil
    }

    private static func digits(_ number: Int64, _ count: Int) -> String {
        let text = String(number)
        return String(repeating: "0", count: max(0, count - text.count)) + text
    }
}

extension UTC? {
    /// Whether it lies in a span. An unknown time lies in none that has a bound.
    func lies(since: UTC?, until: UTC?) -> Bool {
        guard since != nil || until != nil else { return true }
        guard let time = self else { return false }
        return time >= since ?? time && until.map { time < $0 } ?? true
    }
}
