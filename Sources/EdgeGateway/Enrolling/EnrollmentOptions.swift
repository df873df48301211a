import ArgumentParser

/// Through which enrollment samples are delivered, and for which of its patients.
struct EnrollmentOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "The enrollment to deliver through (default: the only one).", valueName: "name"),
        completion: .enrollmentName)
    var enrollment: String?
    @Option(
        help: ArgumentHelp(
            "The patient's id at the exchange, for an enrollment with several.", valueName: "id"))
    var patient: String?
}
