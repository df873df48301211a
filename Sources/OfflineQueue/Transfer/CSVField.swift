/// A field of a CSV file (RFC 4180).
enum CSVField {
    /// One that a spreadsheet would take for a formula is made a text.
    static func text(_ text: String) -> String {
        var text = text
        if let first = text.first, "=+-@\t\r".contains(first) { text = "'" + text }
        guard text.contains(where: { ",\"\n\r".contains($0) }) else { return text }
        return "\"" + text.replacing("\"", with: "\"\"") + "\""
    }
}
