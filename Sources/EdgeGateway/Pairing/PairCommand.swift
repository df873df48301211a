import ArgumentParser
import Basics
import Glibc

struct PairCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pair", abstract: "Starts to record a strap for one patient.",
        discussion: """
            Connects, checks that the strap has the Heart Rate Service, reads its device \
            information and waits for the first heartbeat. It bonds with a strap that requires it, \
            and asks for the six-digit code if the strap shows one. Without an enrollment the \
            samples are held; enroll, then pair the strap again to assign it.

            A whole address or the whole name of a paired strap is taken as it is; for anything else \
            the gateway first listens for the straps nearby.

            Examples:
              edge-gateway pair C0:00:00:00:00:01 --name "bed 4"
              edge-gateway pair "bed 4" --passkey 123456
              edge-gateway pair C0:00:00:00:00:01 --enrollment clinic --patient 40001
              edge-gateway pair C0:00:00:00:00:01 --destination influx
            """)

    @Argument(
        help: "The strap's name or address as `scan` shows it, or a part of either.",
        completion: .strap)
    var strap: String
    @OptionGroup var delivery: EnrollmentOptions
    @Option(
        help: ArgumentHelp(
            "Another destination to deliver to; may be repeated.", valueName: "name"),
        completion: .destinationName)
    var destination: [String] = []
    @Option(
        help: ArgumentHelp(
            "The device's id at the exchange, if several fit this patient.", valueName: "id"))
    var device: String?
    @Option(help: "A name to show for this strap.")
    var name: String?
    @Option(help: ArgumentHelp("The six-digit code that the strap shows.", valueName: "code"))
    var passkey: String?
    @OptionGroup var daemon: DaemonOptions

    func validate() throws {
        // Of a code with fewer digits nobody knows where the others belong.
        if let passkey, passkey.wholeMatch(of: #/[0-9]{6}/#) == nil {
            throw ValidationError(
                "--passkey takes the six digits that the strap shows, such as 004213")
        }
    }

    func run() async throws {
        let client = try daemon.client()
        let address = try await chosenAddress(client)
        let isAttended = passkey == nil && isatty(STDIN_FILENO) == 1
        var enrollment = delivery.enrollment
        // Samples that went to the wrong patient cannot be taken back, and the command does not ask.
        if let named = enrollment {
            enrollment = try await client.enrollment(named, takesParts: false)
        }
        var destinations: [String] = []
        for named in destination {
            destinations.append(try await client.destination(named, takesParts: false).name)
        }
        let request = PairRequest(
            address: address, enrollment: enrollment, patient: delivery.patient,
            destinations: destinations.isEmpty ? nil : destinations, device: device,
            name: name, passkey: passkey.flatMap { Int($0) }, attended: isAttended)
        let report = try await AttendedPairing(client: client, isAttended: isAttended).run(request)
        if daemon.json { return try Terminal.printJSON(report) }
        Self.show(report)
    }

    /// The address of the strap that is meant. What is not named whole might be several that are near.
    private func chosenAddress(_ client: ControlClient) async throws -> String {
        if let whole = try? SensorAddress.checked(strap) { return whole }
        let known = try await client.namedStraps()
        if let one = try? Choosing.strap.choose(strap, among: known, takesParts: false) {
            return one.address
        }
        let heard = try await StrapsNearby.heard(client)
        return try Self.address(strap, known.flatMap(\.self).map(\.thing), heard)
    }

    /// The address of the strap that is meant, of those that are paired and those that are heard.
    static func address(
        _ text: String, _ known: [SensorReport], _ heard: [SightingReport]
    ) throws(CommandFailure) -> String {
        let addresses = Set(known.map(\.address))
        let straps =
            known.map { Named(thing: $0.address, name: $0.name, address: $0.address) }
            + heard.filter { !addresses.contains($0.address) }.map {
                Named(thing: $0.address, name: $0.name, address: $0.address)
            }
        return try Choosing.strapNearby.choose(text, among: [straps])
    }

    static func show(_ report: PairReport) {
        var facts = [report.manufacturer, report.model, report.firmware.map { "firmware \($0)" }]
            .compactMap { $0 }.joined(separator: " ")
        if let location = report.bodyLocation {
            facts += (facts.isEmpty ? "" : ", ") + "worn on: \(location)"
        }
        Terminal.print("paired \(report.sensor.address) \(Printable.line(report.sensor.name))")
        if !facts.isEmpty { Terminal.print("  \(Printable.line(facts))") }
        if let battery = report.sensor.batteryPercent { Terminal.print("  battery \(battery) %") }
        if let bpm = report.firstBpm { Terminal.print("  first heartbeat: \(bpm) bpm") }
        let destination = report.sensor.destination.map { "delivers through \(Printable.line($0))" }
        Terminal.print(
            "  \(destination ?? "samples are held: not enrolled yet (edge-gateway enroll LINK)")")
        for note in report.notes { Terminal.print("  note: \(note)") }
    }
}
