import ArgumentParser
import Basics
import Foundation

struct QueueAssignCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "assign",
        abstract: "Gives samples that were recorded without an enrollment to one.",
        discussion: """
            Without options it lists such samples: by which strap, from when to when. With a number of \
            that list and --enrollment they are delivered as those of its patient; this cannot be \
            undone. While the strap is paired, `pair` does the same.

            Examples:
              edge-gateway queue assign
              edge-gateway queue assign 3 --enrollment e1
              edge-gateway queue assign 3 --enrollment clinic --patient 40001
            """)

    /// As long as pairing: the exchange may be asked about the patient.
    private static let timeout = Duration.seconds(180)

    @Argument(help: "The number of the samples, as the list shows it.")
    var number: Int64?
    @Option(
        help: ArgumentHelp("The enrollment to deliver through.", valueName: "name"),
        completion: .enrollmentName)
    var enrollment: String?
    @Option(
        help: ArgumentHelp(
            "The patient's id at the exchange, for an enrollment with several.", valueName: "id"))
    var patient: String?
    @Option(
        help: ArgumentHelp(
            "The device's id at the exchange, if several fit this patient.", valueName: "id"))
    var device: String?
    @Flag(help: "Do not ask for confirmation.")
    var yes = false
    @OptionGroup var daemon: DaemonOptions

    func validate() throws {
        guard (number == nil) == (enrollment == nil) else {
            throw ValidationError("give a number with --enrollment, or neither to list")
        }
        guard number != nil || patient == nil && device == nil else {
            throw ValidationError("--patient and --device go with a number and --enrollment")
        }
    }

    func run() async throws {
        let client = try daemon.client()
        let all: [UnboundReport] = try await client.get("/v1/queue/assignments")
        guard let number, let enrollment else {
            if daemon.json { return try Terminal.printJSON(all) }
            return Terminal.print(QueueText.unbound(all))
        }
        let samples = try all.numbered(number)
        let known: [EnrollmentReport] = try await client.get("/v1/enrollments")
        let whose =
            patient ?? samples.patient ?? known.first { $0.name == enrollment }?.patient
        try Terminal.confirm(Self.question(samples, enrollment, patient: whose), yes)
        let report: AssignReport = try await client.post(
            "/v1/queue/assign",
            AssignRequest(
                assignment: number, enrollment: enrollment, patient: patient, device: device),
            timeout: Self.timeout)
        if daemon.json { return try Terminal.printJSON(report) }
        Terminal.print(
            "\(report.samples.counted("sample goes", "samples go")) to \(report.enrollment) now")
        for note in report.notes { Terminal.print("  note: \(note)") }
    }

    /// What will be sent to whom.
    static func question(
        _ samples: UnboundReport, _ enrollment: String, patient: String?
    ) -> String {
        var text = samples.text
        let whose = patient.map { "as those of the patient \($0)" } ?? "without a patient"
        text += "will be sent through \(enrollment), \(whose).\n"
        if samples.recording { text += "So will be what this strap sends from now on.\n" }
        return text + "This cannot be undone. Continue?"
    }
}

extension [UnboundReport] {
    /// - Throws: ``CommandFailure`` if none has this number.
    func numbered(_ number: Int64) throws -> UnboundReport {
        guard let samples = first(where: { $0.assignment == number }) else {
            throw CommandFailure(
                exitCode: .wrongUsage,
                message: "no samples without an enrollment have the number \(number)\n"
                    + "  edge-gateway queue assign lists them")
        }
        return samples
    }
}

extension UnboundReport {
    /// How many, of which strap and when: the beginning of a sentence, two lines.
    var text: String {
        let strap = Printable.line(name.isEmpty ? address : "\(name) (\(address))")
        let of = "\(samples.counted("sample")) of \(strap),\n"
        guard let first, let last else { return of + "whose times are not known yet,\n" }
        return of + "from \(Terminal.time(first)) to \(Terminal.time(last)) UTC,\n"
    }
}
