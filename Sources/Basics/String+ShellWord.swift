extension StringProtocol {
    /// The text as one word of a shell, for commands in messages: as it is, or in double quotes.
    public var shellWord: String {
        let isPlain =
            !isEmpty && allSatisfy { $0.isLetter || $0.isNumber || "._-:/@%+".contains($0) }
        guard !isPlain else { return String(self) }
        return "\"\(map { "\"\\$`".contains($0) ? "\\\($0)" : String($0) }.joined())\""
    }
}
