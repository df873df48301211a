/// Text in the headers of mail and of HTTP, which are ASCII (RFC 2047).
enum EncodedWords {
    /// The most bytes of text in one word: a word has 75 characters at most, 12 of them around the base64.
    private static let wordBytesMax = 45

    /// One line of ASCII that stands for `text`: itself, if it is one.
    static func header(_ text: String) -> String { words(text).joined(separator: " ") }

    /// The same in pieces between which a header may be folded.
    static func words(_ text: String) -> [String] {
        let isPlain = text.utf8.allSatisfy { 0x20...0x7E ~= $0 } && !text.contains("=?")
        if isPlain { return [text] }
        var words: [String] = []
        var part: [UInt8] = []
        func end() {
            var word = JSONBytes()
            word.raw("=?utf-8?B?")
            word.base64(part)
            word.raw("?=")
            words.append(String(decoding: word.bytes, as: UTF8.self))
            part = []
        }
        for scalar in text.unicodeScalars {
            // A line end would begin another header.
            let bytes =
                scalar.value < 0x20 || scalar.value == 0x7F
                ? [0x20] : [UInt8](String(scalar).utf8)
            if part.count + bytes.count > wordBytesMax { end() }
            part += bytes
        }
        if !part.isEmpty { end() }
        return words
    }
}
