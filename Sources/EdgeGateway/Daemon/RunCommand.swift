import ArgumentParser
import Glibc

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

    /// malloc gives each thread a heap of its own, up to eight a processor, and none can use what is free in
    /// another: with five destinations that was 3.6 MiB. Few threads allocate at a time.
    private static let heapsMax: Int32 = 2

    func run() async throws {
        mallopt(M_ARENA_MAX, Self.heapsMax)
        do {
            let settings = try await SettingsLoader().load(path: config)
            try await Daemon(settings: settings).run()
        } catch let fault as SettingsFault {
            throw CommandFailure(exitCode: .notWell, message: fault.description)
        }
    }
}
