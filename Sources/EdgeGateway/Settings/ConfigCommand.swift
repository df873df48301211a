import ArgumentParser

struct ConfigCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "config", abstract: "Checks or shows the configuration, without a daemon.",
        discussion: "Example: edge-gateway config show",
        subcommands: [CheckCommand.self, ShowCommand.self])

    struct CheckCommand: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "check", abstract: "Checks whether the configuration can be used.",
            discussion: """
                Checks the file, the environment variables that override it, and the directories, \
                addresses, tokens and certificates that they name. Permissions count, so run it as \
                the daemon's user. If something cannot be used, it lists all of it and exits with 1.

                Example: sudo -u edge-gateway edge-gateway config check
                """)
        @Option(
            help: ArgumentHelp(DaemonOptions.configHelp, valueName: "file"), completion: .file())
        var config: String?

        func run() async throws {
            let (settings, faults) = SettingsLoader().examine(path: config)
            let lines = faults.map(\.description) + settings.problems().map(\.message)
            guard lines.isEmpty else {
                throw CommandFailure(
                    exitCode: faults.contains(where: \.isNotPermitted) ? .notPermitted : .notWell,
                    message: lines.joined(separator: "\n"))
            }
            Terminal.print("the configuration is valid")
        }
    }

    struct ShowCommand: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "show", abstract: "Lists every setting with its value in force.",
            discussion: """
                Prints what each setting means, and the environment variable that overrides it.

                Example: edge-gateway config show
                """)
        @Option(
            help: ArgumentHelp(DaemonOptions.configHelp, valueName: "file"), completion: .file())
        var config: String?
        @Flag(help: "Print JSON instead of text.") var json = false

        func run() async throws {
            let listing = try Settings.load(config).listing
            if json {
                return try Terminal.printJSON(
                    Dictionary(
                        uniqueKeysWithValues: listing.map { ($0.key.name, $0.value.description) }))
            }
            for (key, value) in listing {
                Terminal.print("# \(key.help) (\(key.environmentName))")
                Terminal.print("\(key.name): \(value)")
            }
        }
    }
}

extension Settings {
    /// The settings in force.
    ///
    /// - Throws: ``CommandFailure``
    static func load(_ path: String?) throws -> Settings {
        do {
            return try SettingsLoader().load(path: path)
        } catch {
            throw CommandFailure(
                exitCode: error.isNotPermitted ? .notPermitted : .notWell,
                message: error.description)
        }
    }
}
