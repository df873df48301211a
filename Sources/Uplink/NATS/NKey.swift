/// A user's NKEY at NATS servers: an Ed25519 key pair, written in base32 with a checksum.
///
/// The seed stays where it was made; a server has the public key, and asks for a signature each time.
public struct NKey: Sendable, Hashable {
    /// The seed of the key, 32 bytes.
    private let seed: [UInt8]
    /// The public key for the server's operator: `U` and 55 more characters.
    public let publicKey: String

    private static let seedBytes = Digests.ed25519SeedBytes
    /// A seed is marked by the bits of `S`, and of a user by those of `U` (nkeys: `prefixByteSeed`,
    /// `prefixByteUser`).
    private static let seedMark: UInt8 = 18 << 3
    private static let userMark: UInt8 = 20 << 3

    /// Makes a new one.
    public static func make() -> NKey? {
        var random = SystemRandomNumberGenerator()
        return NKey(seed: (0..<seedBytes).map { _ in UInt8.random(in: 0...255, using: &random) })
    }

    private init?(seed: [UInt8]) {
        guard seed.count == Self.seedBytes else { return nil }
        guard let bytes = Digests.ed25519PublicKey(seed: seed) else { return nil }
        self.seed = seed
        publicKey = Base32.text(Self.checked([Self.userMark] + bytes))
    }

    /// Reads a user's seed, `SU` and 56 more characters; nil if it is not a seed, or was mistyped.
    public init?(_ text: some StringProtocol) {
        guard let bytes = Base32.bytes(text), Base32.text(bytes) == text,
            bytes.count == 2 + Self.seedBytes + 2,
            bytes[0] == Self.seedMark | Self.userMark >> 5, bytes[1] == Self.userMark << 3,
            Self.checked(Array(bytes.dropLast(2))) == bytes
        else { return nil }
        self.init(seed: Array(bytes[2..<2 + Self.seedBytes]))
    }

    /// The seed as text.
    public var seedText: Secret {
        Secret(
            Base32.text(
                Self.checked([Self.seedMark | Self.userMark >> 5, Self.userMark << 3] + seed)))
    }

    /// Signs a server's question; nil if libcrypto cannot.
    func signature(of message: [UInt8]) -> [UInt8]? {
        Digests.ed25519Signature(seed: seed, message)
    }

    /// The bytes with their checksum: CRC-16 of XMODEM, the low byte first.
    private static func checked(_ bytes: [UInt8]) -> [UInt8] {
        var crc: UInt16 = 0
        for byte in bytes {
            crc ^= UInt16(byte) << 8
            for _ in 0..<8 { crc = crc & 0x8000 == 0 ? crc << 1 : crc << 1 ^ 0x1021 }
        }
        return bytes + [UInt8(crc & 0xFF), UInt8(crc >> 8)]
    }
}

extension NKey: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// The public key: the seed is printed by nothing but ``seedText``.
    public var description: String { publicKey }
    /// The same.
    public var debugDescription: String { publicKey }
    /// No children, so `dump` shows nothing either.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

/// Base32 of RFC 4648 §6 without padding.
private enum Base32 {
    private static let letters = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567".utf8)
    /// No key is longer.
    private static let textMax = 128

    static func text(_ bytes: [UInt8]) -> String {
        var text: [UInt8] = []
        var buffer: UInt32 = 0
        var bits = 0
        for byte in bytes {
            buffer = buffer << 8 | UInt32(byte)
            bits += 8
            while bits >= 5 {
                bits -= 5
                text.append(letters[Int(buffer >> UInt32(bits) & 31)])
            }
        }
        if bits > 0 { text.append(letters[Int(buffer << UInt32(5 - bits) & 31)]) }
        return String(decoding: text, as: UTF8.self)
    }

    static func bytes(_ text: some StringProtocol) -> [UInt8]? {
        guard text.utf8.count <= textMax else { return nil }
        var bytes: [UInt8] = []
        var buffer: UInt32 = 0
        var bits = 0
        for letter in text.utf8 {
            guard let value = letters.firstIndex(of: letter) else { return nil }
            buffer = buffer << 5 | UInt32(value)
            bits += 5
            if bits >= 8 {
                bits -= 8
                bytes.append(UInt8(truncatingIfNeeded: buffer >> UInt32(bits)))
            }
        }
        return bytes
    }
}
