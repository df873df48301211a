import Foundation

/// A receiver that verifies each request with the library of Standard Webhooks.
public struct WebhookSystem: DestinationSystem {
    public let kind = "webhook"
    public let title = "the receiver"
    public let mayRepeat = true
    public let settings: [String: String]
    public let secretFiles: [String: String]
    private let host: SystemHost
    private let address: String

    /// Starts a receiver.
    ///
    /// - Parameter format: `ndjson` or `json`.
    public static func start(format: String) async throws -> WebhookSystem {
        let python = SystemHost.judgesPython
        return try await SystemHost.start("webhook", needs: [python, "/usr/bin/curl"]) { host in
            let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
            let port = try await host.script(
                "webhook_receiver.py", [secret, format], python: python)
            return WebhookSystem(
                host: host, address: "http://127.0.0.1:\(port)", secret: secret, format: format,
                secretFile: try host.write(secret, to: "secret"))
        }
    }

    private init(
        host: SystemHost, address: String, secret: String, format: String, secretFile: String
    ) {
        self.host = host
        self.address = address
        settings = ["url": "\(address)/in", "secret": secret, "format": format]
        secretFiles = ["secret": secretFile]
    }

    public func counts() async throws -> (stored: Int, repeated: Int) {
        let counts = try await all()
        guard counts["refused"] == 0 else { throw SystemFault("signatures are wrong: \(counts)") }
        return (counts["stored"] ?? 0, counts["repeated"] ?? 0)
    }

    public func ledgerCounts() async throws -> (gaps: Int, days: Int)? {
        let counts = try await all()
        return (counts["gap"] ?? 0, counts["coverage"] ?? 0)
    }

    private func all() async throws -> [String: Int] {
        try JSONDecoder().decode([String: Int].self, from: try await host.get("\(address)/counts"))
    }

    public func stop() async { await host.stop() }
}
