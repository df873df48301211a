import Foundation

/// Text from outside, made safe for a terminal: names of sensors, words of an exchange, files of other programs.
///
/// A terminal obeys control characters, in C1 (U+0080 to U+009F) as well; bidirectional overrides and other format
/// characters hide what is there; a line separator makes two lines of one.
enum Printable {
    /// One line: whatever steers a terminal becomes U+FFFD, a line end or a tab a blank.
    static func line(_ text: String) -> String { map(text) { $0.isBlank ? " " : nil } }

    /// Several lines: line ends and tabs stay.
    static func lines(_ text: String) -> String {
        map(text) { $0 == "\n" || $0 == "\t" ? $0 : nil }
    }

    /// JSON that has been encoded, with the same meaning: what a terminal would obey is escaped.
    static func json(_ text: String) -> String {
        guard text.unicodeScalars.contains(where: { $0.steers && $0 != "\n" }) else { return text }
        var result = ""
        for scalar in text.unicodeScalars {
            if scalar.steers, scalar != "\n" {
                for unit in UTF16.encode(scalar) ?? UTF16.encodedReplacementCharacter {
                    let digits = String(unit, radix: 16)
                    result += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
                }
            } else {
                result.unicodeScalars.append(scalar)
            }
        }
        return result
    }

    /// JSON whose strings are all one printable line, for a report that is shown as text.
    ///
    /// - Returns: the bytes as they are, if they are no JSON.
    static func strings(inJSON bytes: Data) -> Data {
        strings(inJSON: bytes, options: []) { $0 } ?? bytes
    }

    /// The same with each string changed once more.
    ///
    /// - Returns: nil if the bytes are no JSON.
    static func strings(
        inJSON bytes: Data, options: JSONSerialization.WritingOptions,
        _ change: (String) -> String
    ) -> Data? {
        func changed(_ value: Any) -> Any {
            switch value {
            case let text as String: change(line(text))
            case let list as [Any]: list.map(changed)
            case let object as [String: Any]: object.mapValues(changed)
            default: value
            }
        }
        let value = try? JSONSerialization.jsonObject(with: bytes, options: .fragmentsAllowed)
        return value.flatMap {
            try? JSONSerialization.data(
                withJSONObject: changed($0), options: options.union(.fragmentsAllowed))
        }
    }

    private static func map(
        _ text: String, _ kept: (Unicode.Scalar) -> Unicode.Scalar?
    ) -> String {
        guard text.unicodeScalars.contains(where: \.steers) else { return text }
        return String(
            String.UnicodeScalarView(
                text.unicodeScalars.map { $0.steers ? kept($0) ?? "\u{FFFD}" : $0 }))
    }
}

extension Unicode.Scalar {
    /// It does something to a terminal, or to the order of what is shown.
    fileprivate var steers: Bool {
        switch properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator: true
        default: false
        }
    }

    fileprivate var isBlank: Bool {
        switch self {
        case "\n", "\r", "\t", "\u{85}", "\u{2028}", "\u{2029}": true
        default: false
        }
    }
}
