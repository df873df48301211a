import Foundation

/// A token, code or key that must not be printed by accident.
///
/// Printing, interpolating or dumping it shows `<secret>`; the value itself is reached only by
/// name.
public struct Secret: Sendable, Hashable {
    /// The value. Every use of this member is a place where the secret leaves this type.
    public let revealed: String

    /// Wraps `value`.
    public init(_ value: String) {
        revealed = value
    }
}

extension Secret: Codable {
    /// Reads a plain string.
    public init(from decoder: any Decoder) throws {
        revealed = try decoder.singleValueContainer().decode(String.self)
    }

    /// Writes a plain string, for the token file.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(revealed)
    }
}

extension Secret: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// `<secret>`, whatever the value.
    public var description: String { "<secret>" }
    /// `<secret>`, whatever the value.
    public var debugDescription: String { "<secret>" }
    /// No children, so `dump` shows nothing either.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

extension Secret {
    /// The claims of a JSON Web Token; nil if this is not one. The signature is not verified: only the issuer relies on it.
    func claims<Claims: Decodable>(_ type: Claims.Type) -> Claims? {
        let parts = revealed.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 3 else { return nil }
        var payload = parts[1].replacing("-", with: "+").replacing("_", with: "/")
        payload += String(repeating: "=", count: (4 - payload.count % 4) % 4)
        return Data(base64Encoded: String(payload))
            .flatMap { try? JSONDecoder().decode(type, from: $0) }
    }
}
