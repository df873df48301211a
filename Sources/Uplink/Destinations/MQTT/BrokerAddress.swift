import Foundation

/// Where a broker is: `mqtt://host[:port]`, or `mqtts://host[:port]` with TLS.
struct BrokerAddress: Sendable, Hashable {
    /// Host and port as a person wrote them.
    private let origin: Origin

    /// The broker at `text`; nil unless it is a scheme, a host and perhaps a port.
    init?(_ text: String) {
        let lowered = text.lowercased()
        for (scheme, equivalent) in [("mqtts://", Origin.Scheme.https), ("mqtt://", .http)]
        where lowered.hasPrefix(scheme) {
            let rest = text.dropFirst(scheme.count)
            let authority = rest.hasSuffix("/") ? rest.dropLast() : rest
            guard let origin = Origin(scheme: equivalent, authority: authority) else { return nil }
            self.origin = origin
            return
        }
        return nil
    }

    /// Whether the connection is encrypted.
    var isSecure: Bool { origin.scheme == .https }
    /// The host as a person reads it, an IPv6 address in brackets.
    var shownHost: String { origin.host }
    /// The host as a resolver wants it.
    var host: String { String(origin.host.trimmingPrefix("[").prefix { $0 != "]" }) }
    /// The port; 1883 and 8883 are registered for MQTT.
    var port: UInt16 { origin.port ?? (isSecure ? 8883 : 1883) }

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

    /// Whether plain text is acceptable there, if it is plain.
    func isAllowed(_ plain: Origin.PlainHTTP) -> Bool {
        switch plain {
        case _ where isSecure: true
        case .never: false
        case .loopback: origin.isLoopback
        case .allowed: true
        }
    }
}

extension BrokerAddress: CustomStringConvertible {
    /// `mqtt://host:port`.
    var description: String { "\(isSecure ? "mqtts" : "mqtt")://\(shownHost):\(port)" }
}
