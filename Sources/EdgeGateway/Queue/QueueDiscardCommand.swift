import ArgumentParser
import Basics

struct QueueDiscardCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "discard",
        abstract: "Gives up samples that were recorded without an enrollment.",
        discussion: """
            Use it for a strap that somebody only tried. `queue assign` lists such samples with \
            their numbers. The gateway never delivers them; the books count them as dropped, for the \
            reason "discarded". This cannot be undone: to keep a copy, run `queue export` before. \
            Samples with an enrollment are not touched.

            Example: edge-gateway queue discard 3
            """)

    /// Millions of samples are counted one by one.
    private static let timeout = Duration.seconds(600)

    @Argument(
        help: ArgumentHelp(
            "The number of the samples as `queue assign` shows it, or their strap.",
            valueName: "samples"))
    var which: String
    @Flag(help: "Do not ask for confirmation.")
    var yes = false
    @OptionGroup var daemon: DaemonOptions

    func run() async throws {
        let client = try daemon.client()
        let all: [UnboundReport] = try await client.get("/v1/queue/assignments")
        let samples = try await client.unbound(which, of: all, takesParts: !yes, daemon.times)
        try await Terminal.confirm(Self.question(samples, daemon.times), yes)
        let report: SampleCountReport = try await client.post(
            "/v1/queue/discard", DiscardRequest(assignment: samples.assignment),
            timeout: Self.timeout)
        try daemon.show(
            report,
            "gave up \(report.samples.counted("sample")), counted as dropped (discarded)")
    }

    /// The samples that will be lost.
    static func question(_ samples: UnboundReport, _ times: LocalTimes) -> String {
        var text = samples.text(times) + "will be delivered to no enrollment.\n"
        if samples.recording {
            text += "This strap still records: what it sends from now on is held again.\n"
        }
        return text + "This cannot be undone. Continue?"
    }
}
