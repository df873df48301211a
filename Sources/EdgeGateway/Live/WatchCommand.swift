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
              edge-gateway watch --strap "bed 4"
              edge-gateway watch --json | jq '.straps[0].bpm'
            """)

    /// Straps send about once a second; twice as often shows each frame.
    private static let period = Duration.milliseconds(500)
    /// How often it looks whether there is something to do first: the whole state costs more than the rates.
    private static let stepPeriod = Duration.seconds(5)

    @OptionGroup var chosen: StrapOption
    @Option(
        name: .customLong("for"),
        help: ArgumentHelp("Stop after so long, such as 30s or 5m.", valueName: "span"))
    var span: WrittenSpan?
    @OptionGroup var daemon: DaemonOptions

    func run() async throws {
        let client = try daemon.client()
        var sensor: Int64?
        if let strap = chosen.strap { sensor = try await client.strap(strap).id }
        let isTerminal = isatty(STDOUT_FILENO) == 1 && !daemon.json
        var view = WatchView()
        var last: LiveReport?
        let clock = UptimeClock.system
        let end = span.map { clock.now() + .seconds($0.seconds) }
        var (next, asked): (NextStep?, Uptime?) = (nil, nil)
        if isTerminal { Terminal.clear() }
        while Terminal.isRead, end.map({ clock.now() < $0 }) ?? true {
            var report: LiveReport = try await client.get("/v1/live/now")
            report.straps.removeAll { sensor != nil && $0.sensor != sensor }
            view.take(report)
            if asked.map({ clock.now() - $0 >= Self.stepPeriod }) ?? true {
                let step = (try await client.get("/v1/status") as StatusReport).nextStep
                if let step, step != next, !isTerminal {
                    Terminal.complain("\(step.message)\n  next: \(step.advice)")
                }
                (next, asked) = (step, clock.now())
            }
            if isTerminal {
                Terminal.redraw(view.lines(report, next))
            } else if isNews(report, after: last) {
                try write(report)
            }
            last = report
            await clock.sleep(Self.period)
        }
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
