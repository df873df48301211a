/// Writes JSON as ASCII bytes. Everything outside printable ASCII becomes a `\u` escape: the
/// exchange refuses raw UTF-8 inside an attachment (docs/develop/exchange.md).
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

    /// Appends an array of what `write` appends for each element.
    mutating func array<Element>(
        _ elements: [Element], _ write: (Element, inout JSONBytes) -> Void
    ) {
        raw("[")
        for (index, element) in elements.enumerated() {
            if index > 0 { raw(",") }
            write(element, &self)
        }
        raw("]")
    }

    /// Appends a string in quotes, escaped; `prefix`, which needs no escapes, comes before `text`.
    mutating func string(_ text: String, after prefix: StaticString = "") {
        bytes.append(0x22)
        raw(prefix)
        if appendPlain(text, where: { 0x20...0x7E ~= $0 && $0 != 0x22 && $0 != 0x5C }) {
            bytes.append(0x22)
            return
        }
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

    /// Appends `text` as it is if all of its bytes pass; else nothing.
    mutating func appendPlain(_ text: String, where passes: (UInt8) -> Bool) -> Bool {
        var text = text
        return text.withUTF8 { utf8 in
            guard utf8.allSatisfy(passes) else { return false }
            bytes.append(contentsOf: utf8)
            return true
        }
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

    /// Appends a number of which the last `places` (1…9) decimal digits are its fraction, without
    /// zeros at its end. Not negative.
    mutating func decimal(_ value: Int, places: Int) {
        var unit = 1
        for _ in 0..<places { unit *= 10 }
        let value = max(value, 0)
        integer(value / unit)
        let fraction = value % unit
        guard fraction > 0 else { return }
        raw(".")
        digits(fraction, places)
        while bytes.last == 0x30 { bytes.removeLast() }
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

    /// Appends two decimal digits, 00…99.
    mutating func twoDigits(_ value: Int) {
        bytes.append(0x30 &+ UInt8(truncatingIfNeeded: value / 10))
        bytes.append(0x30 &+ UInt8(truncatingIfNeeded: value % 10))
    }

    /// Appends again what was written from `start` up to `end`, a few bytes.
    mutating func again(from start: Int, to end: Int) {
        // One by one: a slice shares the bytes, and appending to shared ones copies them all.
        for place in start..<end { bytes.append(bytes[place]) }
    }

    /// Appends `source` in base64 with padding (RFC 4648 §4), without quotes.
    mutating func base64(_ source: [UInt8]) {
        let count = (source.count + 2) / 3 * 4
        // Unchecked, as a fourth of a bundle's cost is here: `from` runs over whole groups of three
        // within `source`, `to` over as many groups of four, and pairs has all 12-bit indices.
        withUnsafeTemporaryAllocation(byteCount: count, alignment: 1) { target in
            source.withUnsafeBytes { source in
                Self.pairs.withUnsafeBufferPointer { pairs in
                    Self.encode(source, into: target, pairs)
                }
            }
            bytes.append(contentsOf: target)
        }
    }

    private static func encode(
        _ source: UnsafeRawBufferPointer, into target: UnsafeMutableRawBufferPointer,
        _ pairs: UnsafeBufferPointer<UInt16>
    ) {
        var from = 0
        var to = 0
        // Eight digits at a time, of six bytes; eight are read.
        while from + 8 <= source.count {
            let group = UInt64(
                bigEndian: source.loadUnaligned(fromByteOffset: from, as: UInt64.self))
            let digits =
                UInt64(pairs[Int(group >> 52)]) | UInt64(pairs[Int(group >> 40 & 0xFFF)]) << 16
                | UInt64(pairs[Int(group >> 28 & 0xFFF)]) << 32
                | UInt64(pairs[Int(group >> 16 & 0xFFF)]) << 48
            target.storeBytes(of: digits.littleEndian, toByteOffset: to, as: UInt64.self)
            from += 6
            to += 8
        }
        func put(_ pair: UInt16) {
            target.storeBytes(of: pair.littleEndian, toByteOffset: to, as: UInt16.self)
            to += 2
        }
        while from + 2 < source.count {
            let group =
                UInt32(source[from]) << 16 | UInt32(source[from + 1]) << 8
                | UInt32(source[from + 2])
            put(pairs[Int(group >> 12)])
            put(pairs[Int(group & 0xFFF)])
            from += 3
        }
        let left = source.count - from
        guard left > 0 else { return }
        let group = UInt32(source[from]) << 16 | (left == 2 ? UInt32(source[from + 1]) << 8 : 0)
        put(pairs[Int(group >> 12)])
        // The padding is "=": twice, or after one more digit.
        put(left == 2 ? pairs[Int(group & 0xFFF)] & 0xFF | 0x3D00 : 0x3D3D)
    }

    /// The two base64 digits of every 12 bits, the first one in the low byte.
    private static let pairs: [UInt16] = {
        let digits = Array(
            "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
        return (0..<4096).map { UInt16(digits[$0 >> 6]) | UInt16(digits[$0 & 63]) << 8 }
    }()

    private mutating func escape(_ unit: UInt16) {
        bytes.append(contentsOf: [0x5C, 0x75])
        for shift in [12, 8, 4, 0] as [UInt16] {
            let digit = UInt8(unit >> shift & 15)
            bytes.append(digit < 10 ? 0x30 + digit : 0x61 + digit - 10)
        }
    }
}

extension JSONBytes {
    /// Appends a UUID that stands for a sample where others may read: the first 128 bits of the SHA-256 of its
    /// identifier, as UUID version 8. From an identifier one can guess the next ones; from this one
    /// cannot.
    mutating func digest(of uuid: String) {
        var digest = Digests.sha256(Array(uuid.utf8))
        digest[6] = digest[6] & 0x0F | 0x80
        digest[8] = digest[8] & 0x3F | 0x80
        for (index, byte) in digest.prefix(16).enumerated() {
            if [4, 6, 8, 10].contains(index) { raw("-") }
            raw([byte >> 4, byte & 15].map { $0 < 10 ? 0x30 + $0 : 0x57 + $0 })
        }
    }
}
