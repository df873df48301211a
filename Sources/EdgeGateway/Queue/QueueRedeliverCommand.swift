import ArgumentParser
import Basics
import Foundation

struct QueueRedeliverCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "redeliver",
        abstract: "Delivers samples again after a destination has lost them.",
        discussion: """
            For an exchange that was restored from a backup: it lacks what was delivered since, and \
            the gateway takes that for delivered. Give the time of the backup, or an earlier one: \
            under the same identities nothing is stored twice at an exchange. A broker, a receiver \
            or VictoriaMetrics gets such samples once more.

            Only samples that the store still has can go: storage.keep_delivered_hours says how \
            long it keeps them.

            Examples:
              edge-gateway queue redeliver --since "2026-12-01 08:00" --enrollment e1
              edge-gateway queue redeliver --last 2d
            """)

    /// Millions of samples are looked at one by one.
    private static let timeout = Duration.seconds(1_800)

    @Option(
        help: ArgumentHelp("Samples of so long ago until now, such as 6h or 2d.", valueName: "span")
    )
    var last: WrittenSpan?
    @Option(
        help: ArgumentHelp("Samples from this time on, \(WrittenTime.help).", valueName: "time"))
    var since: WrittenTime?
    @Option(
        help: ArgumentHelp(
            "The enrollment or destination (default: the only enrollment).", valueName: "name"),
        completion: .enrollmentName)
    var enrollment: String?
    @Flag(help: "Do not ask for confirmation.")
    var yes = false
    @OptionGroup var daemon: DaemonOptions

    func validate() throws {
        guard (last == nil) != (since == nil) else {
            throw ValidationError("give --since TIME or --last SPAN")
        }
    }

    func run() async throws {
        let begin = try TimeRange.begin(last: last, since: since, daemon.times)
        guard let since = begin else { return }
        let client = try daemon.client()
        var enrollment = enrollment
        if let named = enrollment {
            enrollment = try await client.enrollment(named, takesParts: !yes)
        }
        let (name, times) = (enrollment, daemon.times)
        func ask(countOnly: Bool) async throws -> RedeliverReport {
            try await client.post(
                "/v1/queue/redeliver",
                RedeliverRequest(enrollment: name, since: since, countOnly: countOnly),
                timeout: Self.timeout)
        }
        let extent = try await ask(countOnly: true)
        guard extent.samples > 0 else {
            return try daemon.show(extent, Self.nothing(extent, times))
        }
        try await Terminal.confirm(Self.question(extent, since: since, times), yes)
        let report = try await ask(countOnly: false)
        try daemon.show(
            report,
            "\(report.samples.counted("sample waits", "samples wait")) for \(report.enrollment) again"
        )
    }

    /// The samples that will be sent, and those that are gone.
    static func question(
        _ extent: RedeliverReport, since: Date, _ times: LocalTimes
    ) -> String {
        let first = extent.first.map { " measured since \(times.sentence($0))" } ?? ""
        var text =
            "\(extent.samples.counted("sample"))\(first) will be sent to \(extent.enrollment) again.\n"
        if let kept = extent.keptSince, kept > since {
            text +=
                "Delivered samples from before \(times.sentence(kept)) are not kept any more!\n"
        }
        return text + "Continue?"
    }

    static func nothing(_ extent: RedeliverReport, _ times: LocalTimes) -> String {
        guard let kept = extent.keptSince else {
            return "no delivered sample of \(extent.enrollment) is kept"
        }
        return
            "nothing was delivered to \(extent.enrollment) since then; delivered samples are kept "
            + "since \(times.sentence(kept))"
    }
}
