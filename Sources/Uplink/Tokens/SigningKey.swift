import COpenSSL
import Foundation

/// An RSA key with which this gateway signs in at servers of tokens (RS384 of RFC 7518).
///
/// The private half stays where it was made; a server has the public one, as a JSON Web Key.
public struct SigningKey: Sendable, Hashable {
    /// The private key (RFC 8017).
    private let der: [UInt8]
    /// The public numbers in the base64 of tokens.
    private let modulus, exponent: String

    private static let bits: Int32 = 3072
    /// RFC 7518 §3.3 allows no shorter one.
    private static let bitsMin: Int32 = 2048

    /// Makes a new one, which takes a second or two on a small board; nil if libcrypto cannot.
    public static func make() -> SigningKey? {
        let context = EVP_PKEY_CTX_new_id(EVP_PKEY_RSA, nil)
        defer { EVP_PKEY_CTX_free(context) }
        var key: OpaquePointer?
        guard let context, EVP_PKEY_keygen_init(context) == 1,
            EVP_PKEY_CTX_set_rsa_keygen_bits(context, bits) == 1,
            EVP_PKEY_keygen(context, &key) == 1, let key
        else { return nil }
        defer { EVP_PKEY_free(key) }
        let count = i2d_PrivateKey(key, nil)
        guard count > 0 else { return nil }
        var der = [UInt8](repeating: 0, count: Int(count))
        der.withUnsafeMutableBufferPointer { bytes in
            var end = bytes.baseAddress
            _ = i2d_PrivateKey(key, &end)
        }
        return SigningKey(der)
    }

    /// Reads what ``text`` wrote; nil if it is no RSA key of 2048 bits or more.
    public init?(_ text: String) {
        guard let der = Data(base64Encoded: text) else { return nil }
        self.init([UInt8](der))
    }

    private init?(_ der: [UInt8]) {
        guard let key = Self.key(der) else { return nil }
        defer { EVP_PKEY_free(key) }
        guard EVP_PKEY_get_base_id(key) == EVP_PKEY_RSA, EVP_PKEY_get_bits(key) >= Self.bitsMin,
            let modulus = Self.number("n", of: key), let exponent = Self.number("e", of: key)
        else { return nil }
        self.der = der
        self.modulus = Digests.base64URL(modulus)
        self.exponent = Digests.base64URL(exponent)
    }

    private static func key(_ der: [UInt8]) -> OpaquePointer? {
        der.withUnsafeBufferPointer { bytes in
            var start = bytes.baseAddress
            return d2i_AutoPrivateKey(nil, &start, bytes.count)
        }
    }

    private static func number(_ name: String, of key: OpaquePointer) -> [UInt8]? {
        var number: OpaquePointer?
        guard EVP_PKEY_get_bn_param(key, name, &number) == 1, let number else { return nil }
        defer { BN_free(number) }
        var bytes = [UInt8](repeating: 0, count: Int(BN_num_bits(number) + 7) / 8)
        BN_bn2bin(number, &bytes)
        return bytes
    }

    /// The private key in one line.
    public var text: Secret {
        var text = JSONBytes()
        text.base64(der)
        return Secret(String(decoding: text.bytes, as: UTF8.self))
    }

    /// The name of the key: its thumbprint (RFC 7638).
    public var name: String {
        let members = #"{"e":"\#(exponent)","kty":"RSA","n":"\#(modulus)"}"#
        return Digests.base64URL(Digests.sha256(Array(members.utf8)))
    }

    /// The half for a server's operator: the JSON Web Key Set (RFC 7517) with the public key.
    public var keySet: String {
        #"{"keys":[{"kty":"RSA","use":"sig","alg":"RS384","kid":"\#(name)","key_ops":["verify"],"#
            + #""n":"\#(modulus)","e":"\#(exponent)"}]}"#
    }

    /// A JSON Web Token with these claims, a JSON object; nil if libcrypto cannot sign.
    func token(_ claims: [UInt8]) -> Secret? {
        let header = #"{"alg":"RS384","typ":"JWT","kid":"\#(name)"}"#
        let signed = "\(Digests.base64URL(Array(header.utf8))).\(Digests.base64URL(claims))"
        return signature(of: Array(signed.utf8)).map {
            Secret("\(signed).\(Digests.base64URL($0))")
        }
    }

    private func signature(of message: [UInt8]) -> [UInt8]? {
        let key = Self.key(der)
        let context = EVP_MD_CTX_new()
        defer {
            EVP_MD_CTX_free(context)
            EVP_PKEY_free(key)
        }
        guard let key, let context,
            EVP_DigestSignInit(context, nil, EVP_sha384(), nil, key) == 1
        else { return nil }
        var count = Int(EVP_PKEY_get_size(key))
        var signature = [UInt8](repeating: 0, count: count)
        guard EVP_DigestSign(context, &signature, &count, message, message.count) == 1 else {
            return nil
        }
        return Array(signature.prefix(count))
    }
}

extension SigningKey: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// The name: the private key is printed by nothing but ``text``.
    public var description: String { name }
    /// The same.
    public var debugDescription: String { name }
    /// No children, so `dump` shows nothing either.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
