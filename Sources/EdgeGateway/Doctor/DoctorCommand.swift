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

            Example: sudo edge-gateway doctor
            """)

    @OptionGroup var daemon: DaemonOptions

    func run() async throws {
        let report = try await Self.examine(daemon)
        if daemon.json {
            try Terminal.printJSON(report)
        } else {
            Self.show(report)
        }
        if !report.well { throw ExitCode(CommandExit.notWell.rawValue) }
    }

    static func examine(_ daemon: DaemonOptions) async throws -> DoctorReport {
        let settings = try await daemon.settings()
        let status: StatusReport? = try? await daemon.client().get("/v1/status")
        let tree = SystemTree()
        let machine = MachineChecks(
            tree: tree, settings: settings, reading: SystemClock(trust: settings.clockTrust).read())
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

    /// What was found, and what to do if something is.
    private static func lines(_ finding: Finding) -> [String] {
        let marks: [Finding.Verdict: String] = [
            .ok: "ok  ", .warning: "warn", .fault: "BAD ", .unknown: "?   ",
        ]
        let text = "\(marks[finding.verdict] ?? "?   ") \(finding.name): \(finding.message)"
        return ([text] + (finding.remedy.isEmpty ? [] : ["       " + finding.remedy]))
            .map(Printable.line)
    }
}
