import Foundation
import Uplink

/// A proxy's URL in the configuration: `scheme://[user[:password]@]host[:port]`.
enum ProxyAddress {
    private static let schemes: Set<String> = ["http", "https", "socks4a", "socks5", "socks5h"]

    /// Whether `text` is one.
    static func isValid(_ text: String) -> Bool {
        guard let (scheme, rest) = split(text), schemes.contains(scheme.lowercased()) else {
            return false
        }
        let authority = rest.split(separator: "@", omittingEmptySubsequences: false).last ?? ""
        let place = authority.hasSuffix("/") ? authority.dropLast() : authority
        return Origin(scheme: .http, authority: place) != nil
    }

    /// `text` without a user and password.
    static func masked(_ text: String) -> String {
        guard let mark = text.lastIndex(of: "@") else { return text }
        let scheme = split(text).map { "\($0.scheme)://" } ?? ""
        return scheme + "***" + text[mark...]
    }

    private static func split(_ text: String) -> (scheme: Substring, rest: Substring)? {
        text.range(of: "://").map { (text[..<$0.lowerBound], text[$0.upperBound...]) }
    }
}
