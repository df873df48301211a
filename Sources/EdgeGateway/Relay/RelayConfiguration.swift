import Foundation
import Uplink
import Yams

/// A relay's settings, from a YAML file (docs/operate/relay.md).
struct RelayConfiguration: Sendable {
    var settings: RelaySettings
    /// Where health and metrics are; nil: nowhere.
    var place: PagePlace?

    /// Where the package has the table.
    static let tableStandard = "/etc/edge-gateway/relay-patients"
    /// The names of systemd's credentials, for files that the settings do not name.
    private static let keyCredential = "practitioner-key"
    private static let seedCredential = "relay-seed"
    private static let fileBytesMax = 64 << 10
    private static let keyBytesMax = 16 << 10
    /// An exchange with more workers has several relays.
    private static let workersRange = 1...32
    /// As many as the exchange's reference deployment has.
    private static let workersStandard = 2

    private static let sections: Set = ["", "nats", "exchange"]
    private static let lists: Set = ["nats.servers"]
    private static let values = [
        "workers", "patients_file", "listen", "nats.seed_file", "nats.ca_file",
        "nats.client_certificate_file", "nats.client_key_file", "exchange.url",
        "exchange.key_file", "exchange.device", "exchange.code", "exchange.ca_file",
        "exchange.proxy", "exchange.identifier_system",
    ]

    /// The settings, nil if they cannot be used, and the table that they name; notes everything that is wrong.
    /// Files in it are relative to its own directory.
    ///
    /// - Throws: ``CommandFailure`` if the file is not there, or is no YAML.
    static func examine(
        _ path: String, environment: [String: String], plainHTTP: Origin.PlainHTTP,
        _ mistakes: inout FileMistakes
    ) throws -> (configuration: RelayConfiguration?, tablePath: String) {
        let text = try TextFile.read(path, bytesMax: fileBytesMax)
        let root: Node?
        do {
            root = try YAMLText.tree(of: text)
        } catch {
            mistakes.add(line: error.line, "\(error)", "docs/operate/relay.md has an example")
            try mistakes.check()
            return (nil, tableStandard)
        }
        var values: [String: RelayFile.Value] = [:]
        flatten(root, "", line: nil, into: &values, &mistakes)
        let file = RelayFile(
            path: path, values: values,
            credentials: environment["CREDENTIALS_DIRECTORY"].map { URL(filePath: $0) })
        let tablePath = file.path("patients_file") ?? tableStandard
        return (configuration(file, plainHTTP, &mistakes), tablePath)
    }

    private static func configuration(
        _ file: RelayFile, _ plainHTTP: Origin.PlainHTTP, _ mistakes: inout FileMistakes
    ) -> RelayConfiguration? {
        func wrong(_ name: String, _ what: String, _ advice: String) {
            mistakes.add(line: file.line(name), what, advice)
        }
        let servers = file.list("nats.servers").compactMap { ServerAddress($0, .nats) }
        if servers.isEmpty || servers.count != file.list("nats.servers").count {
            wrong(
                "nats.servers", "nats.servers is no list of servers", "[tls://nats-1.example:4222]")
        } else if !servers.allSatisfy({ $0.isAllowed(plainHTTP) }) {
            wrong("nats.servers", "nats.servers has one without TLS", "write tls://")
        }
        let origin = file.text("exchange.url").flatMap { Origin($0) }.flatMap {
            $0.scheme == .https || $0.isLoopback || plainHTTP == .allowed ? $0 : nil
        }
        if origin == nil {
            wrong("exchange.url", "exchange.url is no https address", "https://exchange.example")
        }
        let key = practitionerKey(file, &mistakes)
        let seed = seed(file, &mistakes)
        let workers = file.text("workers").map { Int($0) } ?? workersStandard
        if !(workers.map(workersRange.contains) ?? false) {
            wrong(
                "workers",
                "workers is no number from \(workersRange.lowerBound) to \(workersRange.upperBound)",
                "all relays together have as many as the exchange has workers")
        }
        let place = file.text("listen").flatMap { try? PagePlace($0) }
        if let text = file.text("listen"), place == nil {
            wrong("listen", "listen is no address and port: \(text.prefix(80))", "127.0.0.1:8490")
        }
        if let place, !place.isLoopback {
            wrong(
                "listen", "listen is reachable from other machines, and asks for no token",
                "127.0.0.1:8490, behind a proxy that knows who may see it")
        }
        for name in [
            "nats.ca_file", "nats.client_certificate_file", "nats.client_key_file",
            "exchange.ca_file",
        ] {
            guard let path = file.path(name) else { continue }
            if let fault = PEMFile.fault(path) {
                wrong(name, "\(name): \(fault)", "name a PEM file that this user may read")
            } else if name.hasSuffix("key_file"), PEMFile.isOpenToAll(path) {
                wrong(name, "\(name): every user may read \(path)", "chmod 640 it")
            }
        }
        if file.text("nats.client_key_file") != nil,
            file.text("nats.client_certificate_file") == nil
        {
            wrong(
                "nats.client_key_file",
                "nats.client_key_file is set without nats.client_certificate_file", "set both")
        }
        if let proxy = file.text("exchange.proxy"), !ProxyAddress.isValid(proxy) {
            // The fault may be in the password.
            wrong(
                "exchange.proxy", "exchange.proxy is not the address of a proxy",
                "http://proxy.example:3128")
        }
        let system = file.text("exchange.identifier_system")
        if let system, !Settings.isURI(system) {
            wrong(
                "exchange.identifier_system", "exchange.identifier_system is not a URI",
                "urn:edge-gateway:sample")
        }
        guard let origin, let key, let seed, let workers else { return nil }
        var network = CurlSettings()
        network.plainHTTP = plainHTTP
        var curl = network
        network.authorityFile = file.path("nats.ca_file")
        network.clientCertificateFile = file.path("nats.client_certificate_file")
        network.clientKeyFile = file.path("nats.client_key_file")
        curl.authorityFile = file.path("exchange.ca_file")
        curl.proxy = file.text("exchange.proxy")
        return RelayConfiguration(
            settings: RelaySettings(
                servers: servers, key: seed, network: network, origin: origin,
                practitionerKey: key, curl: curl, device: file.text("exchange.device"),
                code: file.text("exchange.code").map {
                    ObservationCode(system: ObservationCode.omhHeartRate.system, code: $0)
                },
                identifierSystem: system
                    ?? SettingKey.named("uplink.identifier_system")?.fallback ?? "",
                workers: workers),
            place: place)
    }

