import Foundation

/// The links that filters of mails put around the links in them.
enum LinkWrapper {
    private struct Filter {
        var host: String
        var name: String
        /// The parameter that holds the whole link; nil if it is written in a way of the filter's own.
        var parameter: String?
    }

    /// Microsoft's keep the link as it was, percent-encoded once more. The others change it, shorten it or keep
    /// it to themselves.
    private static let filters = [
        Filter(
            host: "safelinks.protection.outlook.com", name: "Microsoft SafeLinks", parameter: "url"),
        Filter(
            host: "safelinks.protection.office365.us", name: "Microsoft SafeLinks",
            parameter: "url"),
        Filter(host: "statics.teams.cdn.office.net", name: "Microsoft Teams", parameter: "url"),
        Filter(host: "urldefense.com", name: "Proofpoint URL Defense"),
        Filter(host: "urldefense.us", name: "Proofpoint URL Defense"),
        Filter(host: "urldefense.proofpoint.com", name: "Proofpoint URL Defense"),
        Filter(host: "linkprotect.cudasvc.com", name: "Barracuda Link Protection"),
        Filter(host: "mimecast.com", name: "Mimecast"),
        Filter(host: "mimecastprotect.com", name: "Mimecast"),
        Filter(host: "secure-web.cisco.com", name: "Cisco Secure Email"),
        Filter(host: "protection.sophos.com", name: "Sophos Email"),
        Filter(host: "clicktime.symantec.com", name: "Symantec Email Security"),
        Filter(host: "protect2.fireeye.com", name: "Trellix Email Security"),
        Filter(host: "url.emailprotection.link", name: "LinkSafe"),
        Filter(host: "www.google.com", name: "Google"),
    ]

    /// A mail that was forwarded may have been filtered twice.
    private static let layersMax = 3

    /// The link that was sent; `link` itself unless a filter has changed it.
    static func link(in link: String) throws(InvitationLink.Fault) -> String {
        var link = link
        for _ in 0..<layersMax {
            guard let host = Origin(link)?.host,
                let filter = filters.first(where: {
                    host == $0.host || host.hasSuffix("." + $0.host)
                })
            else { return link }
            guard let inside = filter.parameter.flatMap({ value(of: $0, in: link) }) else {
                throw .wrapped(by: filter.name)
            }
            link = try InvitationLink.trimmed(inside)
        }
        throw .unrecognized
    }

    /// The value of a parameter in a link's query.
    private static func value(of name: String, in link: String) -> String? {
        guard let mark = link.firstIndex(of: "?") else { return nil }
        let query = link[link.index(after: mark)...].prefix { $0 != "#" }
        return query.split(separator: "&").first { $0.lowercased().hasPrefix(name + "=") }
            .flatMap { $0.dropFirst(name.count + 1).removingPercentEncoding }
    }
}
