import Foundation

/// Where a broker or a NATS server is, such as `mqtt://host[:port]`, or `tls://host[:port]` with TLS.
public struct ServerAddress: Sendable, Hashable {
    /// The protocol of the server.
    public enum Service: Sendable, Hashable {
        /// `mqtt://` and `mqtts://`.
        case mqtt
        /// `nats://` and `tls://`.
        case nats

        fileprivate func scheme(isSecure: Bool) -> String {
            switch self {
            case .mqtt: isSecure ? "mqtts" : "mqtt"
            case .nats: isSecure ? "tls" : "nats"
            }
        }

        /// The registered port.
        fileprivate func port(isSecure: Bool) -> UInt16 {
            switch self {
            case .mqtt: isSecure ? 8883 : 1883
            case .nats: 4222
            }
        }
    }

    private let service: Service
    /// Host and port as a person wrote them.
    private let origin: Origin

    /// More servers than a cluster has.
    static let serversMax = 16

    /// The server at `text`; nil unless it is a scheme of the service, a host and perhaps a port.
    public init?(_ text: some StringProtocol, _ service: Service) {
        let lowered = text.lowercased()
        for isSecure in [true, false] {
            let scheme = service.scheme(isSecure: isSecure) + "://"
            guard lowered.hasPrefix(scheme) else { continue }
            let rest = text.dropFirst(scheme.count)
            let authority = rest.hasSuffix("/") ? rest.dropLast() : rest
            // A user and a password have settings of their own.
            guard !authority.contains("@"),
                let origin = Origin(scheme: isSecure ? .https : .http, authority: authority)
            else { return nil }
            self.service = service
            self.origin = origin
            return
        }
        return nil
    }

    /// The servers in a comma-separated list; nil if one of them is not a valid address.
    public static func list(_ text: String, _ service: Service) -> [ServerAddress]? {
        let words = text.split(separator: ",")
        let list = words.compactMap { ServerAddress($0.drop { $0 == " " }, service) }
        return list.count == words.count && 1...serversMax ~= list.count ? list : nil
    }

    /// Whether the connection is encrypted.
    public var isSecure: Bool { origin.scheme == .https }
    /// The host as a person reads it, an IPv6 address in brackets.
    var shownHost: String { origin.host }
    /// The host as a resolver wants it, and as a certificate has it.
    var host: String { String(origin.host.trimmingPrefix("[").prefix { $0 != "]" }) }
    /// The port.
    var port: UInt16 { origin.port ?? service.port(isSecure: isSecure) }

    /// Whether plain text is acceptable there, if it is plain.
    public func isAllowed(_ plain: Origin.PlainHTTP) -> Bool { origin.isAllowed(plain) }

    /// Asks the resolver whether the host has addresses of IPv4 and of IPv6.
    func hasAddressesOfBothKinds() -> Bool {
        var list: UnsafeMutablePointer<addrinfo>?
        guard getaddrinfo(host, nil, nil, &list) == 0 else { return false }
        defer { freeaddrinfo(list) }
        var families: Set<Int32> = []
        var next = list
        while let one = next?.pointee {
            families.insert(one.ai_family)
            next = one.ai_next
        }
        return families.isSuperset(of: [AF_INET, AF_INET6])
    }
}

extension ServerAddress: CustomStringConvertible {
    /// `mqtt://host:port`.
    public var description: String {
        "\(service.scheme(isSecure: isSecure))://\(shownHost):\(port)"
    }
}
