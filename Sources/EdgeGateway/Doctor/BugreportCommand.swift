import ArgumentParser
import Foundation

/// `bugreport --json`
struct BugreportReport: Codable, Equatable { var file: String }

struct BugreportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "bugreport",
        abstract: "Writes a report that helps maintainers find a fault.",
        discussion: """
            Writes versions, the findings of `doctor`, status, gaps, settings and the daemon's log \
            to one text file of mode 0600. Tokens, links, patients, rates and full addresses of \
            straps are removed. Names of straps, enrollments, destinations and alerts, their places, \
            and gateway.name, site and labels become labels such as strap-1. The report keeps the \
            addresses of exchanges, and the other settings with their paths and hosts. The log may \
            hold names that were changed or removed since, and all names while the daemon does not \
            answer: read the file before you send it.

            Example: sudo edge-gateway bugreport --output report.txt
            """)

    /// The log's last lines: some days of a gateway that is well, some hours of one that is not.
    private static let logLines = 2_000
    /// How far back gaps are listed, days.
    private static let gapDays = 7

    @Option(
        help: ArgumentHelp(
            "The file to write (default: edge-gateway-bugreport-DATE.txt in this directory).",
            valueName: "file"),
        completion: .file())
    var output: String?
    @OptionGroup var daemon: DaemonOptions

    func run() async throws {
        let doctor = try await DoctorCommand.examine(daemon)
        let settings = try daemon.settings()
        let told = try await DaemonAnswers.ask(daemon, settings, gapDays: Self.gapDays)
        var text = "edge-gateway \(GatewayVersion.text), \(Terminal.time(Date())) UTC\n"
        func add(_ title: String, _ body: String) { text += "\n== \(title)\n\(body)\n" }
        let evidence = MachineEvidence(tree: SystemTree(), settings: settings)
        add("machine", (evidence.machine() + evidence.packageVersions()).joined(separator: "\n"))
        add("doctor", DoctorCommand.text(doctor))
        add(
            "settings",
            settings.listing.filter { !$0.key.name.hasPrefix("gateway.") }
                .map { "\($0.key.name): \($0.value)" }.joined(separator: "\n"))
        add("status", Self.json(told.status?.withoutPeople, told.redactor))
        add("gaps", Self.json(told.gaps, told.redactor))
        if told.status == nil {
            add(
                "note",
                "the daemon did not answer: the log may still contain names and places that people typed"
            )
        }
        let log = ["-u", "edge-gateway", "-n", "\(Self.logLines)", "-o", "short-iso"]
        add("log", Journal.text(log))
        let path =
            output ?? "edge-gateway-bugreport-\(Terminal.time(Date()).prefix(10)).txt"
        try GatewayFiles(settings: settings).check(path)
        let file = try OutputFile(path)
        try file.write(Array(told.redactor.redact(text).utf8))
        try file.finish()
        try daemon.show(BugreportReport(file: path), "wrote \(path); read it before you send it")
    }

    /// A report with labels for names, before JSON escapes hide them.
    static func json(_ report: (some Encodable)?, _ redactor: Redactor) -> String {
        guard let report, let data = try? ReportCoding.encoder().encode(report),
            let shown = Printable.strings(
                inJSON: data, options: [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes],
                redactor.hideNames)
        else { return "the daemon does not answer" }
        return String(decoding: shown, as: UTF8.self)
    }
}

extension StatusReport {
    /// The state without personal data: patients, and what hearts do at this moment.
    var withoutPeople: StatusReport {
        var report = self
        report.gateway = GatewayIdentity(name: "<gateway>")
        for index in report.sensors.indices {
            report.sensors[index].bpm = nil
            if report.sensors[index].patient != nil { report.sensors[index].patient = "<patient>" }
        }
        for index in report.enrollments.indices where report.enrollments[index].patient != nil {
            report.enrollments[index].patient = "<patient>"
        }
        return report
    }
}
