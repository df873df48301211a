import Basics
import ArgumentParser
import Foundation
import Glibc
import OfflineQueue

struct QueueImportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import", abstract: "Imports the waiting samples of another gateway.",
        discussion: """
            Write the file there with `queue export`. Samples keep their identifiers: importing a \
            file twice, or delivering from both gateways, stores nothing twice. Samples that wait for \
            further destinations go to those of the same names here.

            Examples:
              edge-gateway queue import ward-3.ndjson --enrollment e1
              edge-gateway queue import ward-3.ndjson --without influx
            """)

    /// Ten million samples on a slow card.
    private static let timeout = Duration.seconds(7_200)
    private static let partTimeout = Duration.seconds(120)
    /// A screenful; `--json` has a thousand.
    private static let unsureShownMax = 20
    private static let progressPause = Duration.milliseconds(500)

    @Argument(help: "The file that `queue export` wrote.", completion: .file())
    var file: String
    @OptionGroup var delivery: EnrollmentOptions
    @Option(
        help: ArgumentHelp(
            "Only the assignment with this number in the file; may be repeated.",
            valueName: "number"))
    var assignment: [Int64] = []
    @Option(
        help: ArgumentHelp(
            "Leave out the samples that wait for this further destination; may be repeated.",
            valueName: "name"))
    var without: [String] = []
    @OptionGroup var daemon: DaemonOptions

    func run() async throws {
        let client = try daemon.client()
        var enrollment = delivery.enrollment
        if let named = enrollment {
            enrollment = try await client.enrollment(named, takesParts: false)
        }
        let upload = try await send(client)
        let watcher = Task { await Self.watch(client) }
        defer { watcher.cancel() }
        let report: ImportReport = try await client.post(
            "/v1/queue/import",
            ImportRequest(
                upload: upload, enrollment: enrollment, patient: delivery.patient,
                assignments: assignment.isEmpty ? nil : assignment,
                without: without.isEmpty ? nil : without),
            timeout: Self.timeout)
        try daemon.show(report, Self.text(report, daemon.times))
    }

    /// Sends the file in parts; gives the name of the upload.
    private func send(_ client: ControlClient) async throws -> String {
        let descriptor = open(file, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw unreadable() }
        defer { close(descriptor) }
        let size = Double(max(lseek(descriptor, 0, SEEK_END), 1))
        lseek(descriptor, 0, SEEK_SET)
        let line = ProgressLine("sending")
        var buffer = [UInt8](repeating: 0, count: ImportSession.partBytesMax)
        var sent: ImportPartReport?
        while true {
            let count = read(descriptor, &buffer, buffer.count)
            guard count >= 0 else { throw unreadable() }
            if count == 0, let sent { return sent.upload }
            var path = "/v1/queue/import/part?offset=\(sent?.bytes ?? 0)"
            if let sent { path += "&upload=\(sent.upload)" }
            let report: ImportPartReport = try await client.post(
                path, bytes: Array(buffer[..<count]), timeout: Self.partTimeout)
            sent = report
            line.show(Double(report.bytes) / size)
        }
    }

    /// Shows how far the daemon is.
    private static func watch(_ client: ControlClient) async {
        guard isatty(STDERR_FILENO) == 1 else { return }
        let line = ProgressLine("importing")
        while !Task.isCancelled {
            await UptimeClock.system.sleep(progressPause)
            guard !Task.isCancelled,
                let progress: ImportProgressReport = try? await client.get("/v1/queue/import"),
                let total = progress.of, total > 0
            else { continue }
            line.show(Double(progress.samples) / Double(total))
        }
    }

    private func unreadable() -> CommandFailure {
        CommandFailure(
            exitCode: .wrongUsage,
            message: "read \(file): \(GivenPath.whyUnreadable(file))")
    }

    static func text(_ report: ImportReport, _ times: LocalTimes) -> String {
        var lines = [
            "added \(report.added.counted("sample, which waits for delivery", "samples, which wait for delivery"))"
        ]
        if report.known > 0 { lines.append("\(report.known) were here before") }
        if report.unsure > 0 {
            lines += unsure(report, times)
        }
        if report.settled > 0 {
            lines.append(
                "\(report.settled) were delivered, dropped or dead at the other gateway, or left out"
            )
        }
        if report.notSelected > 0 {
            lines.append("\(report.notSelected) belong to assignments that were not selected")
        }
        return lines.joined(separator: "\n")
    }

    private static func unsure(_ report: ImportReport, _ times: LocalTimes) -> [String] {
        let first =
            "\(report.unsure) were not taken, since they might be delivered twice, or another in their "
            + "place (docs/operate/operations.md):"
        let shown = report.unsureSamples.prefix(unsureShownMax)
        let rest = report.unsure - shown.reduce(0) { $0 + $1.samples }
        return [first]
            + shown.map { unsure in
                var text =
                    "  line \(unsure.line): \(unsure.samples) of \(Printable.line(unsure.address)), "
                if let first = unsure.first, let last = unsure.last {
                    text += "\(times.sentence(first)) to \(times.sentence(last))"
                } else {
                    text += "times unknown"
                }
                return text + ": " + reason(unsure.reason)
            } + (rest > 0 ? ["  and \(rest) more, the first of them in --json"] : [])
    }

    private static func reason(_ word: String) -> String {
        switch UnsureSamples.Reason(rawValue: word) {
        case .lost: "lost here, perhaps after their delivery"
        case .numberTaken: "another sample, which differs, has their number here"
        case .runGoesOn: "their run is not over: restart the gateway, then import again"
        case nil: Printable.line(word)
        }
    }
}
