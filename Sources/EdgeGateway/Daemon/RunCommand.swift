import ArgumentParser

struct RunCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "run", abstract: "Runs the gateway until SIGTERM or SIGINT.",
        discussion: """
            The daemon owns the radio and the store. It logs to standard error, and serves the \
            other commands on its control socket.

            Example: edge-gateway run --config /etc/edge-gateway/config.yaml
            """)

    @Option(
        help: ArgumentHelp(DaemonOptions.configHelp, valueName: "file"),
        completion: .file())
    var config: String?

    func run() async throws {
        do {
            let settings = try SettingsLoader().load(path: config)
            try await Daemon(settings: settings).run()
        } catch let fault as SettingsFault {
            throw CommandFailure(exitCode: .notWell, message: fault.description)
        }
    }
}
