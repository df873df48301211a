/// Walks over foreign JSON (RFC 8259) and makes nothing of it but what is asked for.
///
/// An answer to a hundred data points takes about 0.1 ms so. Through `Decodable` it took 1 ms, and was the
/// costliest part of a delivery.
struct JSONReader {
    /// It is not JSON, cut short, or nested beyond measure.
    struct Fault: Error, Hashable {}

    /// What kind of value comes next.
    enum Kind: Hashable {
        case object, array, string, other
    }

    /// Deepest nesting read. What the exchange sends is seven deep.
    static let depthMax = 64

    private let bytes: [UInt8]
    private var at = 0
    private var depth = 0

    /// Reads `bytes`, one value from their beginning to their end.
    ///
    /// - Throws: ``Fault`` if they are no UTF-8; anything else shows as it is come to.
    init(_ bytes: [UInt8]) throws(Fault) {
        guard bytes.allSatisfy({ $0 < 0x80 }) || String(validating: bytes, as: UTF8.self) != nil
        else { throw Fault() }
        self.bytes = bytes
    }

    /// Reads `bytes` as one value from their beginning to their end.
    ///
    /// - Throws: ``Fault``, also if `value` leaves something unread.
    static func read<Value>(
        _ bytes: [UInt8], _ value: (inout JSONReader) throws(Fault) -> Value
    ) throws(Fault) -> Value {
        var reader = try JSONReader(bytes)
        let value = try value(&reader)
        try reader.end()
        return value
    }

    // MARK: - Values

    /// The kind of the value that comes next.
    mutating func next() throws(Fault) -> Kind {
        switch try peek() {
        case UInt8(ascii: "{"): .object
        case UInt8(ascii: "["): .array
        case UInt8(ascii: "\""): .string
        default: .other
        }
    }

    /// Reads an object; `member` is given each name and must read or skip its value.
    mutating func object(
        _ member: (inout JSONReader, String) throws(Fault) -> Void
    ) throws(Fault) {
        try items(UInt8(ascii: "{"), UInt8(ascii: "}")) { reader throws(Fault) in
            let name = try reader.string()
            try reader.take(UInt8(ascii: ":"))
            try member(&reader, name)
        }
    }

    /// Reads the value if it is an object, as ``object(_:)`` does; passes over any other.
    mutating func objectIfAny(
        _ member: (inout JSONReader, String) throws(Fault) -> Void
    ) throws(Fault) {
        if try next() == .object { try object(member) } else { try skip() }
    }

    /// Reads an array; `element` must read or skip each value.
    mutating func array(_ element: (inout JSONReader) throws(Fault) -> Void) throws(Fault) {
        try items(UInt8(ascii: "["), UInt8(ascii: "]"), element)
    }

    /// Reads the value if it is an array, each element by `element`; passes over any other.
    ///
    /// - Parameter countMax: how many elements are read; those beyond are passed over.
    mutating func listIfAny<Element>(
        atMost countMax: Int = .max, _ element: (inout JSONReader) throws(Fault) -> Element
    ) throws(Fault) -> [Element]? {
        guard try next() == .array else {
            try skip()
            return nil
        }
        var list: [Element] = []
        try array { reader throws(Fault) in
            if list.count < countMax {
                list.append(try element(&reader))
            } else {
                try reader.skip()
            }
        }
        return list
    }

    /// Reads a string.
    mutating func string() throws(Fault) -> String {
        let (range, isEscaped) = try quoted()
        return isEscaped
            ? try unescaped(range) : String(decoding: bytes[range], as: UTF8.self)
    }

    /// Reads the value if it is a string; passes over any other.
    mutating func stringIfAny() throws(Fault) -> String? {
        guard try next() == .string else {
            try skip()
            return nil
        }
        return try string()
    }

    /// Reads the value if it is a whole number that fits; passes over any other.
    mutating func integerIfAny() throws(Fault) -> Int64? {
        let first = try peek()
        guard first == UInt8(ascii: "-") || 0x30...0x39 ~= first else {
            try skip()
            return nil
        }
        let start = at
        try number()
        return Int64(String(decoding: bytes[start..<at], as: UTF8.self))
    }

    /// Reads the value if it is `true` or `false`; passes over any other.
    mutating func truthIfAny() throws(Fault) -> Bool? {
        let first = try peek()
        try skip()
        switch first {
        case UInt8(ascii: "t"): return true
        case UInt8(ascii: "f"): return false
        default: return nil
        }
    }