    private static func practitionerKey(
        _ file: RelayFile, _ mistakes: inout FileMistakes
    ) -> PractitionerKeyFile? {
        let name = "exchange.key_file"
        guard let path = file.path(name, credential: keyCredential, &mistakes) else { return nil }
        do {
            let text = try secret(inFile: path)
            do {
                return try PractitionerKeyFile(text)
            } catch {
                mistakes.add(
                    line: file.line(name), "\(name): \(error)",
                    "docs/operate/relay.md says where to get one")
            }
        } catch {
            mistakes.add(line: file.line(name), error)
        }
        return nil
    }

    private static func seed(_ file: RelayFile, _ mistakes: inout FileMistakes) -> NKey? {
        let name = "nats.seed_file"
        guard let path = file.path(name, credential: seedCredential, &mistakes) else { return nil }
        do {
            return try key(inFile: path)
        } catch {
            mistakes.add(line: file.line(name), error)
            return nil
        }
    }

    /// The key of a seed in a file that its user alone may read.
    ///
    /// - Throws: ``CommandFailure``
    static func key(inFile path: String) throws -> NKey {
        guard let key = NKey(try secret(inFile: path)) else {
            throw CommandFailure(
                exitCode: .wrongUsage,
                message: "read \(path): there is no NKEY seed in it\n  edge-gateway relay key FILE "
                    + "makes one")
        }
        return key
    }

    private static func secret(inFile path: String) throws -> String {
        let text = try CredentialSource.text(ofFile: path, bytesMax: keyBytesMax)
        // A credential of systemd's shows the mask of its access list in the place of the group's rights.
        let mode = try? FileManager.default.attributesOfItem(atPath: path)[.posixPermissions]
        if let mode = mode as? Int, mode & 0o007 != 0 {
            throw CommandFailure(
                exitCode: .wrongUsage,
                message: "read \(path): every user can read it\n  chmod 600 it")
        }
        return text
    }

    private static func flatten(
        _ node: Node?, _ name: String, line: Int?, into found: inout [String: RelayFile.Value],
        _ mistakes: inout FileMistakes
    ) {
        let isSection = sections.contains(name)
        guard isSection || lists.contains(name) || values.contains(name) else {
            return mistakes.add(
                line: line, "unknown key `\(name.prefix(40))`",
                "there are " + (lists.sorted() + values).joined(separator: ", "))
        }
        switch node {
        case .mapping(let mapping) where isSection:
            for (key, value) in mapping {
                let inner = key.scalar?.string ?? "?"
                flatten(
                    value, name.isEmpty ? inner : "\(name).\(inner)", line: key.mark?.line,
                    into: &found, &mistakes)
            }
        case .sequence(let sequence)
        where lists.contains(name) && sequence.allSatisfy { $0.scalar != nil }:
            found[name] = RelayFile.Value(
                texts: sequence.compactMap { $0.scalar?.string }, line: line)
        case .scalar(let scalar) where scalar.string.isEmpty: break
        case .scalar(let scalar) where !isSection:
            found[name] = RelayFile.Value(texts: [scalar.string], line: line)
        case nil: break
        default:
            let takes =
                isSection
                ? "keys with values" : lists.contains(name) ? "a list of texts" : "one value"
            mistakes.add(
                line: line, "\(name.isEmpty ? "the file" : name) takes \(takes)",
                "docs/operate/relay.md has an example")
        }
    }
}

/// The values of the file by their whole names.
private struct RelayFile {
    struct Value {
        var texts: [String]
        var line: Int?
    }

    let path: String
    let values: [String: Value]
    let credentials: URL?

    func text(_ name: String) -> String? { values[name]?.texts.first }

    func list(_ name: String) -> [String] { values[name]?.texts ?? [] }

    func line(_ name: String) -> Int? { values[name]?.line }

    func path(_ name: String) -> String? {
        text(name).map {
            URL(filePath: $0, relativeTo: URL(filePath: path).deletingLastPathComponent()).path
        }
    }

    func path(
        _ name: String, credential: String, _ mistakes: inout FileMistakes
    ) -> String? {
        if let path = path(name) { return path }
        guard let credentials else {
            mistakes.add(
                line: nil, "\(name) is missing",
                "name the file, or hand it over as systemd's credential \(credential)")
            return nil
        }
        return credentials.appending(path: credential).path
    }
}
