import ArgumentParser
import Basics
import Foundation
import OfflineQueue

struct GapsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "gaps", abstract: "Lists times without data, and why.",
        discussion: """
            A gap is more than 3 s without data. Without --last and --since it lists the gaps of \
            this UTC day, with them those of up to 31 days. Below the list it prints each UTC day's \
            share of time with data, its longest gap, the time lost to each cause, and what to do \
            about each cause.

            Examples:
              edge-gateway gaps
              edge-gateway gaps --strap "bed 4" --last 7d
              edge-gateway gaps --since "yesterday 08:00"
              edge-gateway gaps --coverage --target 95 --last 7d
            """)

    @Flag(help: "List each UTC day's share of time with data, and no single gaps.")
    var coverage = false
    @OptionGroup var goal: CoverageTarget
    @OptionGroup var chosen: StrapOption
    @OptionGroup var range: TimeRange
    @OptionGroup var daemon: DaemonOptions

    func validate() throws {
        guard goal.target == nil || coverage else {
            throw ValidationError("--target judges days; add --coverage")
        }
    }

    func run() async throws {
        let client = try daemon.client()
        var path = "/v1/gaps?days=1" + (try range.query(daemon.times))
        if let strap = chosen.strap {
            path += "&sensor=\(try await client.strap(strap, includingForgotten: true).id)"
        }
        let report: GapsReport = try await client.get(path)
        if coverage { return try showCoverage(report) }
        try daemon.show(report, Self.text(report, daemon.times))
    }

    /// - Throws: the exit code 1 if a day is below the target, or no day is known that could be judged by it.
    private func showCoverage(_ report: GapsReport) throws {
        let coverage = report.coverage
        let low = coverage.map { goal.isMissed(by: $0.percent) }
        if daemon.json {
            try Terminal.printJSON(coverage)
        } else if coverage.isEmpty {
            Terminal.print(report.gaps.isEmpty ? Self.nothing : Self.noShare)
        } else {
            Terminal.printTable(
                Self.header, Self.rows(coverage), free: Self.free, alarms: low)
            if let line = goal.verdict(low) { Terminal.print("\n" + line) }
        }
        if goal.fails(low) { throw ExitCode(CommandExit.notWell.rawValue) }
    }

    private static let nothing =
        "no strap was paired in that time, or the time of its data is not known yet (edge-gateway status)"
    private static let noShare =
        "no day's share of time with data is known: that takes a trusted clock (timedatectl)"

    static func text(_ report: GapsReport, _ times: LocalTimes) -> String {
        guard !report.gaps.isEmpty || !report.coverage.isEmpty else {
            return nothing
        }
        var parts: [String] = []
        if !report.gaps.isEmpty { parts.append(table(report.gaps, times)) }
        if report.more {
            parts.append("… there are more: ask for a shorter time, or for one strap")
        }
        parts.append(
            report.coverage.isEmpty
                ? noShare
                : Terminal.table(header, rows(report.coverage), free: free))
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

    private static let header = [
        "DAY (UTC)", "DATA", "LONGEST GAP", "STRAP", "WITHOUT DATA BECAUSE OF",
    ]
    private static let free: Set = ["STRAP", "WITHOUT DATA BECAUSE OF"]

    private static func rows(_ coverage: [CoverageReport]) -> [[String]] {
        coverage.map { day in
            [
                String(Terminal.time(day.day).prefix(10)),
                day.percent.map(CoverageTarget.text) ?? "-",
                Terminal.age(day.longestGapSeconds), day.name.isEmpty ? day.address : day.name,
                CoverageTarget.causes(day.secondsByCause),
            ]
        }
    }
}

/// The share of a day that a study wants.
struct CoverageTarget: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Mark days with less data than this, in red on a terminal, and exit with 1 if there is one.",
            valueName: "percent"))
    var target: Double?

    func validate() throws {
        guard target.map({ 0...100 ~= $0 }) ?? true else {
            throw ValidationError("--target takes 0 to 100 percent")
        }
    }

    func isMissed(by percent: Double?) -> Bool {
        guard let target, let percent else { return false }
        return percent < target
    }

    /// Whether a day misses the target, or no day is known that could meet it.
    func fails(_ missed: [Bool]) -> Bool {
        missed.contains(true) || target != nil && missed.isEmpty
    }

    /// How many of the days miss it; nil without a target.
    func verdict(_ missed: [Bool]) -> String? {
        target.map { target in
            "\(missed.count { $0 }) of \(missed.count.counted("row")) below \(target.formatted()) %"
        }
    }

    /// A share, never rounded up: a day with a gap has no 100 %.
    static func text(_ percent: Double) -> String {
        String(format: "%.1f %%", (percent * 10).rounded(.down) / 10)
    }

    /// Causes with their times, the longest first.
    static func causes(_ seconds: [String: Double]) -> String {
        seconds.sorted { ($0.value, $1.key) > ($1.value, $0.key) }
            .map { "\($0.key) \(Terminal.age($0.value))" }.joined(separator: ", ")
    }
}
