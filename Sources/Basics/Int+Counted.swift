extension Int {
    /// The number and the word that goes with it: `1.counted("sample")` is "1 sample", of two it is "2 samples".
    ///
    /// - Parameters:
    ///   - one: the words behind 1.
    ///   - many: the words behind any other number; nil: `one` and an "s".
    public func counted(_ one: String, _ many: String? = nil) -> String {
        self == 1 ? "1 \(one)" : "\(self) \(many ?? one + "s")"
    }
}
