import Basics
import Foundation

/// The way from a new gateway to the first delivered heartbeat, with a person at a terminal.
///
/// It has no state of its own: each step is the one that the gateway lacks (``NextStep``), so that it can be left and
/// taken up again, and what other commands did meanwhile counts.
struct Setup {
    /// Between two looks at the gateway's state.
    private static let period = Duration.seconds(1)

    let daemon: DaemonOptions
    let client: ControlClient

    /// - Throws: ``CommandFailure``
    func run() async throws {
        // A daemon that does not answer says so before anything else.
        let status = try await status()
        Terminal.print("From here to the first delivered heartbeat. q leaves, at each question.\n")
        try await check(isEnrolled: status.nextStep?.step != .enroll)
        do {
            while try await step() {}
        } catch is Left {
            Terminal.print("\nleft; edge-gateway setup goes on from here")
        }
    }

    /// Does what the gateway lacks; false once it lacks nothing and the person wants no more.
    private func step() async throws -> Bool {
        let status = try await status()
        switch status.nextStep?.step ?? (status.delivered == 0 ? .deliver : nil) {
        case .enroll: try await enroll()
        case .pair: try await pair(status)
        case .wear, .deliver: try await waitForDelivery()
        case nil:
            show(status)
            guard try await Terminal.askWhether("Pair another strap?") else { return false }
            try await pair(status)
        }
        return true
    }

    private func status() async throws -> StatusReport { try await client.get("/v1/status") }

    /// Says why something did not work, and that it can be tried again.
    private func trying<Value>(_ work: () async throws -> Value) async throws -> Value? {
        do {
            return try await work()
        } catch let failure as CommandFailure where failure.exitCode != .daemonUnreachable {
            Terminal.complain(failure.message)
            return nil
        }
    }

    // MARK: - The machine

    /// Says what is wrong with the machine. Setup itself asks for the enrollment, and a person who begins can do
    /// nothing about checks that this user may not make.
    private func check(isEnrolled: Bool) async throws {
        Terminal.print("1. The machine")
        let found = try await ProgressLine.during("checking") {
            try await DoctorCommand.examine(daemon, daemon.times)
        }
        let fine = found.findings.count { $0.verdict == .ok }
        let open = found.findings.count { $0.verdict == .unknown }
        let notes = found.findings.filter {
            ![.ok, .unknown].contains($0.verdict) && (isEnrolled || $0.name != "enrollment")
        }
        Terminal.print(
            "   \(fine.counted("check is", "checks are")) fine"
                + (open > 0 ? ", \(open) could not be made (sudo edge-gateway doctor)" : ""))
        if !notes.isEmpty {
            Terminal.print(
                DoctorCommand.text(
                    DoctorReport(version: found.version, well: found.well, findings: notes)))
        }
    }

    // MARK: - The invitation

    @discardableResult
    private func enroll() async throws -> EnrollmentReport? {
        Terminal.print(
            """

            2. The invitation of the exchange
               1  paste the link
               2  read the QR code from a picture
               3  hand the link over from a phone
            """)
        let choice = try await Terminal.ask("Which? ")
        let report: EnrollmentReport? = try await trying {
            switch choice {
            case "1":
                return try await enroll(try await CredentialSource.typedLink())
            case "2":
                var file = try await Terminal.ask("Which file? ")
                // No shell expands what is typed here.
                if file.hasPrefix("~/"), let home = ProcessInfo.processInfo.environment["HOME"] {
                    file = home + file.dropFirst()
                }
                return try await enroll(try CredentialSource.link(inPicture: file))
            case "3":
                Terminal.print("   (Ctrl-C leaves)")
                return try await WebEnrollment(daemon: daemon).run(name: nil, resolution: nil)
            case let link where link.hasPrefix("http"): return try await enroll(link)
            default:
                throw CommandFailure(
                    exitCode: .wrongUsage, message: "type 1, 2 or 3, or q to leave")
            }
        }
        if let report { Terminal.print("   enrolled as \(report.name) at \(report.exchange)") }
        return report
    }

    private func enroll(_ link: String) async throws -> EnrollmentReport {
        try await ProgressLine.during("asking the exchange") {
            try await client.post(
                "/v1/enroll", EnrollRequest(link: link), timeout: .seconds(300))
        }
    }

    // MARK: - The strap

    private func pair(_ status: StatusReport) async throws {
        Terminal.print(
            """

            3. The strap
               Wear it, moisten its electrodes, and end its connection to phones and watches.
               Type the number of a strap once it is listed.
            """)
        let address = try await choose()
        let name = try await Terminal.ask("A name for the strap (Enter: its own name): ")
        let enrollment = try await enrollment(status)
        var patient: String?
        if enrollment?.isForMany == true {
            patient = try await Terminal.ask("Number of the patient at the exchange: ")
        }
        let report = try await trying {
            try await AttendedPairing(client: client, isAttended: true).run(
                PairRequest(
                    address: address, enrollment: enrollment?.name,
                    patient: patient.flatMap { $0.isEmpty ? nil : $0 },
                    name: name.isEmpty ? nil : name, attended: true))
        }
        if let report { PairCommand.show(report) }
    }

    /// The address of the strap that the person chooses, while the list of those in range goes on growing.
    private func choose() async throws -> String {
        let nearby = NearbyList()
        let listening = Task { await listen(nearby) }
        defer { listening.cancel() }
        // The list ends with the first question.
        var question = ""
        while true {
            let text = try await Terminal.ask(question)
            let address = try await trying {
                try Choosing.strapNearby.choose(text, among: await nearby.named)
            }
            if let address { return address }
            question = "Which? "
        }
    }

