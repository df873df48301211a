import ArgumentParser
import Foundation
import Uplink

struct FleetCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "fleet",
        abstract: "Shows many gateways on one screen, those that need a person first.",
        discussion: """
            With --hosts it asks the page's port of each gateway that a hosts file lists, with the \
            token of fleet.token_file. With --mqtt it reads what the gateways' destinations of the \
            kind mqtt publish at a broker; changes appear at once. It needs no daemon and runs on \
            any machine. Exits with 0 only if every gateway answers and is well.

            Examples:
              edge-gateway fleet --hosts hosts.yaml
              edge-gateway fleet --hosts hosts.yaml --watch
              edge-gateway fleet --hosts hosts.yaml --page 127.0.0.1:8480
              edge-gateway fleet --mqtt mqtts://broker.example --user ward \\
                --password-file password
              edge-gateway fleet coverage --hosts hosts.yaml --last 7d --target 95
            """,
        subcommands: [FleetShowCommand.self, FleetCoverageCommand.self],
        defaultSubcommand: FleetShowCommand.self)
}

/// Where the gateways are.
struct FleetPlace: ParsableArguments {
    private static let passwordBytesMax = 4096

    @Option(help: ArgumentHelp("The gateways, as YAML.", valueName: "file"), completion: .file())
    var hosts: String?
    @Option(
        help: ArgumentHelp(
            "The broker, as mqtts://HOST or mqtt://127.0.0.1:PORT.", valueName: "address"))
    var mqtt: String?
    @Option(help: "With --mqtt: what the topics begin with (default: edge-gateway).")
    var prefix: String?
    @Option(help: "With --mqtt: the user at the broker.")
    var user: String?
    @Option(
        help: ArgumentHelp("With --mqtt: a file with that user's password.", valueName: "file"),
        completion: .file())
    var passwordFile: String?
    @Option(
        help: ArgumentHelp(
            "With --mqtt: the authorities to trust instead of the system's.", valueName: "file"),
        completion: .file())
    var caFile: String?
    @Option(
        help: ArgumentHelp("With --mqtt: the client certificate to show.", valueName: "file"),
        completion: .file())
    var clientCertificateFile: String?
    @Option(
        help: ArgumentHelp(
            "With --mqtt: its key, if that file does not hold it.", valueName: "file"),
        completion: .file())
    var clientKeyFile: String?
    @Option(
        help: ArgumentHelp(
            "Remember here since when a gateway is gone (default: edge-gateway/fleet.json in "
                + "XDG_STATE_HOME).", valueName: "file"), completion: .file())
    var state: String?
    @Flag(help: "Permit http:// and mqtt:// to other machines (tests only: secrets go in clear).")
    var allowPlainHttp = false
    @Flag(help: "Print JSON instead of text.")
    var json = false
    @Flag(help: "Print times in UTC instead of this machine's zone.")
    var utc = false

    func validate() throws {
        guard (hosts == nil) != (mqtt == nil) else {
            throw ValidationError("give --hosts FILE or --mqtt ADDRESS")
        }
        let ofBroker = [
            prefix, user, passwordFile, caFile, clientCertificateFile, clientKeyFile,
        ]
        guard mqtt != nil || ofBroker.allSatisfy({ $0 == nil }) else {
            throw ValidationError(
                "--prefix, --user, --password-file, --ca-file and --client-… belong to --mqtt; the "
                    + "hosts file has its own")
        }
    }

    /// In which zone times are printed and read.
    var times: LocalTimes { .of(isUTC: utc) }

    /// The file that remembers the gateways; nil without a home.
    func memoryFile() throws -> FleetMemoryFile? {
        try state.map(FleetMemoryFile.init(named:))
            ?? FleetMemoryFile.standard(ProcessInfo.processInfo.environment)
    }

    /// The gateways of the hosts file; nil with a broker.
    func knownHosts() throws -> [FleetHost]? {
        try hosts.map { try HostsFile.read($0, allowsPlainHTTP: allowPlainHttp) }
    }

