import Basics
import ArgumentParser
import Foundation
import Uplink

struct EnrollCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "enroll",
        abstract: "Authorizes delivery to an exchange: by an invitation or a practitioner's key.",
        discussion: """
            An invitation link or a key is a credential: anyone who has it can upload as this \
            patient. Give `-` to be asked for the link, which is not shown then, or to read it from \
            standard input: so it stays out of the shell's history. A practitioner's key serves \
            several patients: `pair --patient` names the patient.

            Examples:
              edge-gateway enroll - < link.txt
              edge-gateway enroll --picture invitation.png
              edge-gateway enroll --web
              edge-gateway enroll --practitioner-key-file key.json --name clinic
              edge-gateway enroll LINK --moved e1
            """)

    @Argument(help: "The invitation link, or - to be asked for it.")
    var link: String?
    @Option(help: "File that holds the invitation link.", completion: .file())
    var file: String?
    @Option(
        help: ArgumentHelp(
            "Picture of the invitation's QR code (needs zbarimg).", valueName: "file"),
        completion: .file())
    var picture: String?
    @Option(
        help: ArgumentHelp("File that holds a practitioner's API key.", valueName: "file"),
        completion: .file())
    var practitionerKeyFile: String?
    @Flag(help: "Let a phone send the link, through a page that works once.")
    var web = false
    @Option(
        help: ArgumentHelp(
            "The exchange's address, for a key, or for an old link without it.", valueName: "url"))
    var exchange: String?
    @Option(
        help: ArgumentHelp(
            "For links of exchanges before v0.0.9: the OAuth client's id.", valueName: "id"))
    var clientID: String?
    @Option(
        help: ArgumentHelp(
            "For links of exchanges before v0.0.9: the client's code verifier.",
            valueName: "text"))
    var verifier: String?
    @Option(help: "The name of this enrollment (default: e1, then e2 and so on).")
    var name: String?
    @Option(
        help: ArgumentHelp("The device's id at the exchange, if several fit.", valueName: "id"))
    var device: String?
    @Option(help: ArgumentHelp(Self.resolutionHelp))
    var resolution: String?
    @Option(
        help: ArgumentHelp(
            "same or other: the patient's number belongs to the same person as before, or to another.",
            valueName: "who"))
    var person: NamedPerson?
    @Option(
        help: ArgumentHelp(
            "The enrollment whose exchange has moved: its waiting samples go to the new address.",
            valueName: "name"),
        completion: .enrollmentName)
    var moved: String?
    @Flag(help: "With --moved: do not ask for confirmation.")
    var yes = false
    @OptionGroup var daemon: DaemonOptions

    static let resolutionHelp =
        "raw: a data point per frame; 10s or 60s: averages (default: raw)."

    func validate() throws {
        let sources = [link, file, picture, practitionerKeyFile].compactMap { $0 }
        guard sources.count + (web ? 1 : 0) == 1 else {
            throw ValidationError(
                "give one of LINK, --file, --picture, --web and --practitioner-key-file")
        }
        guard !web || person == nil && moved == nil else {
            throw ValidationError("--web takes neither --person nor --moved")
        }
        guard moved != nil || !yes else { throw ValidationError("--yes goes with --moved") }
    }

    func run() async throws {
        let report =
            web
            ? try await WebEnrollment(daemon: daemon).run(name: name, resolution: resolution)
            : try await enroll(try await request())
        if daemon.json { return try Terminal.printJSON(report) }
        Terminal.print("enrolled as \(report.name) at \(report.exchange)")
        if let held = report.held {
            Terminal.print("  held: \(held)")
            if let reason = HoldReason(rawValue: held) {
                Terminal.print("    \(reason.meaning)\n    do: \(reason.remedy)")
            }
        } else if report.kind == "practitioner-key" {
            Terminal.print(
                "  next: edge-gateway pair STRAP --enrollment \(report.name.shellWord) --patient ID"
            )
        } else {
            let device = report.device.map { " as device \($0)" } ?? ""
            Terminal.print("  delivers \(report.code)\(device); next: edge-gateway scan")
        }
        // The enrollment is stored, even if the others cannot be listed.
        let all: [EnrollmentReport] = (try? await daemon.client().get("/v1/enrollments")) ?? []
        for line in Self.waitingElsewhere(all, beside: report) { Terminal.print(line) }
    }

    /// Enrollments of the same patient's number at other exchanges, for which samples wait: one may have moved.
    static func waitingElsewhere(
        _ all: [EnrollmentReport], beside new: EnrollmentReport
    ) -> [String] {
        // Never advise erasing an enrollment that has data.
        guard new.delivered == 0, new.pending == 0, new.dead == 0 else { return [] }
        return all.filter {
            $0.kind == "invitation" && $0.kind == new.kind && $0.patient == new.patient
                && $0.exchange != new.exchange && $0.pending > 0
        }.map {
            "  note: \($0.pending.counted("sample waits", "samples wait")) for \($0.name), the same patient's "
                + "number at \($0.exchange); if that exchange is now here: edge-gateway erase "
                + "\(new.name.shellWord), then edge-gateway enroll LINK --moved \($0.name.shellWord)"
        }
    }

    private func enroll(_ request: EnrollRequest) async throws -> EnrollmentReport {
        let client = try daemon.client()
        var request = request
        if let named = moved {
            let moved = try await client.enrollment(named, takesParts: !yes)
            request.moved = moved
            try await Terminal.confirm(
                "Samples that wait for \(moved) will be sent to the exchange of the new link or key. "
                    + "Is that the same exchange at a new address?", yes)
        }
        return try await ProgressLine.during("asking the exchange") {
            [request] in
            try await client.post("/v1/enroll", request, timeout: .seconds(300))
        }
    }

    private func request() async throws -> EnrollRequest {
        var request = EnrollRequest(
            exchange: exchange, clientID: clientID, verifier: verifier, name: name,
            device: device, resolution: resolution, person: person?.rawValue, moved: moved)
        if let practitionerKeyFile {
            let key = try CredentialSource.practitionerKey(inFile: practitionerKeyFile)
            request.practitionerKey = key.key.revealed
            request.exchange = exchange ?? key.exchange
        } else if let picture {
            request.link = try CredentialSource.link(inPicture: picture)
        } else if let file {
            request.link = try CredentialSource.text(ofFile: file, bytesMax: 4096)
        } else if let link {
            request.link = link == "-" ? try await CredentialSource.typedLink() : link
        }
        return request
    }
}