    /// Listens again and again, and shows the straps as they are found.
    private func listen(_ nearby: NearbyList) async {
        var told: String?
        while !Task.isCancelled {
            do {
                let heard: [SightingReport] = try await client.post(
                    "/v1/scan", ScanRequest(seconds: NearbyList.seconds),
                    timeout: .seconds(NearbyList.seconds + 30))
                guard !Task.isCancelled else { return }
                if await nearby.take(heard) { Terminal.write(await nearby.text + "Which? ") }
            } catch let failure as CommandFailure {
                guard !Task.isCancelled else { return }
                if failure.message != told { Terminal.complain(failure.message) }
                told = failure.message
                await UptimeClock.system.sleep(Self.period)
            } catch {
                return
            }
        }
    }

    /// Through what the strap delivers. Asked where there are several, and where another strap records the patient of
    /// an invitation: the heart rates of a second person must not go to the first one.
    private func enrollment(
        _ status: StatusReport
    ) async throws -> (name: String, isForMany: Bool)? {
        let all =
            status.enrollments.map { (name: $0.name, isForMany: $0.kind == "practitioner-key") }
            + status.destinations.map { (name: $0.name, isForMany: $0.kind == "nats") }
        let worn = Dictionary(grouping: status.sensors) { $0.enrollment }
        let isForOther = status.enrollments.contains {
            $0.kind == "invitation" && worn[$0.name] != nil
        }
        guard all.count > 1 || isForOther else { return all.first }
        for (number, one) in all.enumerated() {
            let straps = worn[one.name].map { $0.map(\.name).joined(separator: ", ") }
            Terminal.print(
                "   \(number + 1)  \(one.name)" + (straps.map { ", as \($0)" } ?? ""))
        }
        if isForOther { Terminal.print("   \(all.count + 1)  another patient's invitation") }
        while true {
            let text = try await Terminal.ask("Which of these gets its samples? ")
            if let number = Int(text), all.indices.contains(number - 1) { return all[number - 1] }
            if isForOther, Int(text) == all.count + 1 {
                while true {
                    if let report = try await enroll() { return (report.name, false) }
                }
            }
            let chosen = try await trying {
                try Choosing.enrollment.choose(
                    text, among: [all.map { Named(thing: $0, name: $0.name) }])
            }
            if let chosen { return chosen }
        }
    }

    // MARK: - The first heartbeat

    private func waitForDelivery() async throws {
        Terminal.print("\n4. The first heartbeat, and its delivery (Ctrl-C leaves)")
        var told: Set<String> = []
        var line: ProgressLine? = ProgressLine("waiting")
        func say(_ text: String) {
            guard told.insert(text).inserted else { return }
            line = nil
            Terminal.print(text)
            line = ProgressLine("waiting")
        }
        while true {
            let status = try await status()
            for item in status.health {
                say("   ! \(item.name): \(item.message)\n     \(item.advice)")
            }
            if status.nextStep?.step == .wear, let advice = status.nextStep?.advice {
                say("   \(advice)")
            }
            if let strap = status.sensors.first(where: { $0.bpm != nil }),
                !told.contains("heartbeat")
            {
                told.insert("heartbeat")
                say("   heartbeats come from \(strap.name): \(strap.bpm ?? 0) bpm")
            }
            if status.delivered > 0 {
                line = nil
                Terminal.print("   the first heartbeat has been delivered")
                return
            }
            line?.show(
                status.balance.pending > 0
                    ? status.balance.pending.counted("sample waits", "samples wait")
                        + "; the first delivery takes up to half a minute"
                    : status.nextStep?.message ?? "nothing has been delivered yet")
            await UptimeClock.system.sleep(Self.period)
        }
    }

    // MARK: - The end

    private func show(_ status: StatusReport) {
        let straps = status.sensors.map {
            "   \($0.name): " + ($0.bpm.map { "\($0) bpm" } ?? $0.link)
                + ($0.enrollment.map { ", delivers through \($0)" } ?? "")
        }
        var page = "off; page.listen in the configuration turns it on"
        if let settings = try? daemon.settings(), let place = settings.pagePlace {
            page = (settings.pageURL ?? place.url) + "/"
        }
        Terminal.print(
            """

            This gateway is set up: \(StatusCommand.verdict(status)).
            \(straps.joined(separator: "\n"))
            Bookmark or write down:
               live page               \(page)
               edge-gateway status     is it well, and what to do if not
               edge-gateway watch      the heart rates now
               edge-gateway alert add  messages when it is not well (edge-gateway alert kinds)
            """)
    }
}

/// The straps that were heard since the list began: each keeps its number.
actor NearbyList {
    /// One look; several of them find what sends seldom.
    static let seconds = 4

    private var straps: [SightingReport] = []

    /// Whether there is something new to show.
    func take(_ heard: [SightingReport]) -> Bool {
        var isNew = false
        for strap in heard {
            if let index = straps.firstIndex(where: { $0.address == strap.address }) {
                isNew = isNew || straps[index].name != strap.name
                straps[index] = strap
            } else {
                straps.append(strap)
                isNew = true
            }
        }
        return isNew
    }

    /// Each by its number, its name or its address.
    var named: [[Named<String>]] {
        [
            straps.enumerated().map { Named(thing: $1.address, name: "\($0 + 1)") },
            straps.map { Named(thing: $0.address, name: $0.name, address: $0.address) },
        ]
    }

    var text: String {
        let rows = straps.enumerated().map { number, strap in
            [
                "   \(number + 1)", strap.name, "…" + strap.address.suffix(5),
                strap.rssi.map { "\($0) dBm" } ?? "-", strap.known ? "paired" : "new",
            ]
        }
        return "\n"
            + Terminal.table(
                ["   NUMBER", "NAME", "ADDRESS", "SIGNAL", "STATE"], rows, free: ["NAME"])
            + "\n"
    }
}
