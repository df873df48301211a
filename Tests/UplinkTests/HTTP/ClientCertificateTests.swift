import Foundation
import Testing

@testable import Uplink

@Suite(.serialized, .enabled(if: FileManager.default.isExecutableFile(atPath: TLSServer.openSSL)))
struct ClientCertificateTests {
    private static func get(
        _ server: TLSServer, _ change: (inout CurlSettings) -> Void
    ) async throws -> Result<HTTPAnswer, TransportFault> {
        var settings = CurlSettings()
        settings.authorityFile = server.authorityFile
        change(&settings)
        do {
            let request = HTTPRequest(.get, try #require(server.origin), "/")
            return .success(try await CurlTransport(settings).send(request))
        } catch let fault as TransportFault {
            return .failure(fault)
        }
    }

    @Test("a server that demands a certificate is shown it", arguments: ["-tls1_2", "-tls1_3"])
    func shown(version: String) async throws {
        let server = try await TLSServer(
            .issued(days: 30), demandsClientCertificate: true, arguments: [version])
        defer { server.stop() }
        let answer = try await Self.get(server) {
            $0.clientCertificateFile = server.clientCertificateFile
            $0.clientKeyFile = server.clientKeyFile
        }
        #expect(try answer.get().status == 200)
    }

    @Test("without one there is no answer", arguments: ["-tls1_2", "-tls1_3"])
    func missing(version: String) async throws {
        let server = try await TLSServer(
            .issued(days: 30), demandsClientCertificate: true, arguments: [version])
        defer { server.stop() }
        let answer = try await Self.get(server) { _ in }
        guard case .failure(let fault) = answer else {
            Issue.record("answered without a certificate")
            return
        }
        // In TLS 1.3 the refusal comes after the client's side of the handshake is done.
        if version == "-tls1_2" { #expect(fault.certainlyNotSent) }
    }

    @Test func aCertificateThatCannotBeReadIsNamedAndNothingSent() async throws {
        let server = try await TLSServer(.issued(days: 30), demandsClientCertificate: true)
        defer { server.stop() }
        let missing = try await Self.get(server) {
            $0.clientCertificateFile = "/nonexistent.pem"
            $0.clientKeyFile = server.clientKeyFile
        }
        #expect(missing == .failure(.tls(.clientCertificate)))
        let wrongKey = try await Self.get(server) {
            $0.clientCertificateFile = server.clientCertificateFile
            $0.clientKeyFile = server.authorityFile
        }
        #expect(wrongKey == .failure(.tls(.clientCertificate)))
    }
}
