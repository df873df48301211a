import Glibc

/// Why a text is not JSON, in the words of Python's `json` module, which the exchange answers with.
struct ExchangeJSONFault: Error, Hashable {
    var message: String
}

extension ExchangeJSON {
    /// Reads a JSON text.
    ///
    /// - Parameter allowingNaN: whether `NaN` and `Infinity` count as numbers, as Python's own
    ///   reader has it (data points) and the exchange's request reader has not (bodies).
    static func parse(
        _ bytes: [UInt8], allowingNaN: Bool = false
    ) throws(ExchangeJSONFault) -> ExchangeJSON {
        if let position = firstInvalidUTF8(bytes) {
            let hex = String(bytes[position], radix: 16)
            throw ExchangeJSONFault(
                message: "'utf-8' codec can't decode byte 0x\(hex) in position \(position): "
                    + "invalid start byte")
        }
        var parser = Parser(bytes: bytes, allowingNaN: allowingNaN)
        return try parser.document()
    }

    /// The position of the first byte that UTF-8 does not allow there.
    private static func firstInvalidUTF8(_ bytes: [UInt8]) -> Int? {
        guard String(validating: bytes, as: UTF8.self) == nil else { return nil }
        var valid = 0
        var over = bytes.count
        while over - valid > 1 {
            let middle = (valid + over) / 2
            let repaired = String(decoding: bytes[..<middle], as: UTF8.self)
            if repaired.utf8.elementsEqual(bytes[..<middle]) {
                valid = middle
            } else {
                over = middle
            }
        }
        return valid
    }

    /// A recursive-descent reader over bytes that are known to be UTF-8.
    private struct Parser {
        /// Deeper nesting is refused: Python gives up at its recursion limit, we before our stack.
        static let depthLimit = 500

        /// A string stands for itself up to the first of these, or a zero.
        static let special: [CChar] =
            [CChar(UInt8(ascii: "\"")), CChar(UInt8(ascii: "\\"))] + (1..<0x20) + [0]

        /// The text, and a zero behind it.
        let bytes: [UInt8]
        let end: Int
        let allowingNaN: Bool
        var at = 0

        init(bytes: [UInt8], allowingNaN: Bool) {
            self.bytes = bytes + [0]
            end = bytes.count
            self.allowingNaN = allowingNaN
        }

        /// How many bytes of a string stand for themselves from here on. The C library looks for the end: a debug build
        /// would spend more time on this than on all else that the exchange does.
        private var plainBytes: Int {
            bytes.withUnsafeBytes { bytes in
                guard let start = bytes.baseAddress else { return 0 }
                return strcspn((start + at).assumingMemoryBound(to: CChar.self), Self.special)
            }
        }

        mutating func document() throws(ExchangeJSONFault) -> ExchangeJSON {
            if bytes.starts(with: [0xEF, 0xBB, 0xBF]) {
                throw fault("Unexpected UTF-8 BOM (decode using utf-8-sig)", at: 0)
            }
            skipSpace()
            let value = try value(depth: 0)
            skipSpace()
            guard at == end else { throw fault("Extra data", at: at) }
            return value
        }

        private mutating func value(depth: Int) throws(ExchangeJSONFault) -> ExchangeJSON {
            guard depth < Self.depthLimit else {
                throw fault("maximum recursion depth exceeded", at: at)
            }
            switch peek {
            case UInt8(ascii: "{"): return try object(depth: depth)
            case UInt8(ascii: "["): return try array(depth: depth)
            case UInt8(ascii: "\""): return .string(try string())
            default: break
            }
            if take("null") { return .null }
            if take("true") { return .bool(true) }
            if take("false") { return .bool(false) }
            for (word, number) in [
                ("NaN", Double.nan), ("Infinity", .infinity), ("-Infinity", -.infinity),
            ]
            where take(word) {
                guard allowingNaN else {
                    throw ExchangeJSONFault(
                        message: "Out of range float values are not JSON compliant: \(word)")
                }
                return .number(number)
            }
            return try number()
        }

        private mutating func object(depth: Int) throws(ExchangeJSONFault) -> ExchangeJSON {
            at += 1
            var members: [Member] = []
            var indices: [String: Int] = [:]
            skipSpace()
            if peek == UInt8(ascii: "}") {
                at += 1
                return .object([])
            }
            while true {
                guard peek == UInt8(ascii: "\"") else {
                    throw fault("Expecting property name enclosed in double quotes", at: at)
                }
                let name = try string()
                skipSpace()
                guard peek == UInt8(ascii: ":") else {
                    throw fault("Expecting ':' delimiter", at: at)
                }
                at += 1
                skipSpace()
                let value = try value(depth: depth + 1)
                // A name given twice: the last value wins, as in Python.
                if let index = indices[name] {
                    members[index].value = value
                } else {
                    indices[name] = members.count
                    members.append(Member(name: name, value: value))
                }
                skipSpace()
                if peek == UInt8(ascii: "}") {
                    at += 1
                    return .object(members)
                }
                guard peek == UInt8(ascii: ",") else {
                    throw fault("Expecting ',' delimiter", at: at)
                }
                at += 1
                skipSpace()
            }
        }

