/// A field of a CSV file (RFC 4180).
enum CSVField {
    /// One that a spreadsheet would take for a formula is made a text.
    static func text(_ text: String) -> String {
        // Readers know no grapheme clusters: a quote with a combining mark is a quote.
        var scalars = text.unicodeScalars
        if let first = scalars.first, "=+-@\t\r".unicodeScalars.contains(first) {
            scalars.insert("'", at: scalars.startIndex)
        }
        guard scalars.contains(where: { ",\"\n\r".unicodeScalars.contains($0) }) else {
            return String(scalars)
        }
        var quoted = String.UnicodeScalarView("\"".unicodeScalars)
        for scalar in scalars {
            if scalar == "\"" { quoted.append(scalar) }
            quoted.append(scalar)
        }
        quoted.append("\"")
        return String(quoted)
    }
}