    /// - Parameter reads: what of each gateway is asked for.
    func broker(_ reads: BrokerTopic) throws -> BrokerWatch {
        var values = ["url": mqtt ?? ""]
        values["prefix"] = prefix
        values["user"] = user
        values["password"] = try passwordFile.map {
            try CredentialSource.text(ofFile: $0, bytesMax: Self.passwordBytesMax)
        }
        var network = CurlSettings()
        network.plainHTTP = allowPlainHttp ? .allowed : .loopback
        network.authorityFile = caFile
        network.clientCertificateFile = clientCertificateFile
        network.clientKeyFile = clientKeyFile
        network.connectTimeout = FleetPoller.answerTimeout
        do throws(DestinationProblem) {
            return try BrokerWatch(values, reads: reads, network: network)
        } catch {
            throw CommandFailure(
                exitCode: .wrongUsage, message: "--mqtt: \(error.message)\n  \(error.advice)")
        }
    }
}

struct FleetShowCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show",
        abstract: "Shows the screen, as `fleet` alone does.",
        discussion: """
            Exits with 0 only if every gateway answers and is well.

            Examples:
              edge-gateway fleet show --hosts hosts.yaml
              edge-gateway fleet show --hosts hosts.yaml --watch
            """)

    /// A gateway checks itself every 15 s.
    private static let everyRange = 2...3_600

    @OptionGroup var place: FleetPlace
    @Flag(help: "Ask again and again, and redraw the screen.")
    var watch = false
    @Option(help: ArgumentHelp("Serve the screen at this address, such as 127.0.0.1:8480."))
    var page: String?
    @Option(help: "Seconds between two questions of --watch and --page, 2 to 3600.")
    var every = 10

    func validate() throws {
        guard [watch, place.json, page != nil].count(where: { $0 }) <= 1 else {
            throw ValidationError("choose one of --watch, --json and --page")
        }
        guard Self.everyRange.contains(every) else {
            throw ValidationError("--every takes 2 to 3600 seconds")
        }
    }

    func run() async throws {
        let address = try pagePlace()
        let environment = ProcessInfo.processInfo.environment
        let poller = try source(try place.memoryFile())
        if let address {
            try await FleetPageServer(place: address, poller: poller, pause: .seconds(every)).run()
        } else if watch {
            try await keepWatching(poller, environment)
        } else {
            let report = await poller.poll()
            if place.json {
                try Terminal.printJSON(report)
            } else {
                let columns = DisplayWidth.terminal(environment).columns
                Terminal.print(
                    FleetTable(columns: columns, times: place.times).lines(report).joined(
                        separator: "\n"))
            }
            await Self.keep(poller)
            if !report.isWell { throw ExitCode(CommandExit.notWell.rawValue) }
        }
    }

    private func source(_ file: FleetMemoryFile?) throws -> any FleetSource {
        guard let known = try place.knownHosts() else {
            return BrokerPoller(try place.broker(.health), file: file)
        }
        return FleetPoller(known, allowsPlainHTTP: place.allowPlainHttp, file: file)
    }

    private func pagePlace() throws -> PagePlace? {
        guard let page else { return nil }
        let address: PagePlace
        do {
            address = try PagePlace(page)
        } catch {
            throw CommandFailure(
                exitCode: .wrongUsage,
                message: "--page takes an address of this machine and a port, such as "
                    + "127.0.0.1:8480")
        }
        guard address.isLoopback else {
            throw CommandFailure(
                exitCode: .wrongUsage,
                message:
                    "--page \(page) is reachable from other machines, and the page asks for no "
                    + "token\n  serve it at 127.0.0.1, behind a proxy that knows who may see it")
        }
        return address
    }

    private func keepWatching(
        _ poller: any FleetSource, _ environment: [String: String]
    ) async throws {
        let isTerminal = isatty(STDOUT_FILENO) == 1
        if isTerminal { Terminal.clear() }
        while Terminal.isRead {
            let report = await poller.poll()
            let size = DisplayWidth.terminal(environment)
            var lines = FleetTable(columns: size.columns, times: place.times).lines(report)
            if isTerminal {
                // One line below the last stays free: a longer screen would scroll.
                if let rows = size.rows, lines.count > rows - 1, rows > 2 {
                    let hidden = lines.count - (rows - 2)
                    lines = lines.prefix(rows - 2) + ["… \(hidden) more lines"]
                }
                Terminal.redraw(lines)
            } else {
                Terminal.print(lines.joined(separator: "\n"))
            }
            await Self.keep(poller)
            await poller.wait(for: .seconds(every))
            try Task.checkCancellation()
        }
    }

    /// A memory that cannot be kept costs the next run its "gone since"; the screen is right all the same.
    static func keep(_ poller: any FleetSource) async {
        do {
            try await poller.keep()
        } catch {
            Terminal.complain("note: \((error as? CommandFailure)?.message ?? "\(error)")")
        }
    }
}
