import Basics

/// The `Retry-After` header field (RFC 9110 §10.2.3).
enum RetryAfter {
    /// The wait that `value` asks for; nil for none and for nonsense. A time of day is taken against the
    /// answer's own `date`, so that this machine's clock, which may be wrong, does not matter.
    static func pause(_ value: String?, date: String? = nil) -> Duration? {
        guard let value, !value.isEmpty else { return nil }
        if value.utf8.allSatisfy({ 0x30...0x39 ~= $0 }) {
            // More digits than a number holds are a very long time.
            return .seconds(Int64(value) ?? .max)
        }
        guard let until = HTTPDate.utc(value), let now = date.flatMap(HTTPDate.utc) else {
            return nil
        }
        return max(until - now, .zero)
    }
}

/// Times in header fields (RFC 9110 §5.6.7), in all three forms a recipient must take.
enum HTTPDate {
    /// The longest form, `Wednesday, 09-Nov-94 08:49:37 GMT`, has 33 characters.
    static let lengthMax = 40

    private static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]

    /// The time that `text` says, or nil.
    static func utc(_ text: String) -> UTC? {
        guard text.utf8.count <= lengthMax else { return nil }
        let parts = text.split { $0 == " " || $0 == "," || $0 == "-" }
        switch parts.count {
        // Sun, 06 Nov 1994 08:49:37 GMT, or Sunday, 06-Nov-94 08:49:37 GMT.
        case 6 where parts[5] == "GMT":
            return utc(year: parts[3], month: parts[2], day: parts[1], time: parts[4])
        // Sun Nov  6 08:49:37 1994
        case 5: return utc(year: parts[4], month: parts[1], day: parts[2], time: parts[3])
        default: return nil
        }
    }

    private static func utc(
        year: Substring, month: Substring, day: Substring, time: Substring
    ) -> UTC? {
        let clock = time.split(separator: ":", omittingEmptySubsequences: false).map {
            number($0, digits: 2...2)
        }
        guard var years = number(year, digits: 2...4), let days = number(day, digits: 1...2),
            let monthIndex = months.firstIndex(of: String(month)), 1...31 ~= days,
            clock.count == 3, let hour = clock[0], hour < 24, let minute = clock[1], minute < 60,
            let second = clock[2], second <= 60
        else { return nil }
        // Two digits are of the form that was given up in 1995 for having only two.
        if year.utf8.count == 2 { years += years < 70 ? 2000 : 1900 }
        guard years >= 1970 else { return nil }
        let date = CivilDate(year: years, month: Int64(monthIndex) + 1, day: days)
        let seconds = date.daysSince1970 * 86_400 + hour * 3600 + minute * 60 + second
        return UTC(microseconds: seconds * 1_000_000)
    }

    private static func number(_ text: Substring, digits: ClosedRange<Int>) -> Int64? {
        guard digits ~= text.utf8.count, text.utf8.allSatisfy({ 0x30...0x39 ~= $0 }) else {
            return nil
        }
        return Int64(text)
    }
}
