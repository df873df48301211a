/// One D-Bus value, as read from or written to a message.
///
/// Source: D-Bus Specification, "Type System". Arrays of bytes have their own case, so a
/// notification costs one allocation and not one a byte.
public enum DBusValue: Sendable, Hashable {
    case byte(UInt8)
    case boolean(Bool)
    case int16(Int16)
    case uint16(UInt16)
    case int32(Int32)
    case uint32(UInt32)
    case int64(Int64)
    case uint64(UInt64)
    case double(Double)
    case string(String)
    case objectPath(String)
    case signature(String)
    /// `ay`.
    case bytes([UInt8])
    /// `a` + the element's signature. Never `ay` or `a{…}` when read.
    case array(element: String, [DBusValue])
    /// `a{` + the key's and the value's signature + `}`, in the order of the wire.
    case dictionary(key: String, value: String, [DictEntry])
    /// `(…)`.
    case structure([DBusValue])
    /// `v`.
    indirect case variant(DBusValue)
    /// `h`: the place of a file descriptor, which is never taken over nor sent.
    case unixFD

    /// One entry of a dictionary.
    public struct DictEntry: Sendable, Hashable {
        /// The key: always a basic value.
        public var key: DBusValue
        /// The value: a variant in most of D-Bus's interfaces.
        public var value: DBusValue

        /// Makes an entry.
        public init(key: DBusValue, value: DBusValue) {
            self.key = key
            self.value = value
        }
    }

    /// The signature of the value: one complete type.
    public var signature: String {
        switch self {
        case .byte: "y"
        case .boolean: "b"
        case .int16: "n"
        case .uint16: "q"
        case .int32: "i"
        case .uint32: "u"
        case .int64: "x"
        case .uint64: "t"
        case .double: "d"
        case .string: "s"
        case .objectPath: "o"
        case .signature: "g"
        case .bytes: "ay"
        case .array(let element, _): "a" + element
        case .dictionary(let key, let value, _): "a{" + key + value + "}"
        case .structure(let members): "(" + members.map(\.signature).joined() + ")"
        case .variant: "v"
        case .unixFD: "h"
        }
    }
}

/// Making values.
extension DBusValue {
    /// `as`.
    public static func strings(_ strings: [String]) -> DBusValue {
        .array(element: "s", strings.map(DBusValue.string))
    }

    /// `a{sv}`: properties or options, each wrapped in a variant, sorted by name.
    public static func properties(_ properties: [String: DBusValue]) -> DBusValue {
        let sorted = properties.sorted { $0.key < $1.key }
        return .dictionary(
            key: "s", value: "v",
            sorted.map { DictEntry(key: .string($0.key), value: .variant($0.value)) })
    }
}

/// Reading values. A value of another type is `nil`, never a trap: it came from outside.
extension DBusValue {
    /// The value without the variants around it.
    public var unwrapped: DBusValue {
        var value = self
        while case .variant(let inner) = value { value = inner }
        return value
    }

    /// The text of a string, object path or signature, in a variant or not.
    public var text: String? {
        switch unwrapped {
        case .string(let text), .objectPath(let text), .signature(let text): text
        default: nil
        }
    }

    /// A boolean, in a variant or not.
    public var flag: Bool? {
        if case .boolean(let flag) = unwrapped { flag } else { nil }
    }

    /// Any integer that fits `Int`, in a variant or not.
    public var integer: Int? {
        switch unwrapped {
        case .byte(let value): Int(value)
        case .int16(let value): Int(value)
        case .uint16(let value): Int(value)
        case .int32(let value): Int(value)
        case .uint32(let value): Int(exactly: value)
        case .int64(let value): Int(exactly: value)
        case .uint64(let value): Int(exactly: value)
        default: nil
        }
    }

    /// An array of bytes, in a variant or not.
    public var byteArray: [UInt8]? {
        if case .bytes(let bytes) = unwrapped { bytes } else { nil }
    }

    /// The texts of an array of strings or object paths, in a variant or not.
    public var texts: [String]? {
        guard case .array(_, let elements) = unwrapped else { return nil }
        return elements.compactMap(\.text)
    }

    /// The entries of a dictionary, in a variant or not.
    public var entries: [DictEntry]? {
        if case .dictionary(_, _, let entries) = unwrapped { entries } else { nil }
    }
}
