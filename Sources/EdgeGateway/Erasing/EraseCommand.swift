import Basics
import ArgumentParser
import Foundation

struct EraseCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "erase", abstract: "Erases a patient from this gateway.",
        discussion: """
            Deletes everything that was recorded for the patient; an enrollment of one patient is \
            deleted with its tokens. First `forget` the straps. Delivered samples stay at their \
            destinations: the operators there erase them.

            Examples:
              edge-gateway erase e1
              edge-gateway erase clinic --patient 40001
            """)

    /// A store of 2 GiB takes some minutes.
    private static let timeout = Duration.seconds(1_800)

    @Argument(help: "The enrollment's name.", completion: .enrollmentName)
    var enrollment: String
    @Option(
        help: ArgumentHelp(
            "Only the patient with this id at the exchange, for an enrollment with several.",
            valueName: "id"))
    var patient: String?
    @Flag(help: "Give up samples that are not delivered yet.")
    var undelivered = false
    @Flag(help: "Do not ask for confirmation.")
    var yes = false
    @OptionGroup var daemon: DaemonOptions

    func run() async throws {
        let client = try daemon.client()
        let enrollment = try await client.enrollment(enrollment, takesParts: !yes)
        let whose = patient == nil ? "everything of" : "this patient of"
        try await Terminal.confirm("Erase \(whose) \(enrollment) from this gateway, for good?", yes)
        let report: EraseReport = try await ProgressLine.during("erasing") {
            try await client.post(
                "/v1/erase",
                EraseRequest(enrollment: enrollment, patient: patient, undelivered: undelivered),
                timeout: Self.timeout)
        }
        try daemon.show(report, Self.text(report))
    }

    static func text(_ report: EraseReport) -> String {
        let lost = [(report.unsent, ""), (report.furtherUnsent, " to further destinations")]
            .filter { $0.0 > 0 }.map { "\($0.0) not delivered\($0.1)" }
        let unsent = lost.isEmpty ? "" : " (\(lost.joined(separator: ", ")))"
        let counts =
            "\(report.samples.counted("sample"))\(unsent), \(report.undecodable.counted("undecodable frame"))"
        let tokens = report.enrollmentErased ? "; the enrollment and its tokens are gone" : ""
        var lines = ["erased from \(report.enrollment): \(counts)\(tokens)"]
        if !report.logEmptied {
            lines.append(
                "! another program reads the store, whose log still holds some of it: "
                    + "end that program, then sudo systemctl restart edge-gateway")
        }
        lines += report.left.map { "! may still hold some of it: \(Printable.line($0))" }
        return lines.joined(separator: "\n")
    }
}