    /// Passes over a value.
    mutating func skip() throws(Fault) {
        switch try peek() {
        case UInt8(ascii: "{"):
            try object { reader, _ throws(Fault) in try reader.skip() }
        case UInt8(ascii: "["): try array { reader throws(Fault) in try reader.skip() }
        case UInt8(ascii: "\""):
            let (range, isEscaped) = try quoted()
            if isEscaped { _ = try unescaped(range) }
        case UInt8(ascii: "t"): try word("true")
        case UInt8(ascii: "f"): try word("false")
        case UInt8(ascii: "n"): try word("null")
        default: try number()
        }
    }

    /// Nothing but white space may be left.
    mutating func end() throws(Fault) {
        skipBlanks()
        guard at == bytes.count else { throw Fault() }
    }

    // MARK: - Bytes

    private mutating func items(
        _ opening: UInt8, _ closing: UInt8, _ item: (inout JSONReader) throws(Fault) -> Void
    ) throws(Fault) {
        try take(opening)
        depth += 1
        guard depth <= Self.depthMax else { throw Fault() }
        if try peek() == closing {
            at += 1
        } else {
            while true {
                try item(&self)
                let mark = try peek()
                at += 1
                if mark == closing { break }
                guard mark == UInt8(ascii: ",") else { throw Fault() }
            }
        }
        depth -= 1
    }

    private mutating func skipBlanks() {
        while at < bytes.count {
            switch bytes[at] {
            case 0x20, 0x09, 0x0A, 0x0D: at += 1
            default: return
            }
        }
    }

    /// The next byte that is no blank.
    private mutating func peek() throws(Fault) -> UInt8 {
        skipBlanks()
        guard at < bytes.count else { throw Fault() }
        return bytes[at]
    }

    private mutating func take(_ byte: UInt8) throws(Fault) {
        guard try peek() == byte else { throw Fault() }
        at += 1
    }

    private mutating func word(_ text: String) throws(Fault) {
        guard bytes[at...].starts(with: text.utf8) else { throw Fault() }
        at += text.utf8.count
    }

    /// A number: `-`, no leading zeros, a fraction, an exponent.
    private mutating func number() throws(Fault) {
        pass("-")
        if !pass("0") { try digits() }
        if pass(".") { try digits() }
        if pass("e") || pass("E") {
            if !pass("+") { pass("-") }
            try digits()
        }
    }

    @discardableResult
    private mutating func pass(_ character: Unicode.Scalar) -> Bool {
        guard at < bytes.count, bytes[at] == UInt8(ascii: character) else { return false }
        at += 1
        return true
    }

    private mutating func digits() throws(Fault) {
        let start = at
        while at < bytes.count, 0x30...0x39 ~= bytes[at] { at += 1 }
        guard at > start else { throw Fault() }
    }

    // MARK: - Strings

    /// Where the inside of a string is, and whether there are escapes in it.
    private mutating func quoted() throws(Fault) -> (Range<Int>, isEscaped: Bool) {
        try take(UInt8(ascii: "\""))
        let start = at
        var isEscaped = false
        while at < bytes.count {
            switch bytes[at] {
            case UInt8(ascii: "\""):
                at += 1
                return (start..<at - 1, isEscaped)
            case UInt8(ascii: "\\"):
                isEscaped = true
                at += 2
            case 0..<0x20: throw Fault()
            default: at += 1
            }
        }
        throw Fault()
    }

    private func unescaped(_ range: Range<Int>) throws(Fault) -> String {
        var units: [UInt16] = []
        var rest = String(decoding: bytes[range], as: UTF8.self).utf16[...]
        while let unit = rest.popFirst() {
            guard unit == 0x5C else {
                units.append(unit)
                continue
            }
            guard let letter = rest.popFirst().flatMap({ Unicode.Scalar($0) }) else {
                throw Fault()
            }
            switch letter {
            case "\"", "\\", "/": units.append(UInt16(letter.value))
            case "b": units.append(0x08)
            case "f": units.append(0x0C)
            case "n": units.append(0x0A)
            case "r": units.append(0x0D)
            case "t": units.append(0x09)
            case "u":
                var code: UInt16 = 0
                for _ in 0..<4 {
                    guard let digit = rest.popFirst().flatMap({ Unicode.Scalar($0) }),
                        let value = Character(digit).hexDigitValue, digit.isASCII
                    else { throw Fault() }
                    code = code << 4 | UInt16(value)
                }
                units.append(code)
            default: throw Fault()
            }
        }
        // A lone surrogate becomes the replacement character: nothing here depends on it.
        return String(decoding: units, as: UTF16.self)
    }
}
