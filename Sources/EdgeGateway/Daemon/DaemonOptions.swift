import ArgumentParser

/// Options of every command that talks to the daemon.
struct DaemonOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(Self.configHelp, valueName: "file"),
        completion: .file())
    var config: String?

    @Flag(help: "Print JSON instead of text.")
    var json = false

    @Flag(help: "Print times, and take those that you give, in UTC instead of this machine's zone.")
    var utc = false

    /// In which zone it prints times; JSON is always in UTC.
    var times: LocalTimes { .of(isUTC: utc) }

    static let configHelp: String =
        "Configuration file (default: EDGE_GATEWAY_CONFIG, or /etc/edge-gateway/config.yaml)."

    /// A client of the daemon that the settings in force name.
    ///
    /// - Parameter isExact: answers go into a file as they are, and not to a person.
    func client(isExact: Bool = false) throws -> ControlClient {
        ControlClient(
            socketPath: try settings().socketPath, isForPeople: !json && !isExact)
    }

    func settings() throws -> Settings { try Settings.load(config) }

    /// Prints the result of a command: the report as JSON if that was asked for, else the text.
    func show(_ report: some Encodable, _ text: @autoclosure () -> String) throws {
        if json { return try Terminal.printJSON(report) }
        Terminal.print(text())
    }
}
