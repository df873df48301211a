/// Writes JSON as ASCII bytes. Everything outside printable ASCII becomes a `\u` escape: the
/// exchange refuses raw UTF-8 inside an attachment (docs/exchange.md).
struct JSONBytes {
    private(set) var bytes: [UInt8] = []

    var count: Int { bytes.count }

    mutating func removeAll() {
        bytes.removeAll(keepingCapacity: true)
    }

    mutating func reserve(_ capacity: Int) {
        bytes.reserveCapacity(capacity)
    }

    /// Appends JSON that is ready.
    mutating func raw(_ ready: some Collection<UInt8>) {
        bytes.append(contentsOf: ready)
    }

    /// Appends JSON that is ready.
    mutating func raw(_ ready: StaticString) {
        bytes.append(
            contentsOf: UnsafeBufferPointer(start: ready.utf8Start, count: ready.utf8CodeUnitCount))
    }

    /// Appends a string in quotes, escaped.
    mutating func string(_ text: String) {
        bytes.append(0x22)
        for unit in text.utf16 {
            switch unit {
            case 0x22, 0x5C:
                bytes.append(0x5C)
                bytes.append(UInt8(unit))
            case 0x20...0x7E: bytes.append(UInt8(unit))
            // UTF-16 is what \u escapes are written in: a pair of surrogates is a pair of escapes.
            default: escape(unit)
            }
        }
        bytes.append(0x22)
    }

    /// Appends a decimal number.
    mutating func integer(_ value: Int) {
        if value < 0 { bytes.append(0x2D) }
        let start = bytes.count
        var rest = value.magnitude
        repeat {
            bytes.append(0x30 + UInt8(rest % 10))
            rest /= 10
        } while rest > 0
        bytes[start...].reverse()
    }

    /// Appends `count` decimal digits of `value`, with leading zeros.
    mutating func digits(_ value: Int, _ count: Int) {
        var divisor = 1
        for _ in 1..<count { divisor *= 10 }
        while divisor > 0 {
            bytes.append(0x30 + UInt8((value / divisor) % 10))
            divisor /= 10
        }
    }

    /// Appends `source` in base64 with padding (RFC 4648 §4), without quotes.
    mutating func base64(_ source: [UInt8]) {
        let start = bytes.count
        bytes.append(contentsOf: repeatElement(0x3D, count: (source.count + 2) / 3 * 4))
        Self.encode(source.span, into: &bytes, at: start)
    }

    private static func encode(_ source: Span<UInt8>, into bytes: inout [UInt8], at start: Int) {
        let alphabet = Self.alphabet.span
        var target = bytes.mutableSpan
        var to = start
        var from = 0
        while from + 2 < source.count {
            let group =
                UInt32(source[from]) << 16 | UInt32(source[from + 1]) << 8
                | UInt32(source[from + 2])
            target[to] = alphabet[Int(group >> 18)]
            target[to + 1] = alphabet[Int(group >> 12 & 63)]
            target[to + 2] = alphabet[Int(group >> 6 & 63)]
            target[to + 3] = alphabet[Int(group & 63)]
            from += 3
            to += 4
        }
        let left = source.count - from
        guard left > 0 else { return }
        let group = UInt32(source[from]) << 16 | (left == 2 ? UInt32(source[from + 1]) << 8 : 0)
        target[to] = alphabet[Int(group >> 18)]
        target[to + 1] = alphabet[Int(group >> 12 & 63)]
        if left == 2 { target[to + 2] = alphabet[Int(group >> 6 & 63)] }
    }

    private static let alphabet = Array(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)

    private mutating func escape(_ unit: UInt16) {
        bytes.append(contentsOf: [0x5C, 0x75])
        for shift in [12, 8, 4, 0] as [UInt16] {
            let digit = UInt8(unit >> shift & 15)
            bytes.append(digit < 10 ? 0x30 + digit : 0x61 + digit - 10)
        }
    }
}
