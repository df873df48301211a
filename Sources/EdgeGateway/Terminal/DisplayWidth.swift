import Glibc

/// How wide text is on a terminal, and how wide the terminal is.
enum DisplayWidth {
    /// The width that people expect of text in a pipe or a mail.
    static let standardColumns = 80
    /// Narrower ones show nothing useful; wider ones are a mistake in COLUMNS.
    static let columnsRange = 40...400

    /// Cells that a text takes: two for wide characters, none for marks that stand on another one.
    static func of(_ text: String) -> Int { text.reduce(0) { $0 + of($1) } }

    /// The text in exactly `columns` cells: cut with `…`, or filled with blanks.
    static func fit(_ text: String, to columns: Int) -> String {
        let short = cut(text, to: columns)
        return short + String(repeating: " ", count: max(0, columns - of(short)))
    }

    /// The text in at most `columns` cells; `…` says that there is more.
    static func cut(_ text: String, to columns: Int) -> String {
        guard of(text) > columns else { return text }
        var result = ""
        var width = 0
        for character in text {
            width += of(character)
            guard width < columns else { break }
            result.append(character)
        }
        return columns > 0 ? result + "…" : ""
    }

    /// The size of the terminal at standard output: COLUMNS goes before, and without a terminal there is no height.
    static func terminal(_ environment: [String: String]) -> (columns: Int, rows: Int?) {
        var size = winsize()
        let isTerminal = ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0 && size.ws_col > 0
        let named = environment["COLUMNS"].flatMap { Int($0) }
        let columns = named ?? (isTerminal ? Int(size.ws_col) : standardColumns)
        return (
            min(max(columns, columnsRange.lowerBound), columnsRange.upperBound),
            isTerminal && size.ws_row > 0 ? Int(size.ws_row) : nil
        )
    }

    private static func of(_ character: Character) -> Int {
        if character.isASCII { return 1 }
        return character.unicodeScalars.reduce(0) { width, scalar in
            switch scalar.properties.generalCategory {
            case .nonspacingMark, .enclosingMark:
                // U+FE0F makes a wide picture of a narrow sign.
                scalar == "\u{FE0F}" ? 2 : width
            default: width + (scalar.isWide ? 2 : 1)
            }
        }
    }
}

extension Unicode.Scalar {
    /// The blocks of wide characters of Unicode's East Asian Width (UAX #11): Hangul, kana and bopomofo, Han, Yi,
    /// compatibility and fullwidth forms, and the planes of rare Han.
    private static let wideBlocks: [ClosedRange<UInt32>] = [
        0x1100...0x115F, 0x2329...0x232A, 0x2E80...0x303E, 0x3041...0xA4CF, 0xA960...0xA97F,
        0xAC00...0xD7A3, 0xF900...0xFAFF, 0xFE10...0xFE19, 0xFE30...0xFE6F, 0xFF01...0xFF60,
        0xFFE0...0xFFE6, 0x16FE0...0x18D08, 0x1AFF0...0x1B2FB, 0x1F200...0x1F265,
        0x20000...0x3FFFD,
    ]

    fileprivate var isWide: Bool {
        properties.isEmojiPresentation || Self.wideBlocks.contains { $0.contains(value) }
    }
}
