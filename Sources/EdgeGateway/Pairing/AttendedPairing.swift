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

    /// - Throws: ``CommandFailure``
    func run(_ request: PairRequest) async throws -> PairReport {
        let watcher = Task { await watch(request.address) }
        do {
            let report: PairReport = try await client.post(
                "/v1/pair", request, timeout: Self.timeout)
            await end(watcher)
            return report
        } catch {
            await end(watcher)
            throw error
        }
    }

    /// Its line is gone before the result is printed.
    private func end(_ watcher: Task<Void, Never>) async {
        watcher.cancel()
        await watcher.value
    }

    /// Shows on standard error how far it is and what the strap asks for, and sends what is typed.
    private func watch(_ address: String) async {
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
            await put(question, code: report.passkey ?? "", of: address)
            line = ProgressLine("pairing")
        }
    }

    /// Puts a strap's question to the person at the terminal.
    private func put(_ question: String, code: String, of address: String) async {
        switch question {
        case "type-passkey":
            Terminal.write("Type \(code) into the strap.\n")
        case "confirm-passkey" where isAttended:
            let typed = await Terminal.ask("Does the strap show \(code)? [y/N] ")
            let isSame = typed?.lowercased().hasPrefix("y") ?? false
            await answer(PairingAnswerRequest(address: address, agreed: isSame))
        case "enter-passkey" where isAttended:
            let typed = await Terminal.ask("Which six digits does the strap show? ")
            let code = typed.flatMap { Int($0.filter(\.isNumber)) }
            await answer(PairingAnswerRequest(address: address, passkey: code, agreed: false))
        default: break
        }
    }

    private func answer(_ answer: PairingAnswerRequest) async {
        // If it comes too late, `pair` itself says so.
        let _: PairingReport? = try? await client.post(
            "/v1/pairing/answer", answer, timeout: .seconds(10))
    }
}
