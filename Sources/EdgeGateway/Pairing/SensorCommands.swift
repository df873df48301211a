import ArgumentParser
import Basics

/// One strap of those that a command is about.
struct StrapOption: ParsableArguments {
    static let help = "The strap's name or address, or a part of either that no other has."

    @Option(
        help: ArgumentHelp(
            "Only this strap, by its name, its address, or a part of either.", valueName: "strap"),
        completion: .strap)
    var strap: String?
}

/// The straps that can be heard now.
enum StrapsNearby {
    /// How long a person waits for them where nobody says how long.
    static let seconds = 10

    static func heard(
        _ client: ControlClient, seconds: Int = seconds
    ) async throws -> [SightingReport] {
        try await ProgressLine.during("listening", seconds: seconds) {
            try await client.post(
                "/v1/scan", ScanRequest(seconds: seconds), timeout: .seconds(seconds + 30))
        }
    }
}

struct ScanCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "scan", abstract: "Lists the heart-rate straps nearby.",
        discussion: "Example: edge-gateway scan --for 20s")

    @Option(
        name: .customLong("for"),
        help: ArgumentHelp("How long to listen, 1s to 60s (default: 10s).", valueName: "span"))
    var span: WrittenSpan?
    @OptionGroup var daemon: DaemonOptions

    func validate() throws {
        guard (1...60).contains(seconds) else { throw ValidationError("--for takes 1s to 60s") }
    }

    private var seconds: Int { span?.seconds ?? StrapsNearby.seconds }

    func run() async throws {
        let sightings = try await StrapsNearby.heard(try daemon.client(), seconds: seconds)
        if daemon.json { try Terminal.printJSON(sightings) }
        guard !sightings.isEmpty else {
            throw CommandFailure(
                exitCode: .notWell,
                message: "no heart-rate strap heard in \(seconds) s: wear the strap with moist "
                    + "electrodes, end its connection to phones and watches, and bring it nearer")
        }
        if daemon.json { return }
        let rows = sightings.map {
            [
                $0.address, $0.rssi.map { "\($0) dBm" } ?? "-", state(of: $0), $0.name,
            ]
        }
        Terminal.print(
            Terminal.table(["ADDRESS", "SIGNAL", "STATE", "NAME"], rows, free: ["NAME"]))
    }

    private func state(of sighting: SightingReport) -> String {
        var words: [String] = []
        if sighting.known { words.append("paired") }
        if sighting.bonded { words.append("bonded") }
        if sighting.connected { words.append("connected") }
        return words.isEmpty ? "new" : words.joined(separator: ",")
    }
}

struct ForgetCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "forget",
        abstract: "Stops recording a strap; its stored samples are still delivered.",
        discussion: "Example: edge-gateway forget \"bed 4\"")

    @Argument(help: ArgumentHelp(StrapOption.help), completion: .strap)
    var strap: String
    @OptionGroup var daemon: DaemonOptions

    func run() async throws {
        let client = try daemon.client()
        let address = try await client.strap(strap).address
        let report: SensorReport = try await client.post(
            "/v1/forget", ForgetRequest(address: address), timeout: .seconds(60))
        try daemon.show(
            report,
            "forgot \(report.name) \(report.address); "
                + report.pending.counted("stored sample still waits", "stored samples still wait")
                + " for delivery")
    }
}

struct StrapsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "straps", abstract: "Lists the paired straps and their links.",
        discussion: "Example: edge-gateway straps --json")

    @OptionGroup var daemon: DaemonOptions

    func run() async throws {
        let sensors: [SensorReport] = try await daemon.client().get("/v1/sensors")
        try daemon.show(
            sensors,
            sensors.isEmpty
                ? "no straps yet: edge-gateway scan, then edge-gateway pair STRAP"
                : Self.text(sensors))
    }

    /// The straps with their patients, and why a link is not up.
    static func text(_ sensors: [SensorReport], columns: Int? = Terminal.columns) -> String {
        let table = table(sensors, columns: columns) { $0.destination }
        let details = sensors.compactMap { sensor in
            sensor.linkDetail.map { Printable.line("\(sensor.name): \($0)") }
        }
        return ([table] + details).joined(separator: "\n")
    }

    /// The straps. Nothing in it names a patient unless `destination` does.
    static func table(
        _ sensors: [SensorReport], columns: Int? = Terminal.columns,
        destination: (SensorReport) -> String? = { $0.enrollment }
    ) -> String {
        Terminal.table(
            ["ADDRESS", "LINK", "BPM", "LAST", "BATTERY", "UNSENT", "FOR", "NAME"],
            sensors.map {
                [
                    $0.address, $0.link, $0.bpm.map(String.init) ?? "-",
                    $0.secondsSinceFrame.map(Terminal.age) ?? "-",
                    $0.batteryPercent.map { "\($0) %" } ?? "-", String($0.pending),
                    destination($0) ?? "-", $0.name,
                ]
            }, free: ["FOR", "NAME"], columns: columns)
    }
}
