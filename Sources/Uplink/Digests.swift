import COpenSSL

/// The functions of OpenSSL's libcrypto that the gateway uses.
public enum Digests {
    /// The first half of the SHA-256 of a text, in hexadecimal.
    public static func fingerprint(_ text: String) -> String {
        hex(sha256(Array(text.utf8)).prefix(16))
    }

    /// The first half of an HMAC with SHA-256 of a text, in hexadecimal.
    public static func mark(_ text: String, under secret: Secret) -> String {
        hex(hmacSHA256(key: Array(secret.revealed.utf8), Array(text.utf8)).prefix(16))
    }

    static let sha256Bytes = Int(SHA256_DIGEST_LENGTH)
    static let ed25519SeedBytes = 32
    private static let ed25519SignatureBytes = 64

    /// The 32 bytes of a SHA-256.
    static func sha256(_ bytes: [UInt8]) -> [UInt8] {
        var digest = [UInt8](repeating: 0, count: sha256Bytes)
        SHA256(bytes, bytes.count, &digest)
        return digest
    }

    /// Bytes as hexadecimal digits.
    static func hex(_ bytes: some Sequence<UInt8>) -> String {
        bytes.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
    }

    /// Bytes in the base64 of addresses and tokens (RFC 4648 §5), without padding.
    static func base64URL(_ bytes: [UInt8]) -> String {
        var text = JSONBytes()
        text.base64(bytes)
        return String(decoding: text.bytes, as: UTF8.self).replacing("+", with: "-")
            .replacing("/", with: "_").replacing("=", with: "")
    }

    /// The 32 bytes of an HMAC with SHA-256 (RFC 2104).
    static func hmacSHA256(key: [UInt8], _ bytes: [UInt8]) -> [UInt8] {
        var digest = [UInt8](repeating: 0, count: sha256Bytes)
        let made = HMAC(EVP_sha256(), key, Int32(key.count), bytes, bytes.count, &digest, nil)
        // A signature that cannot be made must not be a wrong one.
        precondition(made != nil, "libcrypto has no memory for an HMAC")
        return digest
    }

    /// The public key of an Ed25519 seed (RFC 8032), both 32 bytes; nil if libcrypto cannot make it.
    static func ed25519PublicKey(seed: [UInt8]) -> [UInt8]? {
        let key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nil, seed, seed.count)
        defer { EVP_PKEY_free(key) }
        var bytes = [UInt8](repeating: 0, count: ed25519SeedBytes)
        var count = bytes.count
        guard let key, EVP_PKEY_get_raw_public_key(key, &bytes, &count) == 1, count == bytes.count
        else { return nil }
        return bytes
    }

    /// The 64 bytes of an Ed25519 signature; nil if libcrypto cannot make it.
    static func ed25519Signature(seed: [UInt8], _ message: [UInt8]) -> [UInt8]? {
        let key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nil, seed, seed.count)
        let context = EVP_MD_CTX_new()
        defer {
            EVP_MD_CTX_free(context)
            EVP_PKEY_free(key)
        }
        var signature = [UInt8](repeating: 0, count: ed25519SignatureBytes)
        var count = signature.count
        guard let key, let context, EVP_DigestSignInit(context, nil, nil, nil, key) == 1,
            EVP_DigestSign(context, &signature, &count, message, message.count) == 1,
            count == signature.count
        else { return nil }
        return signature
    }
}
