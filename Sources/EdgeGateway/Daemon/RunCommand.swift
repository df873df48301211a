import ArgumentParser

struct RunCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "run", abstract: "Runs the gateway until SIGTERM or SIGINT.",
        discussion: """
            Owns the radio and the store; logs to standard error. The other commands talk to it.

            Example: edge-gateway run --config /etc/edge-gateway/config.yaml
            """)

    @Option(
        help: "Configuration file (default: EDGE_GATEWAY_CONFIG or the standard place).",
        completion: .file())
    var config: String?

    func run() async throws {
        do {
            let settings = try await SettingsLoader().load(path: config)
            try await Daemon(settings: settings).run()
        } catch let fault as SettingsFault {
            throw CommandFailure(exitCode: .notWell, message: fault.description)
        }
    }
}
