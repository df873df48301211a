import Basics
import Foundation

/// The text that `doctor --report` writes: what somebody has to know who was not there.
struct MachineReport {
    /// How far back gaps are listed, days.
    static let gapDays = 7

    let doctor: DoctorReport
    let evidence: MachineEvidence
    let kernelLog: String
    /// The daemon's status; nil if it does not answer.
    let status: StatusReport?
    let gaps: GapsReport?
    let redactor: Redactor

    /// The report, without names, addresses, patients and secrets.
    func text(at date: Date) -> String {
        var text = "edge-gateway \(doctor.version), \(Terminal.time(date)) UTC\n"
        func add(_ title: String, _ lines: [String]) {
            text += "\n== \(title)\n" + lines.joined(separator: "\n") + "\n"
        }
        add("machine", evidence.machine())
        add("packages", evidence.packageVersions())
        add("doctor", [DoctorCommand.text(doctor)])
        add("Bluetooth in the kernel's log", MachineEvidence.radioLines(inKernelLog: kernelLog))
        add("daemon", evidence.daemon(uptime: status?.uptimeSeconds))
        add("store", evidence.store() + balance())
        add("clock", evidence.clock())
        add("health", health())
        add("gaps of the last \(Self.gapDays) days", coverage())
        return redactor.redact(text)
    }

    private func balance() -> [String] {
        guard let balance = status?.balance else { return [] }
        return [
            "samples: \(balance.stored) stored, \(balance.delivered) delivered, "
                + "\(balance.pending) waiting; the books "
                + (balance.balanced ? "balance" : "do not balance")
        ]
    }

    private func health() -> [String] {
        guard let status else { return ["the daemon does not answer"] }
        if status.health.isEmpty { return ["all is well"] }
        return status.health.map {
            "\($0.severity) \($0.name) since \(Terminal.time($0.since)): \($0.message)"
        }
    }

    /// A line a strap and day. Straps have numbers here, no names.
    private func coverage() -> [String] {
        guard let gaps else { return ["the daemon does not answer"] }
        if gaps.coverage.isEmpty { return ["nothing was to be recorded"] }
        return gaps.coverage.map { day in
            let causes = day.secondsByCause.sorted { ($1.value, $0.key) < ($0.value, $1.key) }
                .map { "\($0.key) \(Int(bounding: $0.value)) s" }
            let share = day.percent.map { String(format: "%.2f %%", $0) } ?? "nothing to record"
            let date = Terminal.time(day.day).prefix(10)
            return "strap-\(day.sensor) \(date): \(share), "
                + "longest gap \(Int(bounding: day.longestGapSeconds)) s"
                + (causes.isEmpty ? "" : "; " + causes.joined(separator: ", "))
        }
    }
}
