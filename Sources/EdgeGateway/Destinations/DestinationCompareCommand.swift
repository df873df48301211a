import Basics
import ArgumentParser
import Foundation

struct DestinationCompareCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "compare",
        abstract: "Compares day by day how many of the same samples two destinations have.",
        discussion: """
            Counts samples that were delivered, day by day (UTC), and says why one destination has \
            fewer. Use it to move from one system to another: deliver to both, compare, then remove \
            the old one. Exits with 1 while the counts differ.

            Example: edge-gateway destination compare firebase supabase --last 7d
            """)

    @Argument(help: "A destination's name.", completion: .destinationName)
    var first: String
    @Argument(help: "The other destination's name.", completion: .destinationName)
    var second: String
    @Option(
        help: ArgumentHelp(
            "How many UTC days, today included, such as 7d (default: 30d).", valueName: "span"))
    var last: WrittenSpan?
    @OptionGroup var daemon: DaemonOptions

    func run() async throws {
        let client = try daemon.client()
        let names = [
            try await client.destination(first).name, try await client.destination(second).name,
        ]
        let report: DestinationComparisonReport = try await client.post(
            "/v1/destinations/compare",
            DestinationCompareRequest(names: names, days: last?.days), timeout: .seconds(60))
        try daemon.show(report, DestinationText.comparison(report))
        if !report.same { throw ExitCode(CommandExit.notWell.rawValue) }
    }
}

extension DestinationText {
    static func comparison(_ report: DestinationComparisonReport) -> String {
        var lines: [String] = []
        if report.days.isEmpty {
            lines.append(
                "no samples of these days go to both \(report.names.joined(separator: " and "))")
        } else {
            lines.append(
                Terminal.table(
                    ["DAY (UTC)", "SAMPLES"] + report.names.map { "IN \($0)" },
                    report.days.map { day in
                        [name(day), String(day.samples)] + day.counts.map { String($0.delivered) }
                    }, free: Set(report.names.map { "IN \($0)" })))
            for day in report.days { lines += reasons(day, report.names) }
            lines.append(
                report.same
                    ? "both have the same number of samples of each day" : "the numbers differ")
        }
        for (name, count) in zip(report.names, report.alone) where count > 0 {
            lines.append(
                "not compared: \(count.counted("sample")) of straps that deliver only to \(name)")
        }
        return lines.joined(separator: "\n")
    }

    private static func name(_ day: DestinationComparisonReport.Day) -> String {
        func text(_ date: Date) -> String { String(Terminal.time(date).prefix(10)) }
        guard let first = day.day.map(text) else { return "no time yet" }
        return day.until.map { "\(first) to \(text($0))" } ?? first
    }

    /// Why a destination has fewer samples of a day than go there, a line each.
    private static func reasons(
        _ day: DestinationComparisonReport.Day, _ names: [String]
    ) -> [String] {
        zip(names, day.counts).compactMap { destination, counts in
            let parts = [
                (counts.waiting, "wait"), (counts.refused, "refused"), (counts.dropped, "dropped"),
                (counts.before, "from before it was added"),
            ].filter { $0.0 > 0 }.map { "\($0.0) \($0.1)" }
            return parts.isEmpty
                ? nil : "not in \(destination), \(name(day)): \(parts.joined(separator: ", "))"
        }
    }
}
