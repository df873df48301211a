import ArgumentParser
import Foundation
import OfflineQueue

struct DoctorCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "doctor", abstract: "Looks at everything the gateway needs, a line each.",
        discussion: """
            Controllers, bluetoothd, clock, disk, store, network and exchange; works without the \
            daemon. Some things only root can see. Exits with 0 if nothing keeps the gateway from \
            its work.

            Example: sudo edge-gateway doctor
            """)

    @OptionGroup var daemon: DaemonOptions

    func run() async throws {
        let report = try await Self.examine(daemon)
        if daemon.json {
            try Terminal.printJSON(report)
        } else {
            print(Self.text(report))
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

    static func text(_ report: DoctorReport) -> String {
        let marks: [Finding.Verdict: String] = [
            .ok: "ok  ", .warning: "warn", .fault: "BAD ", .unknown: "?   ",
        ]
        return report.findings.map { finding in
            let text = "\(marks[finding.verdict] ?? "?   ") \(finding.name): \(finding.message)"
            let line = finding.verdict == .fault ? Terminal.alarm(text) : text
            return finding.remedy.isEmpty ? line : line + "\n       " + finding.remedy
        }.joined(separator: "\n")
    }
}
