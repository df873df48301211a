/// A scheme, host and port: where a server is, and nothing of what is asked of it.
public struct Origin: Sendable, Hashable {
    /// How the server is spoken to.
    public enum Scheme: String, Sendable {
        /// TLS.
        case https
        /// Plain text.
        case http
    }

    /// When plain http is acceptable.
    public enum PlainHTTP: Sendable, Hashable {
        /// Never, not even to this machine.
        case never
        /// To this machine only.
        case loopback
        /// To any host: the operator's explicit switch.
        case allowed
    }

    /// The scheme.
    public let scheme: Scheme
    /// Host name, IPv4 address, or IPv6 address in brackets; lower case.
    public let host: String
    /// The port, if it was written out.
    public let port: UInt16?

    /// Longest host name accepted, in characters (RFC 1035 §2.3.4 allows 255 octets).
    static let hostLengthMax = 253

    /// `scheme://host[:port]`, or nil if `authority` (`host[:port]`) is not one.
    public init?(scheme: Scheme, authority: some StringProtocol) {
        guard let (host, port) = Self.split(authority) else { return nil }
        self.scheme = scheme
        self.host = host
        self.port = port
    }

    /// The origin of an authority that came without a scheme, as in an invitation link: https,
    /// unless `plainHTTP` says otherwise for that host.
    public init?(authority: some StringProtocol, plainHTTP: PlainHTTP) {
        guard let secure = Origin(scheme: .https, authority: authority) else { return nil }
        let plain = Origin(secure, scheme: .http)
        self = plain.isAllowed(plainHTTP) ? plain : secure
    }

    /// The origin at the start of `text` (`https://host[:port][/…]`), or nil.
    public init?(_ text: some StringProtocol) {
        let lowered = text.prefix(8).lowercased()
        let scheme: Scheme
        if lowered.hasPrefix("https://") {
            scheme = .https
        } else if lowered.hasPrefix("http://") {
            scheme = .http
        } else {
            return nil
        }
        let rest = text.dropFirst(scheme.rawValue.count + 3)
        let authority = rest.prefix { $0 != "/" && $0 != "?" && $0 != "#" }
        self.init(scheme: scheme, authority: authority)
    }

    private init(_ other: Origin, scheme: Scheme) {
        self.scheme = scheme
        host = other.host
        port = other.port
    }

    /// Whether plain text is acceptable there, if it is plain.
    public func isAllowed(_ plain: PlainHTTP) -> Bool {
        switch plain {
        case _ where scheme == .https: true
        case .never: false
        case .loopback: isLoopback
        case .allowed: true
        }
    }

    /// Whether the host is this machine: `localhost`, `127.0.0.0/8` or `[::1]`.
    public var isLoopback: Bool {
        if host == "localhost" || host == "[::1]" { return true }
        let parts = host.split(separator: ".", omittingEmptySubsequences: false)
        return parts.count == 4 && parts[0] == "127" && parts.allSatisfy { UInt8($0) != nil }
    }

    /// Whether both are one server: a port that is left out is the scheme's own.
    func isSame(as other: Origin) -> Bool {
        func port(_ origin: Origin) -> UInt16 {
            origin.port ?? (origin.scheme == .https ? 443 : 80)
        }
        return scheme == other.scheme && host == other.host && port(self) == port(other)
    }

    private static func split(_ authority: some StringProtocol) -> (String, UInt16?)? {
        let text = authority.lowercased()
        guard !text.isEmpty, text.utf8.count <= hostLengthMax + 6 else { return nil }
        var host = text[...]
        var port: UInt16?
        let afterBracket = text.lastIndex(of: "]") ?? text.startIndex
        if let colon = text[afterBracket...].lastIndex(of: ":") {
            let digits = text[text.index(after: colon)...]
            guard !digits.isEmpty, digits.utf8.allSatisfy({ 0x30...0x39 ~= $0 }),
                let number = UInt16(digits), number > 0
            else { return nil }
            port = number
            host = text[..<colon]
        }
        return isHost(host) ? (String(host), port) : nil
    }

    private static func isHost(_ host: Substring) -> Bool {
        if host.hasPrefix("["), host.hasSuffix("]") {
            let inner = host.dropFirst().dropLast().utf8
            return inner.count >= 2 && inner.count <= 45
                && inner.allSatisfy {
                    0x30...0x39 ~= $0 || 0x61...0x66 ~= $0 || $0 == 0x3A || $0 == 0x2E
                }
        }
        // Underscores are no valid host name, but people run servers under them.
        return !host.isEmpty && host.utf8.count <= hostLengthMax && host.first != "."
            && host.first != "-"
            && host.utf8.allSatisfy {
                0x30...0x39 ~= $0 || 0x61...0x7A ~= $0 || $0 == 0x2D || $0 == 0x2E || $0 == 0x5F
            }
    }
}

extension Origin: CustomStringConvertible {
    /// `scheme://host[:port]`.
    public var description: String {
        if let port {
            "\(scheme.rawValue)://\(host):\(port)"
        } else {
            "\(scheme.rawValue)://\(host)"
        }
    }
}

extension Origin: Codable {
    /// Reads `scheme://host[:port]`.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        guard let origin = Origin(try container.decode(String.self)) else {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: "not an origin")
        }
        self = origin
    }

    /// Writes `scheme://host[:port]`.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(description)
    }
}
