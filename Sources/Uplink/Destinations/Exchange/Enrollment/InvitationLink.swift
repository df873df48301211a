import Foundation

/// What a technician was handed to enroll with, in any of the forms exchanges have printed
/// (docs/exchange.md). A bearer credential: never logged, and printed without its secret.
public enum InvitationLink: Sendable, Hashable {
    /// Exchanges since v0.0.11: `…/<host>_<32 characters>`; can be redeemed again and again.
    case token(authority: String, token: Secret)
    /// v0.0.9 and v0.0.10: `…/<host>~<client id>~<code>~<verifier>`; works once.
    case prefilled(authority: String, clientID: String, code: Secret, verifier: Secret)
    /// Before that: `…<host>|<code>` or `…<host>~<code>`, the host possibly left out; works once,
    /// and needs the client's identifier and verifier from elsewhere.
    case bare(authority: String?, code: Secret)

    /// Why a text is no invitation link.
    public enum Fault: Error, Hashable, Sendable {
        /// Nothing but white space.
        case empty
        /// Longer than `lengthMax`.
        case tooLong
        /// No part of it has one of the known forms.
        case unrecognized
    }

    /// Longest text that is parsed, in bytes; real links stay under 300.
    public static let lengthMax = 4096
    /// Length of an invitation token, in characters.
    static let tokenLength = 32

    /// Finds the invitation in `text`: a whole link with it in the path, the query or the fragment,
    /// percent-encoded or not, or the bare code.
    public init(_ text: String) throws(Fault) {
        let trimmed = text.trimmingCharacters(in: .whitespacesAndNewlines)
        guard !trimmed.isEmpty else { throw .empty }
        guard trimmed.utf8.count <= Self.lengthMax else { throw .tooLong }
        let decoded = trimmed.removingPercentEncoding ?? trimmed
        // The code comes last in all known links, but tracking parameters may follow it.
        let pieces = decoded.split { "/=?&#".contains($0) }
        for piece in pieces.reversed() {
            if let link = Self.read(piece) {
                self = link
                return
            }
        }
        throw .unrecognized
    }

    /// The server to redeem at: https, unless `plainHTTP` says otherwise for its host. Links carry
    /// no scheme. Nil when the link has no host.
    public func origin(plainHTTP: Origin.PlainHTTP) -> Origin? {
        let authority: String? =
            switch self {
            case .token(let authority, _): authority
            case .prefilled(let authority, _, _, _): authority
            case .bare(let authority, _): authority
            }
        return authority.flatMap { Origin(authority: $0, plainHTTP: plainHTTP) }
    }

    private static func read(_ piece: Substring) -> InvitationLink? {
        if piece.contains("|") {
            return readBare(piece.split(separator: "|", omittingEmptySubsequences: false))
        }
        if piece.contains("~") {
            // A verifier may contain "~" itself (RFC 7636 §4.1): it is the rest.
            let parts = piece.split(
                separator: "~", maxSplits: 3, omittingEmptySubsequences: false)
            return parts.count == 4 ? readPrefilled(parts) : readBare(parts)
        }
        return readToken(piece)
    }

    private static func readToken(_ piece: Substring) -> InvitationLink? {
        // Host names may contain "_": the last one counts.
        guard let mark = piece.lastIndex(of: "_") else { return nil }
        let authority = piece[..<mark]
        let token = piece[piece.index(after: mark)...]
        guard token.utf8.count == tokenLength, token.utf8.allSatisfy(isAlphanumeric),
            isAuthority(authority)
        else { return nil }
        return .token(authority: String(authority), token: Secret(String(token)))
    }

    private static func readPrefilled(_ parts: [Substring]) -> InvitationLink? {
        guard isAuthority(parts[0]), parts[1...].allSatisfy({ isOpaque($0) }) else { return nil }
        return .prefilled(
            authority: String(parts[0]), clientID: String(parts[1]),
            code: Secret(String(parts[2])), verifier: Secret(String(parts[3])))
    }

    private static func readBare(_ parts: [Substring]) -> InvitationLink? {
        guard parts.count == 2, isOpaque(parts[1]) else { return nil }
        if parts[0].isEmpty { return .bare(authority: nil, code: Secret(String(parts[1]))) }
        guard isAuthority(parts[0]) else { return nil }
        return .bare(authority: String(parts[0]), code: Secret(String(parts[1])))
    }

    private static func isAuthority(_ text: Substring) -> Bool {
        Origin(scheme: .https, authority: text) != nil
    }

    /// RFC 3986's unreserved characters, which is what identifiers, codes and verifiers are made of.
    private static func isOpaque(_ text: Substring) -> Bool {
        !text.isEmpty
            && text.utf8.allSatisfy {
                isAlphanumeric($0) || $0 == 0x2D || $0 == 0x2E || $0 == 0x5F || $0 == 0x7E
            }
    }

    private static func isAlphanumeric(_ byte: UInt8) -> Bool {
        0x30...0x39 ~= byte || 0x41...0x5A ~= byte || 0x61...0x7A ~= byte
    }
}

extension InvitationLink.Fault: CustomStringConvertible {
    /// What is wrong, for a technician.
    public var description: String {
        switch self {
        case .empty: "no link was given"
        case .tooLong: "this is too long for an invitation link"
        case .unrecognized:
            "this is not an invitation link: it should end in the exchange's host name, an "
                + "underscore and 32 letters and digits; copy it whole"
        }
    }
}
