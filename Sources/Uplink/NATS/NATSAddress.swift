/// Where a NATS server is: `tls://host[:port]`, or `nats://host[:port]` without TLS.
public struct NATSAddress: Sendable, Hashable {
    /// Host and port as a person wrote them.
    private let origin: Origin

    /// More servers than a cluster has.
    static let serversMax = 16
    private static let standardPort: UInt16 = 4222

    /// The server at `text`; nil unless it is a scheme, a host and perhaps a port.
    public init?(_ text: some StringProtocol) {
        let lowered = text.lowercased()
        for (scheme, equivalent) in [("tls://", Origin.Scheme.https), ("nats://", .http)]
        where lowered.hasPrefix(scheme) {
            let rest = text.dropFirst(scheme.count)
            let authority = rest.hasSuffix("/") ? rest.dropLast() : rest
            guard !authority.contains("@"),
                let origin = Origin(scheme: equivalent, authority: authority)
            else { return nil }
            self.origin = origin
            return
        }
        return nil
    }

    /// The servers in a comma-separated list; nil if one of them is not a valid address.
    public static func list(_ text: String) -> [NATSAddress]? {
        let words = text.split(separator: ",")
        let list = words.compactMap { NATSAddress($0.drop { $0 == " " }) }
        return list.count == words.count && 1...serversMax ~= list.count ? list : nil
    }

    /// Whether the connection is encrypted.
    public var isSecure: Bool { origin.scheme == .https }
    /// The host as a person reads it, an IPv6 address in brackets.
    var shownHost: String { origin.host }
    /// The host as a certificate has it.
    var host: String { String(origin.host.trimmingPrefix("[").prefix { $0 != "]" }) }

    /// The port; 4222 is registered for NATS.
    var port: UInt16 { origin.port ?? Self.standardPort }

    /// Whether plain text is acceptable there, if it is plain.
    public func isAllowed(_ plain: Origin.PlainHTTP) -> Bool {
        switch plain {
        case _ where isSecure: true
        case .never: false
        case .loopback: origin.isLoopback
        case .allowed: true
        }
    }
}

extension NATSAddress: CustomStringConvertible {
    /// `tls://host:port`.
    public var description: String {
        "\(isSecure ? "tls" : "nats")://\(shownHost):\(port)"
    }
}
