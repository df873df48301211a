import ArgumentParser
import Basics
import Foundation

struct QueueAssignCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "assign",
        abstract: "Gives an enrollment to samples that were recorded without one.",
        discussion: """
            Without options it lists such samples: their strap, their time and their patient. With a \
            number of that list, or a strap that has only these, and --enrollment it delivers the \
            samples as data of that enrollment's patient; this cannot be undone. While the strap is \
            paired, `pair` does the same.

            Examples:
              edge-gateway queue assign
              edge-gateway queue assign 3 --enrollment e1
              edge-gateway queue assign "bed 4" --enrollment clinic --patient 40001
            """)

    /// As long as pairing: the exchange may be asked about the patient.
    private static let timeout = Duration.seconds(180)

    @Argument(
        help: ArgumentHelp(
            "The number of the samples as the list shows it, or their strap.", valueName: "samples")
    )
    var which: String?
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
        guard (which == nil) == (enrollment == nil) else {
            throw ValidationError("give a number or a strap with --enrollment, or neither to list")
        }
        guard which != nil || patient == nil && device == nil else {
            throw ValidationError("--patient and --device go with the samples and --enrollment")
        }
    }

    func run() async throws {
        let client = try daemon.client()
        let all: [UnboundReport] = try await client.get("/v1/queue/assignments")
        guard let which, let asked = enrollment else {
            return try daemon.show(all, QueueText.unbound(all, daemon.times))
        }
        let samples = try await client.unbound(which, of: all, takesParts: !yes, daemon.times)
        let enrollment = try await client.enrollment(asked, takesParts: !yes)
        let known: [EnrollmentReport] = try await client.get("/v1/enrollments")
        let whose =
            patient ?? samples.patient ?? known.first { $0.name == enrollment }?.patient
        try await Terminal.confirm(
            Self.question(samples, enrollment, patient: whose, daemon.times), yes)
        let report: AssignReport = try await client.post(
            "/v1/queue/assign",
            AssignRequest(
                assignment: samples.assignment, enrollment: enrollment, patient: patient,
                device: device),
            timeout: Self.timeout)
        if daemon.json { return try Terminal.printJSON(report) }
        Terminal.print(
            "\(report.samples.counted("sample goes", "samples go")) to \(report.enrollment) now")
        for note in report.notes { Terminal.print("  note: \(note)") }
    }

    /// The samples that will be sent, and the patient who gets them.
    static func question(
        _ samples: UnboundReport, _ enrollment: String, patient: String?, _ times: LocalTimes
    ) -> String {
        var text = samples.text(times)
        let whose = patient.map { "as those of the patient \($0)" } ?? "without a patient"
        text += "will be sent through \(enrollment), \(whose).\n"
        if samples.unsure { text += "Nobody knows for certain who wore the strap then.\n" }
        if samples.recording { text += "So will be what this strap sends from now on.\n" }
        return text + "This cannot be undone. Continue?"
    }
}

extension ControlClient {
    /// The samples of that number, or those of the strap that is meant. A number is never a part of a strap's name: the
    /// samples that had it may be gone.
    ///
    /// - Throws: ``CommandFailure`` if there are none, or several.
    func unbound(
        _ text: String, of all: [UnboundReport], takesParts: Bool, _ times: LocalTimes
    ) async throws -> UnboundReport {
        guard !all.isEmpty else {
            throw CommandFailure(
                exitCode: .wrongUsage, message: "no samples are without an enrollment")
        }
        let found: [UnboundReport]
        if let number = Int64(text) {
            found = all.filter { $0.assignment == number }
        } else {
            let strap = try await strap(text, includingForgotten: true, takesParts: takesParts)
            found = all.filter { $0.sensor == strap.id }
        }
        guard !found.isEmpty else {
            throw CommandFailure(
                exitCode: .wrongUsage,
                message: "no samples without an enrollment have this number or strap; there are:\n"
                    + QueueText.unbound(all, times))
        }
        guard found.count == 1 else {
            throw CommandFailure(
                exitCode: .wrongUsage,
                message:
                    "the strap has several such samples, perhaps of several people; name them by "
                    + "number:\n" + QueueText.unbound(found, times))
        }
        return found[0]
    }
}

extension UnboundReport {
    /// How many, of which strap and when: the beginning of a sentence, two lines.
    func text(_ times: LocalTimes) -> String {
        let strap = Printable.line(name.isEmpty ? address : "\(name) (\(address))")
        let of = "\(samples.counted("sample")) of \(strap),\n"
        guard let first, let last else { return of + "whose times are not known yet,\n" }
        return of + "from \(times.sentence(first)) to \(times.sentence(last)),\n"
    }
}
