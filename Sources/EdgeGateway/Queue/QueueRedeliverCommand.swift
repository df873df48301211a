import ArgumentParser
import Basics
import Foundation

struct QueueRedeliverCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "redeliver",
        abstract: "Delivers samples again that a destination has lost.",
        discussion: """
            For an exchange that was restored from a backup: it lacks what was delivered since, and \
            the gateway takes that for delivered. Give the time of the backup, or an earlier one: \
            under the same identities nothing is stored twice at an exchange. A broker, a receiver \
            or VictoriaMetrics gets such samples once more.

            Only samples that the store still has can go: storage.keep_delivered_hours says how \
            long it keeps them.

            Example: edge-gateway queue redeliver --since "2026-12-01 08:00:00" --enrollment e1
            """)

    /// Millions of samples are looked at one by one.
    private static let timeout = Duration.seconds(1_800)

    @Option(
        help: ArgumentHelp(
            "Samples measured since then, in UTC.", valueName: "time"))
    var since: UTCTime
    @Option(
        help: ArgumentHelp(
            "The enrollment or destination (default: the only enrollment).", valueName: "name"),
        completion: .enrollmentName)
    var enrollment: String?
    @Flag(help: "Do not ask for confirmation.")
    var yes = false
    @OptionGroup var daemon: DaemonOptions

    func run() async throws {
        let client = try daemon.client()
        func ask(countOnly: Bool) async throws -> RedeliverReport {
            try await client.post(
                "/v1/queue/redeliver",
                RedeliverRequest(enrollment: enrollment, since: since.date, countOnly: countOnly),
                timeout: Self.timeout)
        }
        let extent = try await ask(countOnly: true)
        guard extent.samples > 0 else {
            if daemon.json { return try Terminal.printJSON(extent) }
            return Terminal.print(Self.nothing(extent))
        }
        try Terminal.confirm(Self.question(extent, since: since.date), yes)
        let report = try await ask(countOnly: false)
        if daemon.json { return try Terminal.printJSON(report) }
        Terminal.print(
            "\(report.samples.counted("sample waits", "samples wait")) for \(report.enrollment) again"
        )
    }

    /// What will be sent, and what is gone.
    static func question(_ extent: RedeliverReport, since: Date) -> String {
        let first = extent.first.map { " measured since \(Terminal.time($0)) UTC" } ?? ""
        var text =
            "\(extent.samples.counted("sample"))\(first) will be sent to \(extent.enrollment) again.\n"
        if let kept = extent.keptSince, kept > since {
            text +=
                "Delivered samples from before \(Terminal.time(kept)) UTC are not kept any more!\n"
        }
        return text + "Continue?"
    }

    static func nothing(_ extent: RedeliverReport) -> String {
        guard let kept = extent.keptSince else {
            return "no delivered sample of \(extent.enrollment) is kept"
        }
        return
            "nothing was delivered to \(extent.enrollment) since then; delivered samples are kept "
            + "since \(Terminal.time(kept)) UTC"
    }
}
