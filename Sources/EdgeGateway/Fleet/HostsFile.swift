import Basics
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
    /// - Throws: ``CommandFailure`` with every mistake, its line and what to do.
    static func read(_ path: String, allowsPlainHTTP: Bool) throws -> [FleetHost] {
        let text = try TextFile.read(path, bytesMax: fileBytesMax)
        guard !text.isEmpty else { throw failure("read \(path): it is empty") }
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
            throw failure("read \(path)\(line): \(error)")
        }
        let reader = HostsReader(directory: directory, allowsPlainHTTP: allowsPlainHTTP)
        var mistakes = FileMistakes(path: path)
        let hosts = reader.hosts(root, &mistakes)
        try mistakes.check()
        return hosts
    }

    private static func failure(_ message: String) -> CommandFailure {
        CommandFailure(
            exitCode: .wrongUsage,
            message: message
                + "\n  docs/operate/fleet.md has an example; name the file with --hosts")
    }
}

private struct HostsReader {
    private static let wholeKeys = ["gateways", "token_file", "ca_file"]
    private static let hostKeys = ["name", "address", "token_file", "ca_file", "labels"]

    let directory: URL
    let allowsPlainHTTP: Bool

    func hosts(_ root: Node?, _ mistakes: inout FileMistakes) -> [FleetHost] {
        guard let root, let whole = root.mapping, let list = whole["gateways"]?.sequence else {
            mistakes.add(root, "`gateways` is missing", "it is a list, each with an `address`")
            return []
        }
        checkKeys(of: whole, Self.wholeKeys, &mistakes)
        guard (1...HostsFile.hostsMax).contains(list.count) else {
            mistakes.add(
                whole["gateways"], "it lists \(list.count) gateways",
                "list from 1 to \(HostsFile.hostsMax)")
            return []
        }
        // A mistake that all of them share is one mistake.
        let shared = (token: token(whole, &mistakes), authority: authority(whole, &mistakes))
        var hosts: [FleetHost] = []
        var seen: [String: Int] = [:]
        for node in list {
            guard var host = host(node, &mistakes) else { continue }
            host.token = host.token ?? (isNamed("token_file", node) ? nil : shared.token)
            host.authorityFile =
                host.authorityFile ?? (isNamed("ca_file", node) ? nil : shared.authority)
            for word in [host.origin.description, host.name].compactMap(\.self) {
                if let line = seen[word] {
                    mistakes.add(
                        node, "\(word) stands in line \(line) already",
                        "each gateway stands here once")
                }
                seen[word] = seen[word] ?? node.mark?.line ?? 0
            }
            hosts.append(host)
        }
        return hosts
    }

    /// Nil without an address that can be asked.
    private func host(_ node: Node, _ mistakes: inout FileMistakes) -> FleetHost? {
        guard let mapping = node.mapping else {
            mistakes.add(node, "this is no gateway", "write `- address: https://HOST:8470`")
            return nil
        }
        checkKeys(of: mapping, Self.hostKeys, &mistakes)
        let origin = origin(mapping, of: node, &mistakes)
        let name = text(mapping, "name", &mistakes)
        if let name, !GatewayIdentity.isName(name) {
            mistakes.add(
                mapping["name"], "`name` is too long or cannot be printed",
                "use up to \(GatewayIdentity.lengthMax) characters")
        }
        let labels = labels(mapping["labels"], &mistakes)
        let token = token(mapping, &mistakes)
        let authority = authority(mapping, &mistakes)
        return origin.map {
            FleetHost(
                name: name, origin: $0, labels: labels, token: token, authorityFile: authority)
        }
    }

    private func origin(
        _ mapping: Node.Mapping, of node: Node, _ mistakes: inout FileMistakes
    ) -> Origin? {
        guard mapping["address"] != nil else {
            mistakes.add(node, "`address` is missing", "such as https://ward3.example:8470")
            return nil
        }
        guard let address = text(mapping, "address", &mistakes) else { return nil }
        let isBare = address.wholeMatch(of: #/(?i)https?://[^/?#@]+/?/#) != nil
        guard isBare, let origin = Origin(address) else {
            mistakes.add(
                mapping["address"], "`address` is not an address",
                "such as https://ward3.example:8470, without a path")
            return nil
        }
        guard origin.scheme == .https || origin.isLoopback || allowsPlainHTTP else {
            mistakes.add(
                mapping["address"], "plain http to another machine shows the token to the network",
                "use https, or a tunnel to 127.0.0.1; --allow-plain-http permits it")
            return nil
        }
        return origin
    }

    private func token(_ owner: Node.Mapping, _ mistakes: inout FileMistakes) -> Secret? {
        guard let file = file("token_file", owner, &mistakes) else { return nil }
        do throws(SettingsFault) {
            return Secret(try PageToken.read(file, setting: "token_file"))
        } catch {
            mistakes.add(
                owner["token_file"], error.description, "docs/operate/fleet.md says how to make one"
            )
            return nil
        }
    }

    private func authority(_ owner: Node.Mapping, _ mistakes: inout FileMistakes) -> String? {
        guard let file = file("ca_file", owner, &mistakes) else { return nil }
        if !FileManager.default.isReadableFile(atPath: file) {
            mistakes.add(
                owner["ca_file"], "ca_file: \(file) is not there, or this user may not read it",
                "name the PEM file of your authority")
        }
        return file
    }

    private func file(
        _ key: String, _ owner: Node.Mapping, _ mistakes: inout FileMistakes
    ) -> String? {
        guard let name = text(owner, key, &mistakes), !name.isEmpty else { return nil }
        return URL(filePath: name, relativeTo: directory).path
    }

    private func isNamed(_ key: String, _ node: Node) -> Bool { node.mapping?[Node(key)] != nil }

    private func labels(_ node: Node?, _ mistakes: inout FileMistakes) -> [String: String] {
        guard let node, !node.isNothing else { return [:] }
        guard let mapping = node.mapping, mapping.count <= GatewayIdentity.labelsMax else {
            mistakes.add(
                node, "`labels` is no list of up to \(GatewayIdentity.labelsMax) labels",
                "such as {floor: 3}")
            return [:]
        }
        var labels: [String: String] = [:]
        for (key, value) in mapping {
            guard let name = key.scalar?.string, GatewayIdentity.isLabel(name),
                let text = value.scalar?.string, GatewayIdentity.isName(text)
            else {
                mistakes.add(
                    key, "this is no label",
                    "a name of letters, digits and `_`, and a text of up to "
                        + "\(GatewayIdentity.lengthMax) characters")
                continue
            }
            labels[name] = text
        }
        return labels
    }

    private func text(
        _ mapping: Node.Mapping, _ key: String, _ mistakes: inout FileMistakes
    ) -> String? {
        guard let node = mapping[Node(key)] else { return nil }
        guard let text = node.scalar?.string else {
            mistakes.add(node, "`\(key)` takes one value", "write `\(key): …`")
            return nil
        }
        return text
    }

    private func checkKeys(
        of mapping: Node.Mapping, _ known: [String], _ mistakes: inout FileMistakes
    ) {
        for (key, _) in mapping {
            let name = key.scalar?.string ?? "?"
            guard !known.contains(name) else { continue }
            let nearest = known.min { editDistance($0, name) < editDistance($1, name) } ?? ""
            mistakes.add(
                key, "unknown key `\(name.prefix(40))`",
                "did you mean `\(nearest)`? There are " + known.joined(separator: ", "))
        }
    }
}
