/// The `Retry-After` header field (RFC 9110 §10.2.3).
enum RetryAfter {
    /// The seconds in `value`; nil for none, for nonsense, and for a date, which only a gateway with
    /// a right clock could use.
    static func seconds(_ value: String?) -> Int64? {
        guard let value, !value.isEmpty, value.utf8.allSatisfy({ 0x30...0x39 ~= $0 }) else {
            return nil
        }
        // More digits than a number holds are a very long time.
        return Int64(value) ?? .max
    }
}
