import Basics

/// Up to when all that came from the bus has been taken: frames gather there, and whoever judges a silence asks for
/// them first. A value.
struct CatchUp: Sendable, Hashable {
    /// How long an answer may take. What is asked for has come; only a busy machine needs time for it.
    static let patience = Duration.seconds(2)

    private struct Question: Sendable, Hashable {
        let number: UInt32
        let at: Uptime
    }

    /// All that came until then has been taken.
    private(set) var until = Uptime.zero
    private var question: Question?
    private(set) var lastNumber: UInt32 = 0

    /// When an open question is given up.
    var deadline: Uptime? { question.map { $0.at + Self.patience } }

    /// A number for a question, whoever asks it.
    mutating func nextNumber() -> UInt32 {
        lastNumber &+= 1
        return lastNumber
    }

    /// Asks for all that came until now; returns the question's number, or nil while one is open.
    mutating func ask(at now: Uptime) -> UInt32? {
        guard question == nil else { return nil }
        let number = nextNumber()
        question = Question(number: number, at: now)
        return number
    }

    /// Question `number`, or a later one, is answered; true if that answers ours.
    mutating func answer(_ number: UInt32) -> Bool {
        guard let question, number >= question.number else { return false }
        close(question)
        return true
    }

    /// Treats an unanswered question as answered once its time is over: the bus is gone, or too much waits.
    mutating func giveUp(at now: Uptime) {
        if let question, question.at + Self.patience <= now { close(question) }
    }

    /// More may have come since: bluetoothd hands over what it kept while it stood still, and then answers.
    mutating func expire() {
        until = .zero
        question = nil
    }

    private mutating func close(_ question: Question) {
        until = question.at
        self.question = nil
    }
}

extension Central {
    /// Asks for all that has come from the bus by now, where frames gather. ``CentralEvent/caughtUp(number:)`` with
    /// the number returned follows it, also where the bus is lost; nil: this central does not run.
    public func catchUp() -> UInt32? {
        guard isRunning else { return nil }
        let number = caughtUp.nextNumber()
        if let client, daemon.isKnown {
            client.catchUp(number: number)
        } else {
            mailbox.post([.caughtUp(number: number)])
        }
        return number
    }

    /// Whether bluetoothd has handed over what it kept, if it stood still: it answers, or it is not there.
    public func hasHandedOver() async -> Bool {
        guard let client else { return true }
        do throws(DBusFault) {
            try await client.ping(deadline: DaemonPulse.answerPatience)
            return true
        } catch {
            return error.name != DBusFault.noReply
        }
    }

    /// Bluetoothd has handed over all that straps sent until this uptime.
    public func handedOverUntil() async -> Uptime {
        let asked = clock.now()
        return await hasHandedOver() ? asked : pulse.heardAt
    }

    /// When a link's deadline is to be looked at: that of a silent one not while its frames may be under way.
    func nextLook(at link: WatchedLink) -> Uptime? {
        guard let deadline = link.machine.nextDeadline else { return nil }
        guard link.machine.isStreaming, caughtUp.until < deadline else { return deadline }
        return max(deadline, caughtUp.deadline ?? deadline)
    }

    /// Whether a link whose time is over is to be ended. One that streams is not before all that has come is taken,
    /// and not before bluetoothd has been heard: frames may lie on this side of a hang and on the other.
    func isSilent(_ link: WatchedLink, at now: Uptime) -> Bool {
        caughtUp.giveUp(at: now)
        guard let client, link.machine.isStreaming, let deadline = link.machine.nextDeadline else {
            return true
        }
        guard pulse.heardAt >= deadline else {
            if pulse.ask() { askDaemon() }
            return false
        }
        guard caughtUp.until >= deadline else {
            if let number = caughtUp.ask(at: now) { client.catchUp(number: number) }
            return false
        }
        return true
    }
}
