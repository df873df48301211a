import ArgumentParser
import Foundation
import Logging
import OfflineQueue
import ServiceLifecycle
import UnixSignals
import Uplink

struct RelayCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "relay",
        abstract: "Delivers for gateways that hold no tokens.",
        discussion: """
            A relay takes gateways' samples from NATS servers, sends them to the exchange in full bundles, \
            and gives each gateway the exchange's own answer. It stores nothing; several may run at once. It \
            needs no daemon. docs/operate/relay.md says how to set one up.

            Examples:
              edge-gateway relay --config /etc/edge-gateway/relay.yaml
              edge-gateway relay key ward3-07.seed
              edge-gateway relay allow ward3-07 40001
            """,
        subcommands: [
            RelayRunCommand.self, RelayKeyCommand.self, RelayAllowCommand.self,
            RelayForbidCommand.self,
        ], defaultSubcommand: RelayRunCommand.self)
}

struct RelayRunCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "run",
        abstract: "Runs a relay until SIGTERM.",
        discussion: """
            If there are mistakes in its settings, in the files that they name or in its table, it \
            lists them all with their lines, and exits with 2.

            Examples:
              edge-gateway relay run --config /etc/edge-gateway/relay.yaml
              edge-gateway relay run --config /etc/edge-gateway/relay.yaml --check
            """)

    @Option(
        help: ArgumentHelp("The relay's settings, as YAML.", valueName: "file"),
        completion: .file())
    var config: String
    @Flag(help: "Read the settings and what they name, and leave.")
    var check = false
    @Flag(help: "Permit http:// and nats:// to other machines (tests only: samples go in clear).")
    var allowPlainHttp = false

    /// A request under way at the exchange may take 30 s, and is answered before the relay leaves.
    private static let shutdownMax = Duration.seconds(60)

    func run() async throws {
        var mistakes = FileMistakes(path: config)
        let (settings, tablePath) = try RelayConfiguration.examine(
            config, environment: ProcessInfo.processInfo.environment,
            plainHTTP: allowPlainHttp ? .allowed : .loopback, &mistakes)
        let table = RelayTableFile(tablePath)
        let faults = mistakes.messages + (await table.faults())
        guard faults.isEmpty, let configuration = settings else {
            throw CommandFailure(
                exitCode: .wrongUsage, message: faults.joined(separator: "\n"))
        }
        guard !check else { return Terminal.print("\(config): well") }
        LoggingSystem.bootstrap { label in
            PrintableLogHandler(StreamLogHandler.standardError(label: label))
        }
        let logger = Logger(label: "edge-gateway-relay")
        let relay = Relay(configuration.settings, clock: SystemClock(), logger: logger) {
            await table.current(logger)
        }
        let notifier = SystemdNotifier()
        var services: [any Service] = [
            RelayService(relay: relay) { notifier.send("STATUS=listening") }
        ]
        if let place = configuration.place {
            services.append(try RelayServer(relay: relay, place: place).service(logger))
        }
        var group = ServiceGroupConfiguration(
            services: services, gracefulShutdownSignals: [.sigterm, .sigint], logger: logger)
        group.maximumGracefulShutdownDuration = Self.shutdownMax
        // A server that is away is no reason to end the relay: it waits for it.
        notifier.send("READY=1")
        do {
            try await ServiceGroup(configuration: group).run()
        } catch {
            throw CommandFailure(exitCode: .notWell, message: "relay: \(error); see the log")
        }
    }
}

/// Runs the relay until a signal comes, and until what it has begun is answered.
private struct RelayService: Service {
    let relay: Relay
    let listening: @Sendable () -> Void

    func run() async throws {
        await cancelWhenGracefulShutdown { await relay.run(listening: listening) }
    }
}

struct RelayKeyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "key",
        abstract: "Makes an NKEY of this gateway or relay, and prints the public key.",
        discussion: """
            The seed goes into a new file that this user alone can read, and never leaves the machine. \
            The public key goes into the configuration of the NATS servers.

            Examples:
              edge-gateway relay key ward3-07.seed
              edge-gateway relay key --show ward3-07.seed
            """)

    @Argument(help: "The file of the seed.", completion: .file())
    var file: String
    @Flag(help: "Make none: print the public key of the seed in the file.")
    var show = false

    func run() async throws {
        guard !show else {
            return Terminal.print(try RelayConfiguration.key(inFile: file).publicKey)
        }
        guard let key = NKey.make() else {
            throw CommandFailure(exitCode: .notWell, message: "libcrypto makes no Ed25519 key")
        }
        let output = try OutputFile(file)
        try output.write(Array((key.seedText.revealed + "\n").utf8))
        try output.finish()
        Terminal.print(key.publicKey)
    }
}

/// A line of the relay's table, and the table that it is in.
struct RelayTableLine: ParsableArguments {
    @Argument(help: "The gateway's name.")
    var gateway: String
    @Argument(help: "The patient, by the exchange's identifier.")
    var patient: String
    @Option(
        help: ArgumentHelp("The relay's table.", valueName: "file"), completion: .file())
    var table = RelayConfiguration.tableStandard

    /// - Throws: ``CommandFailure``
    func change(isAllowed: Bool) async throws {
        try await RelayTableFile.change(table, gateway, patient, isAllowed: isAllowed)
    }
}

struct RelayAllowCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "allow",
        abstract: "Lets a gateway write for a patient.",
        discussion: """
            Adds a line to the relay's table; the relay reads it within a second. Give each relay of the \
            clinic the same table.

            Example:
              edge-gateway relay allow ward3-07 40001
            """)

    @OptionGroup var line: RelayTableLine

    func run() async throws { try await line.change(isAllowed: true) }
}

struct RelayForbidCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "forbid",
        abstract: "Lets a gateway write for a patient no longer.",
        discussion: """
            Example:
              edge-gateway relay forbid ward3-07 40001
            """)

    @OptionGroup var line: RelayTableLine

    func run() async throws { try await line.change(isAllowed: false) }
}
