import Basics

/// The time that one inspection has: a value that everything in its way asks how long it may take.
///
/// Each call to bluetoothd has a deadline of its own, up to 60 s, and an inspection makes several. Only one
/// deadline for all of them lets the answer come in time on a slow machine, too.
struct InspectionTime: Sendable, Hashable {
    /// From the request to the answer.
    static let limit = Duration.seconds(45)
    /// The same where a person has to find or type a code: their time is added, up to this.
    static let limitWithPerson = Duration.seconds(100)
    /// Kept for undoing a failed attempt: `RemoveDevice` of a connected device takes 2 s, and the calls
    /// before it as much on a slow machine.
    static let reserve = Duration.seconds(5)

    /// When the person began to wait.
    let begun: Uptime
    /// Where the caller sets it, nothing extends it.
    private let fixedLimit: Duration?
    private var questionsOpen = 0
    private var askedAt = Uptime.zero
    private var personTook = Duration.zero
    private var isTyped = false

    /// A time that begins at `begun`; `limit` takes the place of the two limits above.
    init(begun: Uptime, limit: Duration? = nil) {
        self.begun = begun
        fixedLimit = limit
    }

    /// When the answer must be there.
    var end: Uptime {
        if let fixedLimit { return begun + fixedLimit }
        if questionsOpen > 0 || isTyped { return begun + Self.limitWithPerson }
        return begun + min(Self.limit + personTook, Self.limitWithPerson)
    }

    /// When the search for the sensor ends, so that a failed attempt can still be undone.
    var searchEnd: Uptime { max(end - Self.reserve, begun + (end - begun) / 2) }

    /// How long something may take that begins now.
    func left(at now: Uptime, atMost own: Duration) -> Duration {
        min(own, max(.zero, end - now))
    }

    /// The sensor asks a person.
    mutating func open(_ question: PairingQuestion, at now: Uptime) {
        // bluetoothd does not tell when a code has been typed into the sensor.
        if case .typePasskey = question { isTyped = true }
        if questionsOpen == 0 { askedAt = now }
        questionsOpen += 1
    }

    /// The person has answered.
    mutating func close(at now: Uptime) {
        guard questionsOpen > 0 else { return }
        questionsOpen -= 1
        if questionsOpen == 0 { personTook += now - askedAt }
    }
}
