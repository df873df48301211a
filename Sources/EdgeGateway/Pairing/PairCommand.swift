import Basics
import ArgumentParser
import Foundation
import Glibc

struct PairCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pair", abstract: "Starts to record a sensor for one patient.",
        discussion: """
            Connects, checks that the sensor has the Heart Rate Service, reads its device \
            information and waits for the first heartbeat. It bonds with a sensor that requires it, \
            and asks for the six-digit code if the sensor shows one. Without an enrollment the \
            samples are held; enroll, then pair the sensor again to assign it.

            Examples:
              edge-gateway pair C0:00:00:00:00:01 --name "bed 4"
              edge-gateway pair C0:00:00:00:00:01 --passkey 123456
              edge-gateway pair C0:00:00:00:00:01 --enrollment clinic --patient 40001
              edge-gateway pair C0:00:00:00:00:01 --destination influx
            """)

    /// A pairing waits for a person up to a minute, and for the radio.
    private static let timeout = Duration.seconds(180)
    /// Between two looks at what the sensor asks: soon enough for a person.
    private static let questionPause = Duration.milliseconds(300)

    @Argument(help: "The sensor's address, as `scan` shows it.", completion: .sensorAddress)
    var address: String
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
    @Option(help: "A name to show for this sensor.")
    var name: String?
    @Option(help: ArgumentHelp("The six-digit code that the sensor shows.", valueName: "code"))
    var passkey: Int?
    @OptionGroup var daemon: DaemonOptions

    func validate() throws {
        if let passkey, !(0...999_999).contains(passkey) {
            throw ValidationError("--passkey takes at most six digits")
        }
    }

    func run() async throws {
        let client = try daemon.client()
        let isAttended = passkey == nil && isatty(STDIN_FILENO) == 1
        let request = PairRequest(
            address: address, enrollment: delivery.enrollment, patient: delivery.patient,
            destinations: destination.isEmpty ? nil : destination, device: device,
            name: name, passkey: passkey, attended: isAttended)
        let watcher = Task { await watch(client, isAttended: isAttended) }
        let report: PairReport
        do {
            report = try await client.post("/v1/pair", request, timeout: Self.timeout)
            await end(watcher)
        } catch {
            await end(watcher)
            throw error
        }
        if daemon.json { return try Terminal.printJSON(report) }
        Self.show(report)
    }

    /// Its line is gone before the result is printed.
    private func end(_ watcher: Task<Void, Never>) async {
        watcher.cancel()
        await watcher.value
    }

    /// Shows meanwhile how far it is and what the sensor asks for, on standard error, and sends what
    /// is typed.
    private func watch(_ client: ControlClient, isAttended: Bool) async {
        var line: ProgressLine? = ProgressLine("pairing")
        var shown: String?
        while !Task.isCancelled {
            await UptimeClock.system.sleep(Self.questionPause)
            guard !Task.isCancelled,
                let report: PairingReport = try? await client.post(
                    "/v1/pairing/question", PairingQuestionRequest(address: address),
                    timeout: .seconds(10))
            else { continue }
            if let step = report.step { line?.show(step) }
            let asked = report.question.map { $0 + (report.passkey ?? "") }
            guard let question = report.question, asked != shown else { continue }
            shown = asked
            line = nil
            await put(question, code: report.passkey ?? "", client, isAttended: isAttended)
            line = ProgressLine("pairing")
        }
    }

    /// Puts a sensor's question to the person at the terminal.
    private func put(
        _ question: String, code: String, _ client: ControlClient, isAttended: Bool
    ) async {
        switch question {
        case "type-passkey":
            Terminal.write("Type \(code) into the sensor.\n")
        case "confirm-passkey" where isAttended:
            let typed = await Terminal.ask("Does the sensor show \(code)? [y/N] ")
            let isSame = typed?.lowercased().hasPrefix("y") ?? false
            await answer(client, PairingAnswerRequest(address: address, agreed: isSame))
        case "enter-passkey" where isAttended:
            let typed = await Terminal.ask("Which six digits does the sensor show? ")
            let code = typed.flatMap { Int($0.filter(\.isNumber)) }
            await answer(
                client, PairingAnswerRequest(address: address, passkey: code, agreed: false))
        default: break
        }
    }

    private func answer(_ client: ControlClient, _ answer: PairingAnswerRequest) async {
        // If it comes too late, `pair` itself says so.
        let _: PairingReport? = try? await client.post(
            "/v1/pairing/answer", answer, timeout: .seconds(10))
    }

    private static func show(_ report: PairReport) {
        var facts = [report.manufacturer, report.model, report.firmware.map { "firmware \($0)" }]
            .compactMap { $0 }.joined(separator: " ")
        if let location = report.bodyLocation {
            facts += (facts.isEmpty ? "" : ", ") + "worn on: \(location)"
        }
        Terminal.print("paired \(report.sensor.address) \(Printable.line(report.sensor.name))")
        if !facts.isEmpty { Terminal.print("  \(Printable.line(facts))") }
        if let battery = report.sensor.batteryPercent { Terminal.print("  battery \(battery) %") }
        if let bpm = report.firstBpm { Terminal.print("  first heartbeat: \(bpm) bpm") }
        let destination = report.sensor.enrollment.map { "delivers through \($0)" }
        Terminal.print(
            "  \(destination ?? "samples are held: not enrolled yet (edge-gateway enroll LINK)")")
        for note in report.notes { Terminal.print("  note: \(note)") }
    }
}
