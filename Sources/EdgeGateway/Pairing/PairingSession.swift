import BlueZ

/// Where a sensor's questions wait for the technician who pairs it: `pair` runs in one request, its
/// questions are fetched and answered in others.
actor PairingSession {
    /// How often a code that was given beforehand is tried: a sensor asks again when it is wrong, or
    /// when the radio failed in the middle.
    private static let passkeyTriesMax = 2

    /// The outcome of the last question, if it was not answered as the sensor wants.
    enum Omission: Sendable {
        /// No person was there to answer.
        case nobodyThere
        /// A person was there and did not answer.
        case unanswered
        /// The person said no.
        case declined
        /// The code was shown, to be typed into the sensor.
        case notTyped
    }

    private struct Visit {
        var isAttended: Bool
        /// The code given beforehand.
        var passkey: UInt32?
        /// How often it was given to the sensor.
        var passkeyTries = 0
        var question: PairingQuestion?
        var answer: CheckedContinuation<PairingAnswer, Never>?
        var omission: Omission?
    }

    private var visits: [String: Visit] = [:]

    /// A sensor is being paired from now on.
    ///
    /// - Parameter isAttended: a person answers the questions.
    func open(_ address: String, passkey: UInt32?, isAttended: Bool) {
        // Of an earlier session of this sensor, an open question is answered with no.
        visits[address]?.answer?.resume(returning: .no)
        visits[address] = Visit(isAttended: isAttended, passkey: passkey)
    }

    /// Ends it; an open question is answered with no.
    ///
    /// - Returns: what a person left undone, to which the sensor's refusal is then due.
    @discardableResult
    func close(_ address: String) -> Omission? {
        let visit = visits.removeValue(forKey: address)
        visit?.answer?.resume(returning: .no)
        return visit?.answer == nil ? visit?.omission : .unanswered
    }

    /// Puts a sensor's question to the technician.
    func ask(_ question: PairingQuestion, of address: String) async -> PairingAnswer {
        guard let visit = visits[address] else { return .no }
        switch (question, visit.passkey) {
        case (.enterPasskey, let passkey?):
            guard visit.passkeyTries < Self.passkeyTriesMax else { return .no }
            visits[address]?.passkeyTries += 1
            return .passkey(passkey)
        case (.confirmPasskey(let shown), let passkey?): return shown == passkey ? .yes : .no
        case (.typePasskey, _):
            visits[address]?.question = question
            visits[address]?.omission = .notTyped
            return .yes
        default: break
        }
        guard visit.isAttended else {
            visits[address]?.omission = .nobodyThere
            return .no
        }
        return await withCheckedContinuation { continuation in
            // A second question takes the place of the first.
            visits[address]?.answer?.resume(returning: .no)
            visits[address]?.question = question
            visits[address]?.answer = continuation
        }
    }

    /// The present question.
    func question(of address: String) -> PairingQuestion? { visits[address]?.question }

    /// Takes the technician's answer; false if there is no question.
    func answer(_ answer: PairingAnswer, for address: String) -> Bool {
        guard let continuation = visits[address]?.answer else { return false }
        visits[address]?.answer = nil
        visits[address]?.question = nil
        visits[address]?.omission = answer == .no ? .declined : nil
        continuation.resume(returning: answer)
        return true
    }
}
