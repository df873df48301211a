import Basics
import ArgumentParser
import Foundation

struct WatchCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "watch", abstract: "Shows the straps live until you interrupt it.",
        discussion: """
            Shows for each strap: heart rate, skin contact, RR intervals in milliseconds, battery, \
            last signal strength, how long the link has been up, and the last rates as bars. To a \
            file or a pipe it prints a line for each new frame.

            Examples:
              edge-gateway watch
              edge-gateway watch A0:9E:1A:00:00:01
              edge-gateway watch --json | jq '.straps[0].bpm'
            """)

    /// Straps send about once a second; twice as often shows each frame.
    private static let period = Duration.milliseconds(500)

    @Argument(help: "Only the strap with this address.", completion: .sensorAddress)
    var address: String?
    @Option(help: "Stop after this many seconds.")
    var seconds: Int?
    @OptionGroup var daemon: DaemonOptions

    func validate() throws {
        if let seconds, seconds < 1 { throw ValidationError("--seconds takes 1 or more") }
    }

    func run() async throws {
        let client = try daemon.client()
        let chosen = try await sensor(client)
        let isTerminal = isatty(STDOUT_FILENO) == 1 && !daemon.json
        var view = WatchView()
        var last: LiveReport?
        let clock = UptimeClock.system
        let end = seconds.map { clock.now() + .seconds($0) }
        if isTerminal { Terminal.clear() }
        while Terminal.isRead, end.map({ clock.now() < $0 }) ?? true {
            var report: LiveReport = try await client.get("/v1/live/now")
            report.straps.removeAll { chosen != nil && $0.sensor != chosen }
            view.take(report)
            if isTerminal {
                Terminal.redraw(view.lines(report))
            } else if isNews(report, after: last) {
                try write(report)
            }
            last = report
            await clock.sleep(Self.period)
        }
    }

    private func sensor(_ client: ControlClient) async throws -> Int64? {
        guard let address else { return nil }
        let sensors: [SensorReport] = try await client.get("/v1/sensors")
        guard let found = sensors.first(where: { $0.address == address.uppercased() }) else {
            throw CommandFailure(
                exitCode: .wrongUsage,
                message: "no sensor with this address is paired\n  edge-gateway sensors lists them")
        }
        return found.id
    }

    /// A strap whose last frame is younger than it was has sent another.
    private func isNews(_ report: LiveReport, after last: LiveReport?) -> Bool {
        guard let last, last.straps.count == report.straps.count else { return true }
        return zip(report.straps, last.straps).contains { now, before in
            now.bpm != before.bpm
                || (now.secondsSinceFrame ?? .infinity) < (before.secondsSinceFrame ?? .infinity)
        }
    }

    private func write(_ report: LiveReport) throws {
        if daemon.json {
            try Terminal.printJSONLine(report)
        } else {
            Terminal.print(report.straps.map(WatchView.headline).joined(separator: "\n"))
        }
    }
}
