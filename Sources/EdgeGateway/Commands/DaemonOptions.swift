import ArgumentParser

/// Options of every command that talks to the daemon.
struct DaemonOptions: ParsableArguments {
    @Option(
        help: "Configuration file (default: EDGE_GATEWAY_CONFIG or the standard place).",
        completion: .file())
    var config: String?

    @Flag(help: "Print JSON (docs/json.md) instead of text.")
    var json = false

    /// A client of the daemon that the settings in force name.
    func client() async throws -> ControlClient {
        ControlClient(socketPath: try await settings().socketPath)
    }

    func settings() async throws -> Settings {
        do {
            return try await SettingsLoader().load(path: config)
        } catch {
            throw CommandFailure(exitCode: .wrongUsage, message: error.description)
        }
    }
}
