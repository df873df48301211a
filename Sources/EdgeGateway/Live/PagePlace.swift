import Foundation
import Glibc

/// Where the live page listens: `HOST:PORT` of an IP address of this machine, brackets around IPv6.
struct PagePlace: Equatable, Sendable {
    let host: String
    let port: Int

    /// - Throws: ``SettingsFault`` for what is no address and port.
    init(_ text: String) throws(SettingsFault) {
        let fault = SettingsFault(
            description:
                "page.listen: \(text) is not an IP address and port, such as 127.0.0.1:8470, "
                + "0.0.0.0:8470 or [::1]:8470", setting: "page.listen")
        guard let colon = text.lastIndex(of: ":"),
            let port = Int(text[text.index(after: colon)...]), (1...65535).contains(port)
        else { throw fault }
        var host = String(text[..<colon])
        if host.hasPrefix("["), host.hasSuffix("]") { host = String(host.dropFirst().dropLast()) }
        var v4 = in_addr()
        var v6 = in6_addr()
        guard inet_pton(AF_INET, host, &v4) == 1 || inet_pton(AF_INET6, host, &v6) == 1 else {
            throw fault
        }
        self.host = host
        self.port = port
    }

    /// Whether only this machine can reach it.
    var isLoopback: Bool { host.hasPrefix("127.") || host == "::1" }

    /// The names by which a browser may call a page on loopback. Another name that leads here belongs to
    /// a web site that wants to read the page through a visitor's browser (DNS rebinding). The port is another one
    /// behind a tunnel.
    func accepts(authority: String?) -> Bool {
        guard isLoopback else { return true }
        guard let match = authority?.wholeMatch(of: /(\[[^\]]*\]|[^:\[\]]*)(?::[0-9]{1,5})?/) else {
            return false
        }
        return ["localhost", "127.0.0.1", "[::1]", Self.bracketed(host)].contains(String(match.1))
    }

    /// The beginning of links to it. An address that stands for all of them is replaced by the first
    /// one of a network.
    var url: String {
        let shown = host == "0.0.0.0" || host == "::" ? Self.networkAddress() ?? host : host
        return "http://\(Self.bracketed(shown)):\(port)"
    }

    private static func bracketed(_ host: String) -> String {
        host.contains(":") ? "[\(host)]" : host
    }

    /// The first IPv4 address of an interface that is up and not loopback.
    private static func networkAddress() -> String? {
        var first: UnsafeMutablePointer<ifaddrs>?
        guard getifaddrs(&first) == 0 else { return nil }
        defer { freeifaddrs(first) }
        var next = first
        while let entry = next?.pointee {
            next = entry.ifa_next
            let flags = entry.ifa_flags
            guard let address = entry.ifa_addr, Int32(address.pointee.sa_family) == AF_INET,
                flags & UInt32(IFF_UP) != 0, flags & UInt32(IFF_LOOPBACK) == 0
            else { continue }
            var text = [CChar](repeating: 0, count: Int(INET_ADDRSTRLEN))
            let isText = address.withMemoryRebound(to: sockaddr_in.self, capacity: 1) {
                var address = $0.pointee.sin_addr
                return inet_ntop(AF_INET, &address, &text, socklen_t(text.count)) != nil
            }
            if isText {
                return String(decoding: text.prefix { $0 != 0 }.map(UInt8.init), as: UTF8.self)
            }
        }
        return nil
    }
}
