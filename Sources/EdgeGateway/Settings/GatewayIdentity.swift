import Foundation
import Glibc

/// The name and the place of this gateway: part of `status`, `/v1/fleet` and `/metrics`.
struct GatewayIdentity: Codable, Equatable, Sendable {
    /// Longest name, site and value of a label, in characters.
    static let lengthMax = GivenName.lengthMax
    /// A screen has no room for more, and each costs every series that is joined with it.
    static let labelsMax = 16
    private static let labelLengthMax = 32

    var name: String
    /// Left out if it is not set.
    var site: String?
    var labels: [String: String] = [:]
    /// Tells it from another gateway of its name: a hash of what its hardware carries. Left out where nothing is known of
    /// that, as in a container.
    var board: String?

    /// Whether `text` can be a name, a site or the value of a label.
    static func isName(_ text: String) -> Bool { GivenName.isValid(text) }

    /// The labels of `floor=3, owner=cardiology`; nil for what is no such list.
    static func labels(_ text: String) -> [String: String]? {
        guard !text.trimmingCharacters(in: .whitespaces).isEmpty else { return [:] }
        var labels: [String: String] = [:]
        for part in text.split(separator: ",", omittingEmptySubsequences: false) {
            let sides = part.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
                .map { $0.trimmingCharacters(in: .whitespaces) }
            guard sides.count == 2, isLabel(sides[0]), isName(sides[1]), labels[sides[0]] == nil
            else { return nil }
            labels[sides[0]] = sides[1]
        }
        return labels.count <= labelsMax ? labels : nil
    }

    /// The names that Prometheus accepts.
    static func isLabel(_ text: String) -> Bool {
        (1...labelLengthMax).contains(text.utf8.count)
            && text.wholeMatch(of: /[A-Za-z_][A-Za-z0-9_]*/) != nil
    }

    /// The name of this machine.
    static func hostName() -> String {
        // HOST_NAME_MAX of Linux, and a NUL.
        var bytes = [CChar](repeating: 0, count: 65)
        guard gethostname(&bytes, bytes.count - 1) == 0 else { return "gateway" }
        let name = String(
            decoding: bytes.prefix { $0 != 0 }.map { UInt8(truncatingIfNeeded: $0) }, as: UTF8.self)
        return isName(name) ? name : "gateway"
    }
}

extension Settings {
    /// A value that cannot be used counts as not set; `config check` says so.
    var identity: GatewayIdentity {
        GatewayIdentity(
            name: GatewayIdentity.isName(gatewayName) ? gatewayName : GatewayIdentity.hostName(),
            site: GatewayIdentity.isName(gatewaySite) ? gatewaySite : nil,
            labels: GatewayIdentity.labels(gatewayLabels) ?? [:])
    }
}
