import ArgumentParser

struct ConfirmCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "confirm",
        abstract: "Confirms a change that the gateway cannot judge by itself.",
        discussion: "Example: edge-gateway confirm patient e1",
        subcommands: [ConfirmPatientCommand.self, ConfirmBoardCommand.self])
}

struct ConfirmPatientCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "patient",
        abstract: "Confirms that the exchange's patient is the person who was enrolled.",
        discussion: """
            Use it for samples that are held as patient-changed: the account behind the patient's \
            number has another id or birth date than before. The gateway then delivers the waiting \
            samples to that account. Ask the study's staff first: an exchange that was restored or \
            set up anew may have given the number to somebody else. Then enroll that person with \
            `enroll LINK --person other`, or the practitioner's key once more with another --name; \
            the samples of the first person can be exported or erased.

            Examples:
              edge-gateway confirm patient e1
              edge-gateway confirm patient ward --patient 40001
            """)

    @Argument(help: "The enrollment's name.", completion: .enrollmentName)
    var enrollment: String
    @Option(help: "The exchange's number of one of a practitioner's patients.")
    var patient: String?
    @Flag(help: "Do not ask for confirmation.")
    var yes = false
    @OptionGroup var daemon: DaemonOptions

    func run() async throws {
        let client = try daemon.client()
        let enrollment = try await client.enrollment(enrollment, takesParts: !yes)
        try await Terminal.confirm(
            "Deliver the waiting samples of \(enrollment) to the person who has the patient's number "
                + "now?",
            yes)
        let report: EnrollmentReport = try await client.post(
            "/v1/confirm-patient", ConfirmPatientRequest(enrollment: enrollment, patient: patient),
            timeout: .seconds(120))
        try daemon.show(
            report,
            "\(report.name): the patient is confirmed; its samples are delivered within a minute")
    }
}

struct ConfirmBoardCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "board",
        abstract: "Confirms that this machine is the gateway now.",
        discussion: """
            Use it for the health item board-changed: the store was on other hardware before. If the \
            memory card was copied and the first gateway still runs, first give this one another \
            name at each broker. The gateway then publishes to brokers again.

            Example: edge-gateway confirm board
            """)

    @Flag(help: "Do not ask for confirmation.")
    var yes = false
    @OptionGroup var daemon: DaemonOptions

    func run() async throws {
        let client = try daemon.client()
        try await Terminal.confirm("Publish under this gateway's name from this machine?", yes)
        let report: BoardReport = try await client.post(
            "/v1/confirm-board", [String: String](), timeout: .seconds(30))
        try daemon.show(
            report,
            report.changed ? "the board is confirmed" : "the board is the one that it was")
    }
}