        private mutating func array(depth: Int) throws(ExchangeJSONFault) -> ExchangeJSON {
            at += 1
            var values: [ExchangeJSON] = []
            skipSpace()
            if peek == UInt8(ascii: "]") {
                at += 1
                return .array([])
            }
            while true {
                values.append(try value(depth: depth + 1))
                skipSpace()
                if peek == UInt8(ascii: "]") {
                    at += 1
                    return .array(values)
                }
                guard peek == UInt8(ascii: ",") else {
                    throw fault("Expecting ',' delimiter", at: at)
                }
                at += 1
                skipSpace()
            }
        }

        private mutating func string() throws(ExchangeJSONFault) -> String {
            let start = at
            at += 1
            var out: [UInt8] = []
            while at < end {
                let plain = plainBytes
                out += bytes[at..<at + plain]
                at += plain
                switch peek {
                case UInt8(ascii: "\""):
                    at += 1
                    return String(decoding: out, as: UTF8.self)
                case UInt8(ascii: "\\"): out += try escape()
                case nil: break
                default: throw fault("Invalid control character at", at: at)
                }
            }
            throw fault("Unterminated string starting at", at: start)
        }

        /// Reads one escape; half a surrogate pair, which Python would keep, becomes U+FFFD.
        private mutating func escape() throws(ExchangeJSONFault) -> [UInt8] {
            at += 1
            let simple: [UInt8: UInt8] = [
                0x22: 0x22, 0x5C: 0x5C, 0x2F: 0x2F, 0x62: 8, 0x66: 12, 0x6E: 10, 0x72: 13, 0x74: 9,
            ]
            guard let byte = peek else { throw fault("Unterminated string starting at", at: at) }
            if let plain = simple[byte] {
                at += 1
                return [plain]
            }
            guard byte == UInt8(ascii: "u"), let high = hexUnit(at: at + 1) else {
                throw fault("Invalid \\escape", at: at - 1)
            }
            at += 5
            var scalar = UInt32(high)
            if (0xD800..<0xDC00).contains(high), peek == UInt8(ascii: "\\"), at + 1 < end,
                bytes[at + 1] == UInt8(ascii: "u"), let low = hexUnit(at: at + 2),
                (0xDC00..<0xE000).contains(low)
            {
                at += 6
                scalar = 0x10000 + (UInt32(high) - 0xD800) << 10 + (UInt32(low) - 0xDC00)
            }
            return Array(String(Unicode.Scalar(scalar) ?? "\u{FFFD}").utf8)
        }

        private func hexUnit(at start: Int) -> UInt16? {
            guard start + 4 <= end else { return nil }
            let digits = bytes[start..<start + 4]
            guard digits.allSatisfy({ Character(Unicode.Scalar($0)).isHexDigit }) else {
                return nil
            }
            return UInt16(String(decoding: digits, as: UTF8.self), radix: 16)
        }

        private mutating func number() throws(ExchangeJSONFault) -> ExchangeJSON {
            let start = at
            if peek == UInt8(ascii: "-") { at += 1 }
            let whole = digits()
            guard whole > 0, whole == 1 || bytes[at - whole] != UInt8(ascii: "0") else {
                at = start
                throw fault("Expecting value", at: start)
            }
            var isWhole = true
            if peek == UInt8(ascii: "."), at + 1 < end, isDigit(bytes[at + 1]) {
                isWhole = false
                at += 1
                _ = digits()
            }
            if peek == UInt8(ascii: "e") || peek == UInt8(ascii: "E") {
                let mark = at
                at += 1
                if peek == UInt8(ascii: "+") || peek == UInt8(ascii: "-") { at += 1 }
                if digits() > 0 { isWhole = false } else { at = mark }
            }
            let text = String(decoding: bytes[start..<at], as: UTF8.self)
            if isWhole, let value = Int(text) { return .integer(value) }
            return .number(Double(text) ?? .infinity)
        }

        private mutating func digits() -> Int {
            let start = at
            while let byte = peek, isDigit(byte) { at += 1 }
            return at - start
        }

        private func isDigit(_ byte: UInt8) -> Bool { (0x30...0x39).contains(byte) }

        private var peek: UInt8? { at < end ? bytes[at] : nil }

        private mutating func take(_ word: String) -> Bool {
            guard bytes[at...].starts(with: word.utf8) else { return false }
            at += word.utf8.count
            return true
        }

        private mutating func skipSpace() {
            while let byte = peek, byte == 0x20 || (0x09...0x0A).contains(byte) || byte == 0x0D {
                at += 1
            }
        }

        private func fault(_ what: String, at position: Int) -> ExchangeJSONFault {
            let before = bytes[..<min(position, end)]
            let line = before.count { $0 == 0x0A } + 1
            let column = position - (before.lastIndex(of: 0x0A).map { $0 + 1 } ?? 0) + 1
            return ExchangeJSONFault(
                message: "\(what): line \(line) column \(column) (char \(position))")
        }
    }
}