extension NamedPerson: ExpressibleByArgument {}

struct EnrollmentsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "enrollments",
        abstract: "Lists the enrollments and the state of their deliveries.",
        discussion: "Example: edge-gateway enrollments --json")

    @OptionGroup var daemon: DaemonOptions

    func run() async throws {
        let enrollments: [EnrollmentReport] = try await daemon.client().get("/v1/enrollments")
        if daemon.json { return try Terminal.printJSON(enrollments) }
        if enrollments.isEmpty {
            return Terminal.print("no enrollments yet: edge-gateway enroll LINK")
        }
        Terminal.print(Self.table(enrollments))
        for line in enrollments.flatMap(Self.notes) { Terminal.print(line) }
    }

    /// The facts that the table has no column for.
    static func notes(_ enrollment: EnrollmentReport) -> [String] {
        let name = enrollment.name
        var lines: [String] = []
        if let fault = enrollment.fault { lines.append("\(name): \(fault)") }
        if let fault = enrollment.partialFault { lines.append("\(name): \(fault)") }
        return lines + refusals(enrollment)
    }

    /// The data points that the exchange refused while it took other data points of the same frames.
    static func refusals(_ enrollment: EnrollmentReport) -> [String] {
        let name = enrollment.name
        var lines: [String] = []
        for (kind, count) in (enrollment.dataPoints ?? [:]).sorted(by: { $0.key < $1.key })
        where !count.refused.isEmpty {
            let refused = count.refused.sorted { $0.key < $1.key }
                .map { "\($0.value) \($0.key)" }.joined(separator: ", ")
            lines.append(
                "\(name): \(kind): \(count.delivered) delivered since the start, refused: \(refused)"
            )
        }
        return lines
    }

    static func table(
        _ enrollments: [EnrollmentReport], columns: Int? = Terminal.columns
    ) -> String {
        Terminal.table(
            ["NAME", "STATE", "DELIVERED", "UNSENT", "DEAD", "LAST", "EXCHANGE"],
            enrollments.map {
                [
                    $0.name, state($0), String($0.delivered), String($0.pending),
                    String($0.dead),
                    $0.lastDelivery.map { Terminal.age(since: $0) } ?? "-",
                    $0.exchange,
                ]
            }, free: ["NAME", "EXCHANGE"], columns: columns)
    }

    private static func state(_ enrollment: EnrollmentReport) -> String {
        let patients = (enrollment.heldPatients ?? [:]).values.reduce(0, +)
        let word = enrollment.stateInAWord
        return patients > 0 && word == enrollment.state ? "\(patients) held" : word
    }
}
