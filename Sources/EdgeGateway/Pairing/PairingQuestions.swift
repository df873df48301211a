import BlueZ

/// The questions of sensors while they are paired, and the technician's answers.
struct PairingQuestions: Sendable {
    let central: Central
    let sessions: PairingSessions

    /// A sensor's question while it is paired.
    func question(of text: String) async throws -> PairingReport {
        let address = try SensorAddress.checked(text)
        let link = await central.snapshots().first { $0.address == address }
        var report = PairingReport(step: link.flatMap { Self.step($0.state) })
        switch await sessions.session(of: address)?.question {
        case nil: break
        case .enterPasskey: report.question = "enter-passkey"
        case .typePasskey(let code):
            (report.question, report.passkey) = ("type-passkey", Self.digits(code))
        case .confirmPasskey(let code):
            (report.question, report.passkey) = ("confirm-passkey", Self.digits(code))
        }
        return report
    }

    private static func step(_ state: LinkState) -> String? {
        switch state {
        case .absent: "listening for the strap"
        case .seen: "heard, connecting soon"
        case .connecting: "connecting"
        case .resolving: "reading its services"
        case .subscribing: "asking for its frames"
        case .streaming: "waiting for a heartbeat"
        case .suspended: "waiting for the radio"
        case .draining: nil
        }
    }

    /// Takes the technician's answer to what a sensor asks.
    func answer(
        _ request: PairingAnswerRequest, of text: String
    ) async throws -> PairingReport {
        let address = try SensorAddress.checked(text)
        try Passkey.check(request.passkey)
        let session = await sessions.session(of: address)
        let asked = await session?.question
        let isAnswer =
            switch asked {
            case .enterPasskey: request.passkey != nil || request.agreed == false
            case .confirmPasskey: request.agreed != nil
            case .typePasskey, nil: request.passkey != nil || request.agreed != nil
            }
        guard isAnswer else { throw Self.noAnswer(asked) }
        let answer: PairingAnswer =
            if asked == .enterPasskey,
                let passkey = request.passkey.flatMap(UInt32.init(exactly:))
            {
                .passkey(passkey)
            } else if request.agreed == true { .yes } else { .no }
        guard await session?.answer(answer) == true else {
            throw ProblemReport(
                code: .nothingAsked, message: "this strap asks for no code now",
                advice: "edge-gateway pair STRAP")
        }
        return try await question(of: text)
    }

    private static func noAnswer(_ question: PairingQuestion?) -> ProblemReport {
        let wanted =
            switch question {
            case .enterPasskey: "passkey, the six digits that the strap shows"
            case .confirmPasskey: "agreed, whether the strap shows the same six digits"
            case .typePasskey, nil: "passkey, six digits, or agreed, true or false"
            }
        return ProblemReport(
            code: .badRequest, message: "this is no answer to a strap's question",
            advice: "send \(wanted); agreed: false declines")
    }

    private static func digits(_ code: UInt32) -> String {
        let text = String(code)
        return String(repeating: "0", count: max(0, 6 - text.count)) + text
    }
}

/// The six digits of a pairing.
enum Passkey {
    /// - Throws: ``ProblemReport`` for more than six digits.
    static func check(_ passkey: Int?) throws {
        guard let passkey, !(0...Int(PairingAgent.passkeyMax)).contains(passkey) else { return }
        throw ProblemReport(
            code: .badRequest, message: "a pairing code has at most six digits",
            advice: "edge-gateway pair STRAP --passkey 123456")
    }
}
