extension UInt8 {
    /// A letter or digit of ASCII.
    var isAlphanumeric: Bool {
        switch self {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
        default: false
        }
    }

    /// One of the characters that a URL takes as they are (RFC 3986 §2.3): letters, digits, `-`, `.`, `_` and `~`.
    var isUnreserved: Bool { isAlphanumeric || [0x2D, 0x2E, 0x5F, 0x7E].contains(self) }
}
