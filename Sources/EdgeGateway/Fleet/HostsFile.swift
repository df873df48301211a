import Foundation
import Uplink
import Yams

/// One gateway that is asked.
struct FleetHost: Equatable, Sendable {
    /// The name that people gave it; nil: as the gateway calls itself.
    var name: String?
    var origin: Origin
    var labels: [String: String] = [:]
    /// Nil for a gateway on loopback, or at the end of a tunnel, that asks for none.
    var token: Secret?
    /// PEM file of the authority to trust instead of the system's.
    var authorityFile: String?

    /// How the screen knows it.
    var subject: FleetSubject {
        FleetSubject(address: origin.description, name: name, labels: labels)
    }
}

/// The gateways of a fleet, as a YAML file lists them (docs/operate/fleet.md).
enum HostsFile {
    /// Some hundred bytes a gateway, ten times over.
    static let fileBytesMax = 4 << 20
    /// One screen and one poller have no use for more.
    static let hostsMax = 2_000

    /// Reads the file and the tokens that it names. Files in it are relative to its own directory.
    ///
    /// - Parameter allowsPlainHTTP: plain http to other machines too.
    /// - Throws: ``CommandFailure`` with the line and what to do.
    static func read(_ path: String, allowsPlainHTTP: Bool) throws -> [FleetHost] {
        let data: Data
        do {
            let handle = try FileHandle(forReadingFrom: URL(filePath: path))
            data = try handle.read(upToCount: fileBytesMax + 1) ?? Data()
        } catch {
            throw failure("read \(path): \(GivenPath.whyUnreadable(path))", nil)
        }
        guard !data.isEmpty else { throw failure("read \(path): it is empty", nil) }
        guard data.count <= fileBytesMax, let text = String(data: data, encoding: .utf8) else {
            throw failure("read \(path): it is no text, or larger than 4 MiB", nil)
        }
        return try hosts(
            in: text, path: path, directory: URL(filePath: path).deletingLastPathComponent(),
            allowsPlainHTTP: allowsPlainHTTP)
    }

    static func hosts(
        in text: String, path: String, directory: URL, allowsPlainHTTP: Bool
    ) throws -> [FleetHost] {
        let root: Node?
        do {
            root = try YAMLText.tree(of: text)
        } catch {
            let line = error.line.map { " line \($0)" } ?? ""
            throw failure("read \(path)\(line): \(error)", nil)
        }
        let reader = HostsReader(
            path: path, directory: directory, allowsPlainHTTP: allowsPlainHTTP)
        return try reader.hosts(root)
    }

    fileprivate static func failure(_ message: String, _ advice: String?) -> CommandFailure {
        CommandFailure(
            exitCode: .wrongUsage,
            message: message + "\n  "
                + (advice ?? "docs/operate/fleet.md has an example; name the file with --hosts"))
    }
}

private struct HostsReader {
    private static let wholeKeys = ["gateways", "token_file", "ca_file"]
    private static let hostKeys = ["name", "address", "token_file", "ca_file", "labels"]

    let path: String
    let directory: URL
    let allowsPlainHTTP: Bool

    func hosts(_ root: Node?) throws -> [FleetHost] {
        guard let root, let whole = root.mapping, let list = whole["gateways"]?.sequence else {
            throw wrong(root, "`gateways` is missing", "it is a list, each with an `address`")
        }
        try checkKeys(of: whole, Self.wholeKeys)
        guard (1...HostsFile.hostsMax).contains(list.count) else {
            throw wrong(
                whole["gateways"], "it lists \(list.count) gateways",
                "list from 1 to \(HostsFile.hostsMax)")
        }
        var hosts: [FleetHost] = []
        var seen: [String: Int] = [:]
        for node in list {
            let host = try host(node, of: whole)
            for word in [host.origin.description, host.name].compactMap(\.self) {
                if let line = seen[word] {
                    throw wrong(
                        node, "\(word) stands in line \(line) already",
                        "each gateway stands here once")
                }
                seen[word] = node.mark?.line ?? 0
            }
            hosts.append(host)
        }
        return hosts
    }

