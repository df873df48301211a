import Foundation
import Uplink
import Yams

/// A relay's settings, from a YAML file (docs/operate/relay.md).
struct RelayConfiguration: Sendable {
    var settings: RelaySettings
    /// Which gateway may write for whom.
    var tablePath: String
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

    private static let keys = [
        "", "nats", "exchange", "workers", "patients_file", "listen", "nats.servers",
        "nats.seed_file", "nats.ca_file", "nats.client_certificate_file", "nats.client_key_file",
        "exchange.url", "exchange.key_file", "exchange.device", "exchange.code",
        "exchange.ca_file", "exchange.proxy", "exchange.identifier_system",
    ]

    /// Reads the file, and what it names. Files in it are relative to its own directory.
    ///
    /// - Throws: ``CommandFailure`` with what is wrong and what to do.
    static func read(
        _ path: String, environment: [String: String], plainHTTP: Origin.PlainHTTP
    ) throws -> RelayConfiguration {
        let text = try CredentialSource.text(ofFile: path, bytesMax: fileBytesMax)
        let root: Node?
        do {
            root = try YAMLText.tree(of: text)
        } catch {
            let line = error.line.map { " line \($0)" } ?? ""
            throw wrong(path + line, "\(error)", "docs/operate/relay.md has an example")
        }
        var values: [String: [String]] = [:]
        try flatten(root, "", path, into: &values)
        let file = RelayFile(
            path: path, values: values,
            credentials: environment["CREDENTIALS_DIRECTORY"].map { URL(filePath: $0) })
        return try configuration(file, plainHTTP)
    }

    private static func configuration(
        _ file: RelayFile, _ plainHTTP: Origin.PlainHTTP
    ) throws -> RelayConfiguration {
        let servers = file.list("nats.servers").compactMap { NATSAddress($0) }
        guard !servers.isEmpty, servers.count == file.list("nats.servers").count else {
            throw file.wrong("nats.servers is no list of servers", "[tls://nats-1.example:4222]")
        }
        guard servers.allSatisfy({ $0.isAllowed(plainHTTP) }) else {
            throw file.wrong("nats.servers has one without TLS", "write tls://")
        }
        guard let address = file.text("exchange.url"), let origin = Origin(address),
            origin.scheme == .https || origin.isLoopback || plainHTTP == .allowed
        else {
            throw file.wrong("exchange.url is no https address", "https://exchange.example")
        }
        let keyPath = try file.path("exchange.key_file", credential: keyCredential)
        let keyText = try secret(inFile: keyPath)
        let key: Secret
        do {
            key = try PractitionerKeyFile(keyText).key
        } catch {
            throw file.wrong(
                "exchange.key_file: \(error)", "docs/operate/relay.md says where to get one")
        }
        let seed = try Self.key(inFile: file.path("nats.seed_file", credential: seedCredential))
        let workers = file.text("workers").map { Int($0) } ?? workersStandard
        guard let workers, workersRange.contains(workers) else {
            throw file.wrong(
                "workers is no number from \(workersRange.lowerBound) to \(workersRange.upperBound)",
                "all relays together have as many as the exchange has workers")
        }
        var network = CurlSettings()
        network.plainHTTP = plainHTTP
        var curl = network
        network.authorityFile = file.path("nats.ca_file")
        network.clientCertificateFile = file.path("nats.client_certificate_file")
        network.clientKeyFile = file.path("nats.client_key_file")
        curl.authorityFile = file.path("exchange.ca_file")
        curl.proxy = file.text("exchange.proxy")
        let place: PagePlace?
        do {
            place = try file.text("listen").map { text throws(SettingsFault) in try PagePlace(text)
            }
        } catch {
            throw file.wrong("listen is no address and port", "127.0.0.1:8490")
        }
        if let place, !place.isLoopback {
            throw file.wrong(
                "listen is reachable from other machines, and asks for no token",
                "127.0.0.1:8490, behind a proxy that knows who may see it")
        }
        return RelayConfiguration(
            settings: RelaySettings(
                servers: servers, key: seed, network: network, origin: origin,
                practitionerKey: key, curl: curl, device: file.text("exchange.device"),
                code: file.text("exchange.code").map {
                    ObservationCode(system: ObservationCode.omhHeartRate.system, code: $0)
                },
                identifierSystem: file.text("exchange.identifier_system")
                    ?? SettingKey.named("uplink.identifier_system")?.fallback ?? "",
                workers: workers),
            tablePath: file.path("patients_file") ?? tableStandard, place: place)
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
        _ node: Node?, _ name: String, _ path: String, into values: inout [String: [String]]
    ) throws {
        guard keys.contains(name) else {
            throw wrong(
                path, "unknown key `\(Printable.line(String(name.prefix(40))))`",
                "there are " + keys.filter { !$0.isEmpty }.joined(separator: ", "))
        }
        switch node {
        case .mapping(let mapping):
            for (key, value) in mapping {
                let inner = key.scalar?.string ?? "?"
                try flatten(value, name.isEmpty ? inner : "\(name).\(inner)", path, into: &values)
            }
        case .sequence(let sequence): values[name] = sequence.compactMap { $0.scalar?.string }
        case .scalar(let scalar) where !scalar.string.isEmpty: values[name] = [scalar.string]
        default: break
        }
    }

    fileprivate static func wrong(
        _ path: String, _ what: String, _ advice: String
    ) -> CommandFailure {
        CommandFailure(exitCode: .wrongUsage, message: "\(path): \(what)\n  \(advice)")
    }
}

/// The values of the file by their whole names.
private struct RelayFile {
    let path: String
    let values: [String: [String]]
    let credentials: URL?

    func text(_ name: String) -> String? { values[name]?.first }

    func list(_ name: String) -> [String] { values[name] ?? [] }

    func path(_ name: String) -> String? {
        text(name).map {
            URL(filePath: $0, relativeTo: URL(filePath: path).deletingLastPathComponent()).path
        }
    }

    func path(_ name: String, credential: String) throws -> String {
        if let path = path(name) { return path }
        guard let credentials else {
            throw wrong(
                "\(name) is missing",
                "name the file, or hand it over as systemd's credential \(credential)")
        }
        return credentials.appending(path: credential).path
    }

    func wrong(_ what: String, _ advice: String) -> CommandFailure {
        RelayConfiguration.wrong(path, what, advice)
    }
}
