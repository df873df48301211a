import Foundation
import Testbed
import Testing

@testable import EdgeGateway

/// The fleet's screen on a machine that has other files than this one. Needs root.
@Suite(.serialized) struct OtherMachineTests {
    private static let openSSL = "/usr/bin/openssl"
    private let directory: URL

    init() throws {
        directory = FileManager.default.temporaryDirectory
            .appending(path: "machine-\(UInt32.random(in: 0 ... .max))")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
    }

    private func path(_ name: String) -> String { directory.appending(path: name).path }

    private func succeed(_ program: String, _ words: String...) async throws {
        let outcome = try await Command.run(program, words, directory: directory.path)
        try #require(outcome.status == 0, "\(outcome.complaint)")
    }

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

    /// An authority, and a certificate of it for 127.0.0.1.
    private func makeCertificates() async throws {
        let key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        for name in ["ca", "other"] {
            let words =
                ["req", "-x509"] + key + [
                    "-keyout", "\(name).key", "-out", "\(name).pem", "-days", "30", "-subj",
                    "/CN=\(name)",
                ]
            let made = try await Command.run(Self.openSSL, words, directory: directory.path)
            try #require(made.status == 0, "\(made.complaint)")
        }
        try Data("subjectAltName=IP:127.0.0.1\n".utf8).write(to: URL(filePath: path("ext")))
        try await succeed(
            "/bin/sh", "-c",
            """
            openssl req \(key.joined(separator: " ")) -keyout key.pem -out request.pem -subj /CN=server &&
            openssl x509 -req -in request.pem -out cert.pem -extfile ext -days 30 -CA ca.pem \
              -CAkey ca.key -CAcreateserial
            mkdir -p authorities && cp ca.pem authorities && openssl rehash authorities
            """)
    }

    @Test func anAuthorityOfTheSystemIsNotTrustedBesideTheOneThatIsGiven() async throws {
        defer { try? FileManager.default.removeItem(at: directory) }
        try await makeCertificates()
        let port = Int.random(in: 20_000..<32_000)
        let server = try await ChildProcess.launch(
            Self.openSSL,
            [
                "s_server", "-accept", "127.0.0.1:\(port)", "-cert", path("cert.pem"), "-key",
                path("key.pem"), "-www",
            ], environment: [:], log: path("server.log"))
        func reach(_ authority: String) async throws -> String {
            try Data(
                """
                token_file: token
                ca_file: \(authority).pem
                gateways:
                  - address: https://127.0.0.1:\(port)
                """.utf8
            ).write(to: URL(filePath: path("hosts.yaml")))
            let outcome = try await gateway(
                ["fleet", "--hosts", path("hosts.yaml"), "--state", path("memory.json")],
                with: path("authorities"), at: "/etc/ssl/certs")
            return outcome.output + outcome.complaint
        }
        #expect(
            FileManager.default.createFile(
                atPath: path("token"), contents: Data(Shares.token().utf8),
                attributes: [.posixPermissions: 0o600]))
        var known = try await reach("ca")
        for _ in 0..<100 where known.contains("no connection") { known = try await reach("ca") }
        #expect(!known.contains("name its authority"), "\(known)")
        let unknown = try await reach("other")
        #expect(unknown.contains("name its authority"), "\(unknown)")
        await server.stop()
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
        #expect(!outcome.complaint.contains("no connection"), "\(outcome)")
    }
}
