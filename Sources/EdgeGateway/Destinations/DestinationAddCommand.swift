import ArgumentParser
import Foundation

/// Where a destination begins.
enum DestinationStart: String, ExpressibleByArgument, CaseIterable {
    case now, kept
}

struct DestinationAddCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "add",
        abstract: "Adds a destination, or gives one of that name new settings.",
        discussion: """
            The destination is tried first; nothing is stored if it does not work. \
            `destination kinds KIND` lists the settings. A value `@FILE` is read from a file and `-` from \
            standard input: keep secrets out of the shell's history that way.

            Without --every-strap and --strap, straps are added by `pair --destination NAME` or \
            `destination straps`; `pair --enrollment NAME` makes it a strap's own destination.

            Examples: edge-gateway destination add influx url=http://127.0.0.1:8086 database=ward \
            --every-strap
                      edge-gateway destination add webhook url=https://host.example/hr \
            secret=@/root/hook.key --name study --strap C0:00:00:00:00:01 --from kept
            """)

    /// The kinds try the server, which may take its time.
    private static let timeout = Duration.seconds(180)
    private static let valueBytesMax = 4096

    @Argument(help: "The kind of system, as `destination kinds` lists them.")
    var kind: String
    @Argument(help: "Settings, each as name=value, name=@FILE or name=-.")
    var settings: [String] = []
    @Option(help: "Name for this destination (default: its kind).")
    var name: String?
    @Flag(help: "Deliver every strap there, now and later.")
    var everyStrap = false
    @Option(help: "A strap to deliver there (may be given again).", completion: .sensorAddress)
    var strap: [String] = []
    @Option(help: "now, or kept: with the samples that the gateway still has.")
    var from: DestinationStart = .now
    @Option(help: "Days after which what it cannot take is dropped for it; 0: never (default: 30).")
    var keepDays: Int?
    @Option(help: "raw (one data point a frame), 10s or 60s (averages); default: raw.")
    var resolution: String?
    @OptionGroup var daemon: DaemonOptions

    func validate() throws {
        guard settings.count(where: { $0.hasSuffix("=-") }) <= 1 else {
            throw ValidationError("one setting at most can be read from standard input")
        }
        for setting in settings where !setting.contains("=") {
            throw ValidationError("'\(Printable.line(setting))' is no setting: give name=value")
        }
    }

    func run() async throws {
        let request = DestinationAddRequest(
            kind: kind, settings: try values(), name: name, everyStrap: everyStrap ? true : nil,
            straps: strap, from: from.rawValue, keepDays: keepDays, resolution: resolution)
        let client = try await daemon.client()
        let report: DestinationAddReport = try await ProgressLine.during("trying the destination") {
            try await client.post("/v1/destinations", request, timeout: Self.timeout)
        }
        if daemon.json { return try Terminal.printJSON(report) }
        Terminal.print(DestinationText.added(report))
    }

    private func values() throws -> [String: String] {
        var values: [String: String] = [:]
        for setting in settings {
            let name = String(setting.prefix { $0 != "=" })
            let value = String(setting.dropFirst(name.count + 1))
            guard values[name] == nil else {
                throw CommandFailure(
                    exitCode: .wrongUsage, message: "\(Printable.line(name)) is given twice")
            }
            if value == "-" {
                values[name] = try CredentialSource.standardInput()
            } else if value.hasPrefix("@") {
                values[name] = try CredentialSource.text(
                    ofFile: String(value.dropFirst()), bytesMax: Self.valueBytesMax)
            } else {
                values[name] = value
            }
        }
        return values
    }
}
