import ArgumentParser

struct ConfigCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "config", abstract: "Checks or shows the configuration; needs no daemon.",
        subcommands: [CheckCommand.self, ShowCommand.self])

    struct CheckCommand: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "check", abstract: "Says whether the configuration can be used.",
            discussion: "Example: edge-gateway config check --config /etc/edge-gateway/config.yaml")
        @Option(help: "Configuration file.", completion: .file()) var config: String?

        func run() async throws {
            let settings = try await load(config)
            do {
                try settings.checkUplink()
            } catch {
                throw CommandFailure(exitCode: .notWell, message: error.description)
            }
            print("configuration is well")
        }
    }

    struct ShowCommand: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "show", abstract: "Lists every key with the value in force.",
            discussion: "Example: edge-gateway config show")
        @Option(help: "Configuration file.", completion: .file()) var config: String?
        @Flag(help: "Print JSON.") var json = false

        func run() async throws {
            let listing = try await load(config).listing
            if json {
                return try Terminal.printJSON(
                    Dictionary(
                        uniqueKeysWithValues: listing.map { ($0.key.name, $0.value.description) }))
            }
            for (key, value) in listing {
                print("# \(key.help) (\(key.environmentName))")
                print("\(key.name): \(value)")
            }
        }
    }

    private static func load(_ path: String?) async throws -> Settings {
        do {
            return try await SettingsLoader().load(path: path)
        } catch {
            throw CommandFailure(exitCode: .notWell, message: error.description)
        }
    }
}
