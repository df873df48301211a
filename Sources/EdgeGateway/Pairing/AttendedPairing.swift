import Basics

/// Pairs a strap, shows meanwhile how far it is, and puts what the strap asks to the person at the terminal.
struct AttendedPairing {
    /// A pairing waits for a person up to a minute, and for the radio.
    private static let timeout = Duration.seconds(180)
    /// Between two looks at what the strap asks: soon enough for a person.
    private static let questionPause = Duration.milliseconds(300)

    let client: ControlClient
    /// Whether a person is there to answer.
    let isAttended: Bool

    /// - Throws: ``CommandFailure``; ``Left`` if the person wants no more, which ends the pairing as Ctrl-C does.
    func run(_ request: PairRequest) async throws -> PairReport {
        try await withThrowingTaskGroup(of: PairReport?.self) { group in
            // The line that says how far it is has gone before anything else is printed.
            defer { group.cancelAll() }
            group.addTask {
                let report: PairReport = try await client.post(
                    "/v1/pair", request, timeout: Self.timeout)
                return report
            }
            group.addTask {
                try await watch(request.address)
                return nil
            }
            while let report = try await group.next() {
                if let report { return report }
            }
            throw CancellationError()
        }
    }

    /// Shows on standard error how far it is and what the strap asks for, and sends what is typed.
    private func watch(_ address: String) async throws {
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
            line = nil
            // The strap may ask the same once more after an answer.
            shown = try await put(question, code: report.passkey ?? "", of: address) ? nil : asked
            line = ProgressLine("pairing")
        }
    }

    /// Puts a strap's question to the person at the terminal; false if it needs no answer.
    private func put(_ question: String, code: String, of address: String) async throws -> Bool {
        switch question {
        case "confirm-passkey" where isAttended:
            let isSame = try await Terminal.askWhether("Does the strap show \(code)?")
            await answer(PairingAnswerRequest(address: address, agreed: isSame))
            return true
        case "enter-passkey" where isAttended:
            await answer(PairingAnswerRequest(address: address, passkey: try await passkey()))
            return true
        case "type-passkey": Terminal.write("Type \(code) into the strap.\n")
        default: break
        }
        return false
    }

    /// The code that the strap shows, asked for until it can be one: a wrong one ends the pairing.
    private func passkey() async throws -> Int {
        while true {
            let typed = try await Terminal.ask("Which six digits does the strap show? ")
            if let code = Self.passkey(typed) { return code }
            Terminal.write("type all six digits, such as 004711, or q to leave\n")
        }
    }

    /// The code in what a person typed, such as `004711` or `004 711`; nil if it is not six digits.
    static func passkey(_ typed: String) -> Int? {
        let code = typed.filter { $0 != " " && $0 != "-" }
        let isWhole = code.utf8.count == 6 && code.utf8.allSatisfy { 0x30...0x39 ~= $0 }
        return isWhole ? Int(code) : nil
    }

    private func answer(_ answer: PairingAnswerRequest) async {
        // If it comes too late, `pair` itself says so.
        let _: PairingReport? = try? await client.post(
            "/v1/pairing/answer", answer, timeout: .seconds(10))
    }
}
