import Foundation
import Testing

@testable import Uplink

/// A TLS server on loopback with a made-up authority, by the `openssl` command.
private final class TLSServer: Sendable {
    static let openSSL = "/usr/bin/openssl"

    enum Certificate {
        /// For 127.0.0.1 from the authority, valid for these days from today.
        case issued(days: Int)
        /// From the authority for another host.
        case otherHost
        /// Vouches for itself.
        case selfSigned
    }

    let port: UInt16
    let authorityFile: String
    private let processID: Int32
    private let scratch: Scratch

    var origin: Origin? { Origin("https://127.0.0.1:\(port)") }

    /// Starts a server, on a thread that may block.
    static func start(
        _ certificate: Certificate, arguments: [String] = []
    ) async throws -> TLSServer {
        try await withCheckedThrowingContinuation { continuation in
            Thread.detachNewThread {
                continuation.resume(
                    with: Result { try TLSServer(certificate, arguments: arguments) })
            }
        }
    }

    private init(_ certificate: Certificate, arguments: [String]) throws {
        scratch = try Scratch()
        let path = scratch.path
        authorityFile = path + "/ca.pem"
        let newKey = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        try Self.run(
            ["req", "-x509"] + newKey + [
                "-keyout", path + "/ca.key", "-out", authorityFile, "-days", "30", "-subj",
                "/CN=Made-up authority",
            ])
        let (host, days) =
            switch certificate {
            case .issued(let days): ("IP:127.0.0.1", days)
            case .otherHost: ("DNS:elsewhere.example", 30)
            case .selfSigned: ("IP:127.0.0.1", 30)
            }
        try Data("subjectAltName=\(host)\n".utf8).write(to: URL(fileURLWithPath: path + "/ext"))
        try Self.run(
            ["req"] + newKey + [
                "-keyout", path + "/key.pem", "-out", path + "/request.pem", "-subj", "/CN=server",
            ])
        var signer = ["-CA", authorityFile, "-CAkey", path + "/ca.key", "-CAcreateserial"]
        if case .selfSigned = certificate { signer = ["-signkey", path + "/key.pem"] }
        try Self.run(
            [
                "x509", "-req", "-in", path + "/request.pem", "-out", path + "/cert.pem",
                "-extfile", path + "/ext", "-days", String(days),
            ] + signer)

        let process = Process()
        process.executableURL = URL(fileURLWithPath: Self.openSSL)
        process.arguments =
            [
                "s_server", "-accept", "127.0.0.1:0", "-cert", path + "/cert.pem", "-key",
                path + "/key.pem", "-www",
            ] + arguments
        let output = Pipe()
        process.standardOutput = output
        process.standardError = FileHandle.nullDevice
        process.standardInput = FileHandle.nullDevice
        try process.run()
        processID = process.processIdentifier
        port = try Self.readPort(output)
    }

    /// It says "ACCEPT 127.0.0.1:<port>" once it listens.
    private static func readPort(_ output: Pipe) throws -> UInt16 {
        var said = ""
        while true {
            let line = said.split(separator: "\n", omittingEmptySubsequences: false).dropLast()
                .first { $0.hasPrefix("ACCEPT ") }
            if let line, let port = line.split(separator: ":").last.flatMap({ UInt16($0) }) {
                return port
            }
            let data = output.fileHandleForReading.availableData
            guard !data.isEmpty else { throw CocoaError(.executableLoad) }
            said += String(decoding: data, as: UTF8.self)
        }
    }

    /// Ends it. A server in this process may have had SIGTERM ignored, which children inherit.
    func stop() {
        kill(processID, SIGKILL)
    }

    private static func run(_ arguments: [String]) throws {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: openSSL)
        process.arguments = arguments
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        try process.run()
        process.waitUntilExit()
        guard process.terminationStatus == 0 else { throw CocoaError(.executableLoad) }
    }
}

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
        let server = try await TLSServer.start(.issued(days: 30))
        defer { server.stop() }
        #expect(try await Self.get(server).get().status == 200)
        #expect(try await Self.get(server, trusting: false) == .failure(.tls(.unknownIssuer)))
    }

    @Test func anExpiredCertificateIsNamedAndTheClockWithIt() async throws {
        let server = try await TLSServer.start(.issued(days: -1))
        defer { server.stop() }
        #expect(try await Self.get(server) == .failure(.tls(.expired)))
        #expect("\(TransportFault.tls(.expired))".contains("clock"))
        #expect("\(TransportFault.tls(.notYetValid))".contains("clock"))
    }

    @Test func aCertificateOfAnotherHostIsNamed() async throws {
        let server = try await TLSServer.start(.otherHost)
        defer { server.stop() }
        #expect(try await Self.get(server) == .failure(.tls(.wrongHost)))
    }

    @Test func aSelfSignedCertificateIsNamed() async throws {
        let server = try await TLSServer.start(.selfSigned)
        defer { server.stop() }
        #expect(try await Self.get(server) == .failure(.tls(.selfSigned)))
    }

    @Test func tlsBelowVersion12IsRefused() async throws {
        let server = try await TLSServer.start(
            .issued(days: 30), arguments: ["-tls1_1", "-cipher", "ALL:@SECLEVEL=0"])
        defer { server.stop() }
        #expect(try await Self.get(server) == .failure(.tls(.handshake)))
    }

    @Test func anUnreadableAuthorityFileIsNamed() async throws {
        let server = try await TLSServer.start(.issued(days: 30))
        defer { server.stop() }
        var settings = CurlSettings()
        settings.authorityFile = "/nonexistent.pem"
        let origin = try #require(server.origin)
        await #expect(throws: TransportFault.tls(.authorityFile)) {
            try await CurlTransport(settings).send(HTTPRequest(.get, origin, "/"))
        }
    }

    @Test func plainTextOnATLSPortIsAFailedHandshake() async throws {
        let server = try RawServer { connection, _ in connection.send("HTTP/1.1 400 Bad\r\n\r\n") }
        defer { server.stop() }
        let origin = try #require(Origin("https://127.0.0.1:\(server.port)"))
        var settings = CurlSettings()
        settings.connectTimeoutMilliseconds = 500
        await #expect(throws: TransportFault.self) {
            try await CurlTransport(settings).send(HTTPRequest(.get, origin, "/"))
        }
    }
}
