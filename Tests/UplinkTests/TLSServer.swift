import Foundation

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
    private let processID: Int32
    private let scratch: Scratch

    var origin: Origin? { Origin("https://127.0.0.1:\(port)") }

    /// Starts a server, on a thread that may block.
    static func start(
        _ certificate: Certificate, demandsClientCertificate: Bool = false,
        arguments: [String] = []
    ) async throws -> TLSServer {
        try await withCheckedThrowingContinuation { continuation in
            Thread.detachNewThread {
                continuation.resume(
                    with: Result {
                        try TLSServer(certificate, demandsClientCertificate, arguments)
                    })
            }
        }
    }

    private init(
        _ certificate: Certificate, _ demandsClientCertificate: Bool, _ arguments: [String]
    ) throws {
        scratch = try Scratch()
        let path = scratch.path
        authorityFile = path + "/ca.pem"
        clientCertificateFile = path + "/client.pem"
        clientKeyFile = path + "/client.key"
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

        var arguments = arguments
        if demandsClientCertificate {
            try Self.run(
                ["req"] + newKey + [
                    "-keyout", clientKeyFile, "-out", path + "/client-request.pem", "-subj",
                    "/CN=gateway",
                ])
            try Self.run(
                [
                    "x509", "-req", "-in", path + "/client-request.pem", "-out",
                    clientCertificateFile, "-days", "30", "-CA", authorityFile, "-CAkey",
                    path + "/ca.key", "-CAcreateserial",
                ])
            arguments += ["-Verify", "1", "-verify_return_error", "-CAfile", authorityFile]
        }

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
