import Basics
import CCurl

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

/// Times in header fields (RFC 9110 §5.6.7). libcurl reads all three forms that a recipient must take, and more.
enum HTTPDate {
    /// The longest form, `Wednesday, 09-Nov-94 08:49:37 GMT`, has 33 characters.
    static let lengthMax = 40
    /// The end of the year 9999: later times do not fit an instant.
    private static let secondsMax = 253_402_300_799

    /// The time that `text` says, or nil.
    static func utc(_ text: String) -> UTC? {
        guard text.utf8.count <= lengthMax else { return nil }
        let seconds = curl_getdate(text, nil)
        guard 0...secondsMax ~= seconds else { return nil }
        return UTC(microseconds: Int64(seconds) * 1_000_000)
    }
}
