import Foundation
import Testbed

/// The real program as a relay, with a nats-server between it and a gateway named `ward`.
struct RelayStage: Sendable {
    let cluster: NATSCluster
    private let directory: URL

    private static let program = GatewayProcess.program("edge-gateway").path
    /// A relay may take so long to listen, in fifths of a second.
    private static let startFifthsMax = 300

    /// Makes keys and starts the nats-server; ends it after `body`.
    static func run(_ body: (RelayStage) async throws -> Void) async throws {
        let directory = FileManager.default.temporaryDirectory
            .appending(path: "relay-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: directory) }
        func key(_ name: String) async throws -> String {
            try await relay("key", directory.appending(path: name).path)
        }
        let cluster = try await NATSCluster.start(users: [
            .gateway("ward", key: try await key("ward.seed")),
            .relay(key: try await key("relay.seed")),
        ])
        let outcome: Result<Void, any Error>
        do {
            outcome = .success(try await body(RelayStage(cluster: cluster, directory: directory)))
        } catch {
            outcome = .failure(error)
        }
        await cluster.stop()
        try outcome.get()
    }

    /// Runs `edge-gateway relay WORDS…`, which must succeed.
    ///
    /// - Returns: what it printed.
    @discardableResult
    static func relay(_ words: String...) async throws -> String {
        let outcome = try await Command.run(program, ["relay"] + words)
        guard outcome.status == 0 else {
            throw SystemFault("relay \(words[0]) left with \(outcome.status): \(outcome.complaint)")
        }
        return outcome.output.trimmingCharacters(in: .whitespacesAndNewlines)
    }

    /// The settings of a gateway that goes through it.
    var settings: [String: String] { ["EDGE_GATEWAY_UPLINK_CA_FILE": cluster.authorityFile] }

    /// What says who may write for whom.
    var table: String { path("patients") }

    private func path(_ name: String) -> String { directory.appending(path: name).path }

    /// Starts the relay; nobody may write through it yet.
    ///
    /// - Parameters:
    ///   - exchange: its address.
    ///   - practitionerKey: as its file has it.
    ///   - device: nil to ask the exchange about each patient.
    func start(
        exchange: String, practitionerKey: String, device: String?
    ) async throws -> ChildProcess {
        let files = [
            "practitioner-key": practitionerKey, "patients": "# gateway  patient\n",
            "relay.yaml": """
            nats:
              servers: [\(await cluster.addresses)]
              ca_file: \(cluster.authorityFile)
              seed_file: relay.seed
            exchange:
              url: \(exchange)
              key_file: practitioner-key
            \(device.map { "  device: \"\($0)\"" } ?? "")
            patients_file: patients
            """,
        ]
        for (name, text) in files {
            guard
                FileManager.default.createFile(
                    atPath: path(name), contents: Data(text.utf8),
                    attributes: [.posixPermissions: 0o600])
            else { throw SystemFault("cannot write \(path(name))") }
        }
        return try await ChildProcess.launch(
            Self.program, ["relay", "--config", path("relay.yaml")],
            environment: ["PATH": "/usr/bin:/bin"], log: path("relay.log"))
    }

    /// Tries to give a gateway its destination `nats`, once.
    func add(to gateway: GatewayProcess) async throws -> Command.Outcome {
        try await gateway.command([
            "destination", "add", "nats", "url=\(await cluster.addresses)", "gateway=ward",
            "seed=@\(path("ward.seed"))",
        ])
    }

    /// Gives a gateway its destination `nats` as soon as a relay listens.
    func addWhenItListens(to gateway: GatewayProcess) async throws -> Command.Outcome {
        for _ in 0..<Self.startFifthsMax {
            let added = try await add(to: gateway)
            if added.status == 0 { return added }
            try await Task.sleep(for: .milliseconds(200))
        }
        let log = (try? String(contentsOfFile: path("relay.log"), encoding: .utf8)) ?? ""
        throw SystemFault("no relay listens: \(log.suffix(500))")
    }

    /// Lets the gateway write for a patient.
    func allow(_ patient: String) async throws {
        try await Self.relay("allow", "ward", patient, "--table", table)
    }
}
