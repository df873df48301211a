/// A JSON value as the exchange keeps it: members in the order they came, whole numbers apart
/// from fractions, because the diagnostics it answers with quote the document.
public indirect enum ExchangeJSON: Sendable, Hashable {
    case null
    case bool(Bool)
    case integer(Int)
    case number(Double)
    case string(String)
    case array([ExchangeJSON])
    case object([Member])

    /// One member of an object.
    public struct Member: Sendable, Hashable {
        /// The member's name.
        public var name: String
        /// The member's value.
        public var value: ExchangeJSON

        public init(name: String, value: ExchangeJSON) {
            self.name = name
            self.value = value
        }
    }

    /// An object from a literal list of members.
    public static func members(_ members: KeyValuePairs<String, ExchangeJSON>) -> ExchangeJSON {
        .object(members.map { Member(name: $0.key, value: $0.value) })
    }

    /// The member of that name; nil when there is none or this is no object.
    public subscript(name: String) -> ExchangeJSON? {
        guard case .object(let members) = self else { return nil }
        return members.first { $0.name == name }?.value
    }

    /// The members, when this is an object.
    public var object: [Member]? { if case .object(let members) = self { members } else { nil } }

    /// The elements, when this is an array.
    public var array: [ExchangeJSON]? { if case .array(let values) = self { values } else { nil } }

    /// The text, when this is a string.
    public var string: String? { if case .string(let text) = self { text } else { nil } }

    /// The number, when this is one.
    public var double: Double? {
        switch self {
        case .integer(let value): Double(value)
        case .number(let value): value
        default: nil
        }
    }
}

extension ExchangeJSON: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral,
    ExpressibleByFloatLiteral, ExpressibleByBooleanLiteral, ExpressibleByNilLiteral,
    ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral
{
    public init(stringLiteral value: String) { self = .string(value) }
    public init(integerLiteral value: Int) { self = .integer(value) }
    public init(floatLiteral value: Double) { self = .number(value) }
    public init(booleanLiteral value: Bool) { self = .bool(value) }
    public init(nilLiteral: ()) { self = .null }
    public init(arrayLiteral elements: ExchangeJSON...) { self = .array(elements) }
    public init(dictionaryLiteral elements: (String, ExchangeJSON)...) {
        self = .object(elements.map { Member(name: $0.0, value: $0.1) })
    }
}

// MARK: Writing

extension ExchangeJSON {
    /// The value as JSON text in UTF-8.
    public var bytes: [UInt8] {
        var out: [UInt8] = []
        write(into: &out)
        return out
    }

    /// The value as JSON text.
    public var text: String { String(decoding: bytes, as: UTF8.self) }

    private func write(into out: inout [UInt8]) {
        switch self {
        case .null: out += "null".utf8
        case .bool(let value): out += (value ? "true" : "false").utf8
        case .integer(let value): out += String(value).utf8
        case .number(let value): out += Self.python(value).utf8
        case .string(let text): Self.quote(text, into: &out)
        case .array(let values):
            out.append(UInt8(ascii: "["))
            for (index, value) in values.enumerated() {
                if index > 0 { out.append(UInt8(ascii: ",")) }
                value.write(into: &out)
            }
            out.append(UInt8(ascii: "]"))
        case .object(let members):
            out.append(UInt8(ascii: "{"))
            for (index, member) in members.enumerated() {
                if index > 0 { out.append(UInt8(ascii: ",")) }
                Self.quote(member.name, into: &out)
                out.append(UInt8(ascii: ":"))
                member.value.write(into: &out)
            }
            out.append(UInt8(ascii: "}"))
        }
    }

    private static func quote(_ text: String, into out: inout [UInt8]) {
        out.append(UInt8(ascii: "\""))
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"): out += [UInt8(ascii: "\\"), byte]
            case UInt8(ascii: "\n"): out += "\\n".utf8
            case 0..<0x20:
                let hex = String(byte, radix: 16)
                out += ("\\u" + String(repeating: "0", count: 4 - hex.count) + hex).utf8
            default: out.append(byte)
            }
        }
        out.append(UInt8(ascii: "\""))
    }

    private static func python(_ value: Double) -> String {
        if value.isNaN { return "NaN" }
        if value.isInfinite { return value < 0 ? "-Infinity" : "Infinity" }
        return "\(value)"
    }

    /// The value as Python's `repr` spells it; the exchange is written in Python and its
    /// diagnostics quote values so.
    var pythonRepresentation: String {
        switch self {
        case .null: return "None"
        case .bool(let value): return value ? "True" : "False"
        case .integer(let value): return String(value)
        case .number(let value):
            return value.isNaN
                ? "nan" : value.isInfinite ? (value < 0 ? "-inf" : "inf") : "\(value)"
        case .string(let text): return Self.pythonQuote(text)
        case .array(let values):
            return "[" + values.map(\.pythonRepresentation).joined(separator: ", ") + "]"
        case .object(let members):
            let inner = members.map {
                Self.pythonQuote($0.name) + ": " + $0.value.pythonRepresentation
            }
            return "{" + inner.joined(separator: ", ") + "}"
        }
    }

    /// Python quotes with ' unless the text has a ' and no ".
    static func pythonQuote(_ text: String) -> String {
        let double = text.contains("'") && !text.contains("\"")
        var out = double ? "\"" : "'"
        for character in text {
            switch character {
            case "\\": out += "\\\\"
            case "\n": out += "\\n"
            case "'" where !double: out += "\\'"
            default: out.append(character)
            }
        }
        return out + (double ? "\"" : "'")
    }
}
