import Foundation
import Synchronization
import Testbed

@testable import Uplink

/// `edge-gateway relay`, several times.
actor RelayProcesses {
    private let directory: URL
    private let configuration: String
    private var running: [Int: ChildProcess] = [:] {
        didSet { current.withLock { $0 = running.values.map(\.pid) } }
    }
    private nonisolated let current = Mutex<[pid_t]>([])
    nonisolated func processes() -> [pid_t] { current.withLock { $0 } }

    /// - Parameter table: which gateway may write for which patient.
    init(
        _ directory: URL, _ cluster: NATSCluster, _ exchange: StandInExchange, _ key: NKey,
        table: [(gateway: String, patient: Int)]
    ) async throws {
        self.directory = directory
        configuration = try Self.write(
            """
            nats:
              servers: [\(await cluster.addresses)]
              ca_file: \(cluster.authorityFile)
              seed_file: \(try Self.write(key.seedText.revealed, "relay.seed", in: directory))
            exchange:
              url: \(exchange.baseURL)
              key_file: \(try Self.write(RelayFixture.practitionerKey, "practitioner-key", in: directory))
              device: "70007"
              code: omh:heart-rate:2.0
            workers: 1
            patients_file: \(try Self.write(
                table.map { "\($0.gateway)  \($0.patient)" }.joined(separator: "\n"), "patients",
                in: directory))
            """, "relay.yaml", in: directory)
    }

    /// - Returns: the path of the file, which holds a secret.
    private static func write(_ text: String, _ name: String, in directory: URL) throws -> String {
        let path = directory.appending(path: name).path
        guard
            FileManager.default.createFile(
                atPath: path, contents: Data(text.utf8), attributes: [.posixPermissions: 0o600])
        else { throw SystemFault("cannot write \(path)") }
        return path
    }

    func start(_ index: Int) async throws {
        running[index] = try await ChildProcess.launch(
            GatewayProcess.program("edge-gateway").path, ["relay", "--config", configuration],
            environment: ["HOME": directory.path, "PATH": "/usr/bin:/bin"],
            log: log(index))
    }

    /// What the relay has said.
    nonisolated func log(_ index: Int) -> String {
        directory.appending(path: "relay-\(index).log").path
    }

    func signal(_ index: Int, _ number: Int32) { running[index]?.signal(number) }

    func kill(_ index: Int) async { await running[index]?.stop() }

    func stop() async { for child in running.values { await child.stop() } }
}
