import Foundation

/// A practitioner's API key as it comes in a file: the exchange's JSON answer when the key was made
/// (`{"id","label","created","name","key"}`), `name=value` lines (`exchange=`, `key=`), or the key
/// alone, which is the base64 of `client id:client secret`.
public struct PractitionerKeyFile: Sendable {
    /// Why a text holds no key. Carries nothing of it.
    public enum Fault: Error, Hashable, Sendable {
        /// Longer than ``PractitionerKeyFile/lengthMax``.
        case tooLong
        /// No key is in it.
        case noKey
        /// The value of its key is not a key.
        case notAKey
    }

    /// Longest text that is parsed, in bytes; the exchange's answer has some 300.
    public static let lengthMax = 16 << 10

    /// The key.
    public let key: Secret
    /// The two parts of the key, which is `ID:SECRET` in base64.
    let clientID: String
    let clientSecret: Secret
    /// The exchange's address, if the file names it.
    public let exchange: String?

    /// Finds the key in `text`.
    public init(_ text: String) throws(Fault) {
        let text = text.trimmingCharacters(in: .whitespacesAndNewlines)
        guard text.utf8.count <= Self.lengthMax else { throw .tooLong }
        let members: [String: String]
        if Self.parts(text) != nil {
            members = ["key": text]
        } else if text.hasPrefix("{") {
            let answer = try? JSONDecoder().decode(Answer.self, from: Data(text.utf8))
            members = ["key": answer?.key, "exchange": answer?.exchange].compactMapValues { $0 }
        } else {
            members = Self.lines(text)
        }
        guard let found = members["key"] else { throw .noKey }
        guard let parts = Self.parts(found) else { throw .notAKey }
        key = Secret(found)
        (clientID, clientSecret) = parts
        exchange = members["exchange"]
    }

    private struct Answer: Decodable {
        var key: String?
        var exchange: String?
    }

    private static func lines(_ text: String) -> [String: String] {
        var members: [String: String] = [:]
        for line in text.split(whereSeparator: \.isNewline) where !line.hasPrefix("#") {
            // A key ends in "=" at times: the first one separates.
            let parts = line.split(separator: "=", maxSplits: 1).map {
                $0.trimmingCharacters(in: .whitespaces)
            }
            guard parts.count == 2 else { continue }
            members[parts[0].lowercased()] = parts[1].trimmingCharacters(
                in: CharacterSet(charactersIn: "\"'"))
        }
        return members
    }

    /// The client id and the secret in a key; nil if it is malformed.
    static func parts(_ key: String) -> (clientID: String, secret: Secret)? {
        guard let data = Data(base64Encoded: key),
            let pair = String(data: data, encoding: .utf8), let colon = pair.firstIndex(of: ":")
        else { return nil }
        let (id, secret) = (pair[..<colon], pair[pair.index(after: colon)...])
        return id.isEmpty || secret.isEmpty ? nil : (String(id), Secret(String(secret)))
    }
}

extension PractitionerKeyFile.Fault: CustomStringConvertible {
    /// The fault, for a technician.
    public var description: String {
        switch self {
        case .tooLong: "too long for a key"
        case .noKey: "there is no key in it"
        case .notAKey: "this is not a practitioner key, or not a whole one"
        }
    }
}
