import ArgumentParser
import Foundation
import OfflineQueue

struct GapsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "gaps", abstract: "Lists times without data, and why.",
        discussion: """
            A gap is more than 3 s without data. Without --last and --since it lists those of this UTC \
            day, otherwise up to 31 days. Below the list come each UTC day's share of time with data, \
            its longest gap, the time lost to each cause, and what to do about each cause.

            Examples:
              edge-gateway gaps
              edge-gateway gaps --strap "bed 4" --last 7d
              edge-gateway gaps --since "yesterday 08:00"
            """)

    @OptionGroup var chosen: StrapOption
    @OptionGroup var range: TimeRange
    @OptionGroup var daemon: DaemonOptions

    func run() async throws {
        let client = try daemon.client()
        var path = "/v1/gaps?days=1" + (try range.query(daemon.times))
        if let strap = chosen.strap {
            path += "&sensor=\(try await client.strap(strap, includingForgotten: true).id)"
        }
        let report: GapsReport = try await client.get(path)
        if daemon.json { return try Terminal.printJSON(report) }
        Terminal.print(Self.text(report, daemon.times))
    }

    static func text(_ report: GapsReport, _ times: LocalTimes) -> String {
        guard !report.gaps.isEmpty || !report.coverage.isEmpty else {
            return "no strap was paired in that time, or the time of its data is not known yet "
                + "(edge-gateway status)"
        }
        var parts: [String] = []
        if !report.gaps.isEmpty { parts.append(table(report.gaps, times)) }
        if report.more {
            parts.append("… there are more: ask for a shorter time, or for one strap")
        }
        parts.append(
            report.coverage.isEmpty
                ? "no day's share of time with data is known: that takes a trusted clock (timedatectl)"
                : summary(report.coverage))
        let causes = GapCause.allCases.filter { cause in
            report.gaps.contains { $0.cause == cause.rawValue }
                || report.coverage.contains { $0.secondsByCause[cause.rawValue] != nil }
        }
        if !causes.isEmpty { parts.append(words(causes)) }
        return parts.joined(separator: "\n\n")
    }

    private static func table(_ gaps: [GapReport], _ times: LocalTimes) -> String {
        Terminal.table(
            [times.header("FROM"), "LENGTH", "CAUSE", "STRAP"],
            gaps.map { gap in
                [
                    gap.from.map(times.text) ?? "unknown",
                    (gap.seconds.map(Terminal.age) ?? "unknown") + (gap.open ? " …" : ""),
                    gap.cause, gap.name.isEmpty ? gap.address : gap.name,
                ]
            }, free: ["STRAP"])
    }

    /// The causes above, in words.
    private static func words(_ causes: [GapCause]) -> String {
        Terminal.table(
            ["CAUSE", "MEANS", "DO"], causes.map { [$0.rawValue, $0.meaning, $0.remedy] })
    }

    private static func summary(_ coverage: [CoverageReport]) -> String {
        Terminal.table(
            ["DAY (UTC)", "DATA", "LONGEST GAP", "STRAP", "WITHOUT DATA BECAUSE OF"],
            coverage.map { day in
                let causes = day.secondsByCause.sorted { ($0.value, $1.key) > ($1.value, $0.key) }
                return [
                    String(Terminal.time(day.day).prefix(10)),
                    day.percent.map { String(format: "%.1f %%", $0) } ?? "-",
                    Terminal.age(day.longestGapSeconds), day.name.isEmpty ? day.address : day.name,
                    causes.map { "\($0.key) \(Terminal.age($0.value))" }.joined(separator: ", "),
                ]
            }, free: ["STRAP", "WITHOUT DATA BECAUSE OF"])
    }
}
