import Foundation
import Testbed
import Testing

/// The fleet's screen on a machine that has other files than this one. Needs root.
@Suite(.serialized) struct OtherMachineTests {
    private let directory: URL

    init() throws {
        directory = FileManager.default.temporaryDirectory
            .appending(path: "machine-\(UInt32.random(in: 0 ... .max))")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
    }

    private func path(_ name: String) -> String { directory.appending(path: name).path }

    /// Runs the gateway's program where `content` lies at `place`.
    private func gateway(
        _ words: [String], with content: String, at place: String
    ) async throws -> Command.Outcome {
        try await Command.run(
            "/usr/bin/unshare",
            [
                "-m", "/bin/sh", "-c", "mount --bind \"$0\" \"$1\" && shift && exec \"$@\"",
                content, place, GatewayProcess.program("edge-gateway").path,
            ] + words, directory: directory.path)
    }

    @Test func aBrokerOfAHostWithTwoAddressesIsFoundAtTheSecond() async throws {
        defer { try? FileManager.default.removeItem(at: directory) }
        let host = try await SystemHost.start("second", needs: MosquittoBroker.needs) { $0 }
        defer { Task.detached { await host.stop() } }
        // It listens at 127.0.0.1 only.
        let broker = try await MosquittoBroker.start(on: host)
        try Data("::1 localhost\n127.0.0.1 localhost\n".utf8)
            .write(to: URL(filePath: path("hosts")))
        let outcome = try await gateway(
            [
                "fleet", "--mqtt", "mqtt://localhost:\(broker.port)", "--state",
                path("memory.json"),
            ], with: path("hosts"), at: "/etc/hosts")
        #expect(outcome.output.contains("the broker has no gateway's state"), "\(outcome)")
    }
}
