import ArgumentParser

struct ScanCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "scan", abstract: "Lists the heart-rate sensors nearby.",
        discussion: "Example: edge-gateway scan --seconds 20")

    @Option(help: "How long to listen, in seconds, 1 to 60.")
    var seconds = 10
    @OptionGroup var daemon: DaemonOptions

    func validate() throws {
        guard (1...60).contains(seconds) else {
            throw ValidationError("--seconds takes 1 to 60")
        }
    }

    func run() async throws {
        let client = try daemon.client()
        let sightings: [SightingReport] = try await ProgressLine.during(
            "listening", seconds: seconds
        ) {
            try await client.post(
                "/v1/scan", ScanRequest(seconds: seconds), timeout: .seconds(seconds + 30))
        }
        if daemon.json { return try Terminal.printJSON(sightings) }
        if sightings.isEmpty {
            throw CommandFailure(
                exitCode: .notWell,
                message: "no heart-rate sensor heard in \(seconds) s: wear the strap with moist "
                    + "electrodes, end its connection to phones and watches, and bring it nearer")
        }
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
        abstract: "Stops recording a sensor; its stored samples are still delivered.",
        discussion: "Example: edge-gateway forget C0:00:00:00:00:01")

    @Argument(help: "The sensor's address.", completion: .sensorAddress)
    var address: String
    @OptionGroup var daemon: DaemonOptions

    func run() async throws {
        let report: SensorReport = try await daemon.client().post(
            "/v1/forget", ForgetRequest(address: address), timeout: .seconds(60))
        if daemon.json { return try Terminal.printJSON(report) }
        Terminal.print(
            "forgot \(report.address); \(report.pending) stored samples still wait for delivery")
    }
}

struct SensorsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "sensors", abstract: "Lists the paired sensors and their links.",
        discussion: "Example: edge-gateway sensors --json")

    @OptionGroup var daemon: DaemonOptions

    func run() async throws {
        let sensors: [SensorReport] = try await daemon.client().get("/v1/sensors")
        if daemon.json { return try Terminal.printJSON(sensors) }
        if sensors.isEmpty {
            return Terminal.print(
                "no sensors yet: edge-gateway scan, then edge-gateway pair ADDRESS")
        }
        Terminal.print(Self.table(sensors))
    }

    static func table(_ sensors: [SensorReport], columns: Int? = Terminal.columns) -> String {
        Terminal.table(
            ["ADDRESS", "LINK", "BPM", "LAST", "BATTERY", "STORED", "UNSENT", "NAME"],
            sensors.map {
                [
                    $0.address, $0.link, $0.bpm.map(String.init) ?? "-",
                    $0.secondsSinceFrame.map(Terminal.age) ?? "-",
                    $0.batteryPercent.map { "\($0) %" } ?? "-", String($0.stored),
                    String($0.pending), $0.name,
                ]
            }, free: ["NAME"], columns: columns)
    }
}
