import Foundation
import Testbed
import Testing

@testable import Uplink

@Suite(.serialized, .enabled(if: FileManager.default.isExecutableFile(atPath: TLSServer.openSSL)))
struct TLSTests {
    private static func get(
        _ server: TLSServer, trusting: Bool = true
    ) async throws -> Result<HTTPAnswer, TransportFault> {
        var settings = CurlSettings()
        settings.authorityFile = trusting ? server.authorityFile : nil
        let request = HTTPRequest(.get, try #require(server.origin), "/")
        do {
            return .success(try await CurlTransport(settings).send(request))
        } catch {
            return .failure(error)
        }
    }

    @Test func aServerOfAConfiguredAuthorityIsTrusted() async throws {
        let server = try await TLSServer(.issued(days: 30))
        defer { server.stop() }
        #expect(try await Self.get(server).get().status == 200)
        #expect(try await Self.get(server, trusting: false) == .failure(.tls(.unknownIssuer)))
    }

    @Test func anExpiredCertificateIsNamedAndTheClockWithIt() async throws {
        let server = try await TLSServer(.issued(days: -1))
        defer { server.stop() }
        #expect(try await Self.get(server) == .failure(.tls(.expired)))
        #expect("\(TransportFault.tls(.expired))".contains("clock"))
        #expect("\(TransportFault.tls(.notYetValid))".contains("clock"))
    }

    @Test func aCertificateOfAnotherHostIsNamed() async throws {
        let server = try await TLSServer(.otherHost)
        defer { server.stop() }
        #expect(try await Self.get(server) == .failure(.tls(.wrongHost)))
    }

    @Test func aSelfSignedCertificateIsNamed() async throws {
        let server = try await TLSServer(.selfSigned)
        defer { server.stop() }
        #expect(try await Self.get(server) == .failure(.tls(.selfSigned)))
    }

    @Test func tlsBelowVersion12IsRefused() async throws {
        let server = try await TLSServer(
            .issued(days: 30), arguments: ["-tls1_1", "-cipher", "ALL:@SECLEVEL=0"])
        defer { server.stop() }
        #expect(try await Self.get(server) == .failure(.tls(.handshake)))
    }

    @Test func anUnreadableAuthorityFileIsNamed() async throws {
        let server = try await TLSServer(.issued(days: 30))
        defer { server.stop() }
        var settings = CurlSettings()
        settings.authorityFile = "/nonexistent.pem"
        let origin = try #require(server.origin)
        await #expect(throws: TransportFault.tls(.authorityFile)) {
            try await CurlTransport(settings).send(HTTPRequest(.get, origin, "/"))
        }
    }

    /// Debian's libcurl trusted its directory of the system's authorities beside the configured file.
    @Test(.enabled(if: geteuid() == 0, "it mounts over the system's authorities, for one program"))
    func aConfiguredAuthorityIsTrustedInsteadOfTheSystems() async throws {
        let server = try await TLSServer(.issued(days: 30))
        defer { server.stop() }
        let scratch = try Scratch()
        let other = scratch.path + "/other.pem"
        let made = try await Command.run(
            TLSServer.openSSL,
            [
                "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                "-subj", "/CN=Another authority", "-keyout", scratch.path + "/other.key", "-out",
                other,
            ])
        #expect(made.status == 0)
        let (system, hosts) = (scratch.path + "/system", scratch.path + "/hosts.yaml")
        try FileManager.default.createDirectory(
            atPath: system, withIntermediateDirectories: true)
        for name in ["ca-certificates.crt", "authority.pem"] {
            try FileManager.default.copyItem(
                atPath: server.authorityFile, toPath: "\(system)/\(name)")
        }
        #expect(try await Command.run(TLSServer.openSSL, ["rehash", system]).status == 0)
        let origin = try #require(server.origin)
        func answer(trusting authority: String?) async throws -> String {
            let text = "gateways:\n  - address: \(origin)\n"
            try (text + (authority.map { "ca_file: \($0)\n" } ?? "")).write(
                toFile: hosts, atomically: true, encoding: .utf8)
            let ask = """
                mount --bind '\(system)' /etc/ssl/certs && exec "$0" fleet --json --hosts '\(hosts)' \
                --state '\(scratch.path)/fleet.json'
                """
            return try await Command.run(
                "/usr/bin/unshare",
                [
                    "--mount", "sh", "-c", ask, GatewayProcess.program("edge-gateway").path,
                ]
            ).output
        }
        let untrusted = "\(TLSCause.unknownIssuer)"
        let trusted = try await answer(trusting: nil)
        #expect(trusted.contains("answer-"), "\(trusted)")
        let refused = try await answer(trusting: other)
        #expect(refused.contains(untrusted), "\(refused)")
    }

    @Test func plainTextOnATLSPortIsAFailedHandshake() async throws {
        let server = try RawServer { connection, _ in connection.send("HTTP/1.1 400 Bad\r\n\r\n") }
        defer { server.stop() }
        let origin = try #require(Origin("https://127.0.0.1:\(server.port)"))
        var settings = CurlSettings()
        settings.connectTimeout = .milliseconds(500)
        await #expect(throws: TransportFault.self) {
            try await CurlTransport(settings).send(HTTPRequest(.get, origin, "/"))
        }
    }
}
