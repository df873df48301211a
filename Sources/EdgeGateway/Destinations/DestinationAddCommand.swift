import ArgumentParser
import Foundation

/// From when on a strap's samples go to a destination.
enum DestinationStart: String, ExpressibleByArgument, CaseIterable {
    case now, kept

    static let help =
        "now: only new samples; kept: also those that the gateway still has."
}

struct DestinationAddCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "add",
        abstract: "Adds a destination, or gives one new settings.",
        discussion: """
            The gateway tries the destination first, and stores nothing if it does not work. \
            `destination kinds KIND` lists the settings. To keep a secret out of the shell's \
            history, give it as `name=@FILE`, or as `name=-`: the command then asks for it, or reads \
            it from standard input.

            Without --every-strap and --strap no strap delivers there yet: add straps with \
            `destination straps` or `pair --destination NAME`. With `pair --enrollment NAME` the \
            destination takes the place of an exchange for that strap.

            Examples:
              edge-gateway destination add influx url=http://127.0.0.1:8086 database=ward \\
                --every-strap
              edge-gateway destination add webhook url=https://host.example/hr \\
                secret=@/root/hook.key --strap "bed 4"
            """)

    /// The kinds try the server, which may take its time.
    private static let timeout = Duration.seconds(180)

    @Argument(help: "The kind, as `destination kinds` lists them.")
    var kind: String
    @Argument(
        help: ArgumentHelp("A setting: name=value, name=@FILE or name=-.", valueName: "setting"))
    var settings: [String] = []
    @Option(help: "The name of this destination (default: its kind).")
    var name: String?
    @Flag(help: "Deliver every strap there, now and later.")
    var everyStrap = false
    @Option(
        help: ArgumentHelp("Deliver this strap there; may be repeated.", valueName: "strap"),
        completion: .strap)
    var strap: [String] = []
    @Option(help: ArgumentHelp(DestinationStart.help, valueName: "start"))
    var from: DestinationStart = .now
    @Option(
        help: ArgumentHelp(
            "Drop samples for this destination that wait longer; 0: never (default: 30).",
            valueName: "days"))
    var keepDays: Int?
    @Option(
        help:
            "raw: a data point per frame; 10s or 60s: averages (default: 60s for fhir and Firestore, raw for others)."
    )
    var resolution: String?
    @Flag(help: "Give the destination of this name these settings instead of its own.")
    var replace = false
    @OptionGroup var daemon: DaemonOptions

    func validate() throws {
        try GivenSettings.validate(settings)
        guard !everyStrap || strap.isEmpty else {
            throw ValidationError(
                "give --every-strap, or --strap for each that is to deliver there")
        }
    }

    func run() async throws {
        let client = try daemon.client()
        let request = DestinationAddRequest(
            kind: kind, settings: try await GivenSettings.values(settings), name: name,
            everyStrap: everyStrap ? true : nil,
            straps: try await client.addresses(strap), from: from.rawValue, keepDays: keepDays,
            resolution: resolution, replace: replace ? true : nil)
        let report: DestinationAddReport = try await ProgressLine.during("trying the destination") {
            try await client.post("/v1/destinations", request, timeout: Self.timeout)
        }
        try daemon.show(report, DestinationText.added(report))
    }
}