    private func host(_ node: Node, of whole: Node.Mapping) throws -> FleetHost {
        guard let mapping = node.mapping else {
            throw wrong(node, "this is no gateway", "write `- address: https://HOST:8470`")
        }
        try checkKeys(of: mapping, Self.hostKeys)
        guard let address = try text(mapping, "address") else {
            throw wrong(node, "`address` is missing", "such as https://ward3.example:8470")
        }
        let isBare = address.wholeMatch(of: #/(?i)https?://[^/?#@]+/?/#) != nil
        guard isBare, let origin = Origin(address) else {
            throw wrong(
                mapping["address"], "`address` is not an address",
                "such as https://ward3.example:8470, without a path")
        }
        guard origin.scheme == .https || origin.isLoopback || allowsPlainHTTP else {
            throw wrong(
                mapping["address"], "plain http to another machine shows the token to the network",
                "use https, or a tunnel to 127.0.0.1; --allow-plain-http permits it")
        }
        var host = FleetHost(origin: origin)
        if let name = try text(mapping, "name") {
            guard GatewayIdentity.isName(name) else {
                throw wrong(
                    mapping["name"], "`name` is too long or cannot be printed",
                    "use up to \(GatewayIdentity.lengthMax) characters")
            }
            host.name = name
        }
        host.labels = try labels(mapping["labels"])
        if let (file, node) = try file("token_file", mapping, whole) {
            do throws(SettingsFault) {
                host.token = Secret(try PageToken.read(file, setting: "token_file"))
            } catch {
                throw wrong(node, error.description, "docs/operate/fleet.md says how to make one")
            }
        }
        if let (file, node) = try file("ca_file", mapping, whole) {
            guard FileManager.default.isReadableFile(atPath: file) else {
                throw wrong(
                    node, "ca_file: \(file) is not there, or this user may not read it",
                    "name the PEM file of your authority")
            }
            host.authorityFile = file
        }
        return host
    }

    /// The file that a gateway names, or all of them do.
    private func file(
        _ key: String, _ mapping: Node.Mapping, _ whole: Node.Mapping
    ) throws -> (path: String, node: Node?)? {
        let owner = mapping[Node(key)] == nil ? whole : mapping
        guard let name = try text(owner, key), !name.isEmpty else { return nil }
        return (URL(filePath: name, relativeTo: directory).path, owner[Node(key)])
    }

    private func labels(_ node: Node?) throws -> [String: String] {
        guard let node, !node.isNothing else { return [:] }
        guard let mapping = node.mapping, mapping.count <= GatewayIdentity.labelsMax else {
            throw wrong(
                node, "`labels` is no list of up to \(GatewayIdentity.labelsMax) labels",
                "such as {floor: 3}")
        }
        var labels: [String: String] = [:]
        for (key, value) in mapping {
            guard let name = key.scalar?.string, GatewayIdentity.isLabel(name),
                let text = value.scalar?.string, GatewayIdentity.isName(text)
            else {
                throw wrong(
                    key, "this is no label",
                    "a name of letters, digits and `_`, and a text of up to "
                        + "\(GatewayIdentity.lengthMax) characters")
            }
            labels[name] = text
        }
        return labels
    }

    private func text(_ mapping: Node.Mapping, _ key: String) throws -> String? {
        guard let node = mapping[Node(key)] else { return nil }
        guard let text = node.scalar?.string else {
            throw wrong(node, "`\(key)` takes one value", "write `\(key): …`")
        }
        return text
    }

    private func checkKeys(of mapping: Node.Mapping, _ known: [String]) throws {
        for (key, _) in mapping {
            let name = key.scalar?.string ?? "?"
            guard known.contains(name) else {
                let nearest = known.min { editDistance($0, name) < editDistance($1, name) } ?? ""
                throw wrong(
                    key, "unknown key `\(name.prefix(40))`",
                    "did you mean `\(nearest)`? There are " + known.joined(separator: ", "))
            }
        }
    }

    private func wrong(_ node: Node?, _ what: String, _ advice: String) -> CommandFailure {
        let line = node?.mark.map { " line \($0.line)" } ?? ""
        return HostsFile.failure("\(path)\(line): \(Printable.line(what))", advice)
    }
}
