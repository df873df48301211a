import Foundation

/// The link that a technician was handed to enroll with, in any of the forms exchanges have printed
/// (docs/develop/exchange.md). A bearer credential: never logged, and printed without its secret.
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
        /// Different parts of it have, and name different invitations.
        case ambiguous
        /// A line break goes through it.
        case broken
        /// A mail filter, which is named, has put its own link around it.
        case wrapped(by: String)
    }

    /// Longest text that is parsed, in bytes; real links stay under 300.
    public static let lengthMax = 4096
    /// Length of an invitation token, in characters.
    static let tokenLength = 32

    /// Finds the invitation in `text`: a whole link with it in the path, the query or the fragment,
    /// percent-encoded or not, or the bare code; also between the marks that mails and documents put around
    /// links, and inside a link of Microsoft's filter.
    public init(_ text: String) throws(Fault) {
        let link = try LinkWrapper.link(in: Self.trimmed(text))
        guard !link.isEmpty else { throw .empty }
        let decoded = link.removingPercentEncoding ?? link
        // Tracking parameters may follow the code, but nothing else may look like one: which of the two a
        // person meant, and whom the gateway would hand its samples to, is not to be guessed.
        let found = decoded.split { "/=?&#".contains($0) }.compactMap(Self.read)
        let whole = found.filter { if case .bare = $0 { false } else { true } }
        let invitations = Set(whole.isEmpty ? found : whole)
        guard let invitation = invitations.first else { throw .unrecognized }
        guard invitations.count == 1, !invitation.hidesAnother else { throw .ambiguous }
        self = invitation
    }

    /// Without what stands around a link in a text.
    static func trimmed(_ text: String) throws(Fault) -> String {
        var link = text.trimmingCharacters(in: marks)
        if link.lowercased().hasPrefix("url:") { link = String(link.dropFirst(4)) }
        guard link.utf8.count <= lengthMax else { throw .tooLong }
        guard !link.contains(where: \.isNewline) else { throw .broken }
        return link
    }

    /// Blanks, the brackets of RFC 3986 (appendix C), quotation marks, and what nobody sees.
    private static let marks = CharacterSet.whitespacesAndNewlines.union(
        CharacterSet(
            charactersIn: "<>\"'`“”„‘’«»\u{FEFF}\u{200B}\u{200E}\u{200F}\u{2060}"))

    /// Whether what stands for the host name ends in a token of its own, as in `good.example_TOKEN_evil.example`.
    private var hidesAnother: Bool {
        guard case .token(let authority, _) = self else { return false }
        return authority.split(separator: "_").dropFirst().contains {
            $0.utf8.prefix(while: \.isAlphanumeric).count >= Self.tokenLength
        }
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
        // A sentence may end behind a link.
        let end = piece.lastIndex { !".,;:!)>\"'”’»".contains($0) } ?? mark
        guard end > mark else { return nil }
        let token = piece[piece.index(after: mark)...end]
        guard token.utf8.count == tokenLength, token.utf8.allSatisfy(\.isAlphanumeric),
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
        !text.isEmpty && text.utf8.allSatisfy(\.isUnreserved)
    }
}

extension InvitationLink.Fault: CustomStringConvertible {
    /// The fault, for a technician.
    public var description: String {
        switch self {
        case .empty: "no link was given"
        case .tooLong: "this is too long for an invitation link"
        case .unrecognized:
            "this is not an invitation link: it should end in the exchange's host name, an "
                + "underscore and 32 letters and digits"
        case .ambiguous:
            "this link holds more than one invitation, of different exchanges or tokens"
        case .broken: "a line break goes through this link"
        case .wrapped(let filter):
            "this is a link of \(filter), which hides the invitation in it"
        }
    }

    /// The remedy, for a technician.
    public var advice: String {
        switch self {
        case .empty, .tooLong, .unrecognized:
            "copy the whole link from the exchange's invitation"
        case .ambiguous:
            "have the exchange's staff send the invitation again; do not use this link"
        case .broken: "write the link on one line, without the line break and blanks around it"
        case .wrapped:
            "open it in a browser and give the address at which that ends, or have the invitation "
                + "shown as a QR code (--picture)"
        }
    }
}
