import Foundation
import Testbed

@testable import Uplink

/// A TLS server on loopback with a made-up authority, by the `openssl` command.
final class TLSServer: Sendable {
    static let openSSL = "/usr/bin/openssl"

    enum Certificate {
        /// For 127.0.0.1 from the authority, valid for these days from today.
        case issued(days: Int)
        /// From the authority for another host.
        case otherHost
        /// Self-signed.
        case selfSigned
    }

    let port: UInt16
    let authorityFile: String
    /// A certificate and its key for a client, from the same authority.
    let clientCertificateFile: String
    let clientKeyFile: String
    private let process: ChildProcess
    private let scratch: Scratch

    var origin: Origin? { Origin("https://127.0.0.1:\(port)") }

    /// Makes the certificates and starts a server that accepts.
    init(
        _ certificate: Certificate, demandsClientCertificate: Bool = false,
        arguments: [String] = []
    ) async throws {
        scratch = try Scratch()
        let path = scratch.path
        authorityFile = path + "/ca.pem"
        clientCertificateFile = path + "/client.pem"
        clientKeyFile = path + "/client.key"
        let newKey = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        try await Self.run(
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
        try await Self.run(
            ["req"] + newKey + [
                "-keyout", path + "/key.pem", "-out", path + "/request.pem", "-subj", "/CN=server",
            ])
        var signer = ["-CA", authorityFile, "-CAkey", path + "/ca.key", "-CAcreateserial"]
        if case .selfSigned = certificate { signer = ["-signkey", path + "/key.pem"] }
        try await Self.run(
            [
                "x509", "-req", "-in", path + "/request.pem", "-out", path + "/cert.pem",
                "-extfile", path + "/ext", "-days", String(days),
            ] + signer)

        var arguments = arguments
        if demandsClientCertificate {
            try await Self.run(
                ["req"] + newKey + [
                    "-keyout", clientKeyFile, "-out", path + "/client-request.pem", "-subj",
                    "/CN=gateway",
                ])
            try await Self.run(
                [
                    "x509", "-req", "-in", path + "/client-request.pem", "-out",
                    clientCertificateFile, "-days", "30", "-CA", authorityFile, "-CAkey",
                    path + "/ca.key", "-CAcreateserial",
                ])
            arguments += ["-Verify", "1", "-verify_return_error", "-CAfile", authorityFile]
        }

        let output = path + "/output"
        process = try await ChildProcess.launch(
            Self.openSSL,
            [
                "s_server", "-accept", "127.0.0.1:0", "-cert", path + "/cert.pem", "-key",
                path + "/key.pem", "-www",
            ] + arguments, environment: [:], log: path + "/log", output: output)
        port = try await Self.port(in: output, of: process)
    }

    /// It says "ACCEPT 127.0.0.1:<port>" once it listens.
    private static func port(in output: String, of process: ChildProcess) async throws -> UInt16 {
        while true {
            let ended = !process.isRunning
            let said = (try? String(contentsOfFile: output, encoding: .utf8)) ?? ""
            let line = said.split(separator: "\n", omittingEmptySubsequences: false).dropLast()
                .first { $0.hasPrefix("ACCEPT ") }
            if let port = line?.split(separator: ":").last.flatMap({ UInt16($0) }) { return port }
            if ended { throw CocoaError(.executableLoad) }
            try await Task.sleep(for: .milliseconds(2))
        }
    }

    func stop() {
        process.signal(SIGKILL)
    }

    private static func run(_ arguments: [String]) async throws {
        let status = try await Command.run(openSSL, arguments).status
        guard status == 0 else { throw CocoaError(.executableLoad) }
    }
}
