import ArgumentParser
import Foundation
import OfflineQueue

struct DoctorCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "doctor", abstract: "Checks everything that the gateway needs.",
        discussion: """
            Prints a line each for controllers, bluetoothd, clock, disk, store, network and \
            exchange, and what to do where something is wrong. It works without the daemon. Run it \
            as root: some checks need it. Exits with 1 if anything keeps the gateway from working.

            --report also writes a file by which others can judge this machine from afar: model, \
            kernel, firmware, versions, memory of the daemon, bytes written, the time to the first \
            sample, clock and gaps. It contains no patients, secrets or full addresses of straps, and \
            labels instead of the names and places that people typed. The file has mode 0600 and \
            never replaces an existing one.

            Examples:
              sudo edge-gateway doctor
              sudo edge-gateway doctor --report pi.txt
            """)

    @Option(
        help: ArgumentHelp(
            "Also write a report about this machine to a new file.", valueName: "file"),
        completion: .file())
    var report: String?

    @OptionGroup var daemon: DaemonOptions

    func run() async throws {
        // Refused before the checks, which take a while.
        let file = try await outputFile()
        let found = try await Self.examine(daemon, daemon.json ? .utc : daemon.times)
        if daemon.json {
            try Terminal.printJSON(found)
        } else {
            Self.show(found)
        }
        if let report, let file {
            let text = try await machineReport(found).text(at: Date())
            try file.write(Array(text.utf8))
            try file.finish()
            if !daemon.json { Terminal.print("wrote \(report); read it before you send it") }
        }
        if !found.well { throw ExitCode(CommandExit.notWell.rawValue) }
    }

    private func outputFile() async throws -> OutputFile? {
        guard let report else { return nil }
        try GatewayFiles(settings: daemon.settings()).check(report)
        return try OutputFile(report)
    }

    private func machineReport(_ found: DoctorReport) async throws -> MachineReport {
        let settings = try daemon.settings()
        let told = try await DaemonAnswers.ask(daemon, settings, gapDays: MachineReport.gapDays)
        return MachineReport(
            doctor: found,
            evidence: MachineEvidence(tree: SystemTree(), settings: settings),
            kernelLog: Journal.text(["-k", "-b", "-o", "short-monotonic"]), status: told.status,
            gaps: told.gaps, redactor: told.redactor)
    }

    static func examine(
        _ daemon: DaemonOptions, _ times: LocalTimes = .utc
    ) async throws -> DoctorReport {
        let settings = try daemon.settings()
        let status: StatusReport? = try? await daemon.client().get("/v1/status")
        let tree = SystemTree()
        let machine = MachineChecks(
            tree: tree, settings: settings, clock: SystemClock(settings), times: times)
        let findings =
            await RadioChecks(tree: tree).run() + machine.run()
            + ExchangeChecks(settings: settings, status: status).run()
        return DoctorReport(
            version: GatewayVersion.text, well: findings.allSatisfy { $0.verdict != .fault },
            findings: findings)
    }

    private static func show(_ report: DoctorReport) {
        for finding in report.findings {
            let lines = Self.lines(finding)
            if finding.verdict == .fault {
                Terminal.printAlarm(lines[0])
            } else {
                Terminal.print(lines[0])
            }
            for line in lines.dropFirst() { Terminal.print(line) }
        }
    }

    static func text(_ report: DoctorReport) -> String {
        report.findings.flatMap(lines).joined(separator: "\n")
    }

    /// The findings, and the remedies.
    private static func lines(_ finding: Finding) -> [String] {
        let marks: [Finding.Verdict: String] = [
            .ok: "ok  ", .warning: "warn", .fault: "BAD ", .unknown: "?   ",
        ]
        let text = "\(marks[finding.verdict] ?? "?   ") \(finding.name): \(finding.message)"
        return ([text] + (finding.remedy.isEmpty ? [] : ["       " + finding.remedy]))
            .map(Printable.line)
    }
}
