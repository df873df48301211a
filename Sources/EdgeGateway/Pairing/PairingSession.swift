import BlueZ

/// One pairing: where the sensor's questions wait for the technician. `pair` runs in one request, its questions are
/// fetched and answered in others.
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

    private var isAttended = false
    /// The code given beforehand.
    private var passkey: UInt32?
    /// How often it was given to the sensor.
    private var passkeyTries = 0
    /// The present question.
    private(set) var question: PairingQuestion?
    private var waiting: CheckedContinuation<PairingAnswer, Never>?
    private var omission: Omission?
    /// No question is open, and none follows.
    private var hasEnded = false
    /// Nobody waits for the pairing any more.
    private(set) var isAbandoned = false

    /// Says how questions are answered: with a code given beforehand, or by a person who is there.
    func begin(passkey: UInt32?, isAttended: Bool) {
        self.passkey = passkey
        self.isAttended = isAttended
    }

    /// The request that pairs the sensor has gone, as after Ctrl-C.
    func abandon() {
        isAbandoned = true
        end()
    }

    /// Answers an open question, and each one that may follow, with no.
    ///
    /// - Returns: what a person left undone, to which the sensor's refusal is then due.
    @discardableResult
    func end() -> Omission? {
        hasEnded = true
        question = nil
        guard let waiting else { return omission }
        self.waiting = nil
        omission = .unanswered
        waiting.resume(returning: .no)
        return omission
    }

    /// Puts a sensor's question to the technician.
    func ask(_ question: PairingQuestion) async -> PairingAnswer {
        guard !hasEnded else { return .no }
        switch (question, passkey) {
        case (.enterPasskey, let passkey?):
            guard passkeyTries < Self.passkeyTriesMax else { return .no }
            passkeyTries += 1
            return .passkey(passkey)
        case (.confirmPasskey(let shown), let passkey?): return shown == passkey ? .yes : .no
        case (.typePasskey, _):
            self.question = question
            omission = .notTyped
            return .yes
        default: break
        }
        guard isAttended else {
            omission = .nobodyThere
            return .no
        }
        return await withCheckedContinuation { continuation in
            // A second question takes the place of the first.
            waiting?.resume(returning: .no)
            self.question = question
            waiting = continuation
        }
    }

    /// Takes the technician's answer; false if there is no question.
    func answer(_ answer: PairingAnswer) -> Bool {
        guard let waiting else { return false }
        self.waiting = nil
        question = nil
        omission = answer == .no ? .declined : nil
        waiting.resume(returning: answer)
        return true
    }
}

/// The pairings under way, by the sensor's address.
actor PairingSessions {
    private var sessions: [String: PairingSession] = [:]

    /// The pairing of a sensor that is under way, if one is.
    func session(of address: String) -> PairingSession? { sessions[address] }

    /// A sensor is being paired from now on. An earlier pairing of it ends.
    func open(_ session: PairingSession, of address: String) async {
        let earlier = sessions.updateValue(session, forKey: address)
        await earlier?.end()
    }

    /// - Returns: what a person left undone in it.
    @discardableResult
    func close(_ session: PairingSession, of address: String) async -> PairingSession.Omission? {
        if sessions[address] === session { sessions[address] = nil }
        return await session.end()
    }
}
