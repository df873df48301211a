import Basics

/// Whether bluetoothd is there, tells what it has, and lets the gateway ask. A value without I/O: its methods return what
/// is to be told.
struct DaemonPresence: Sendable {
    private(set) var isPresent = false
    /// The answer that bluetoothd, or the bus, gives in place of its objects; nil if it does not refuse.
    private(set) var refusal: DBusFault?
    /// While the bus lets us ask nothing though bluetoothd is there: when it is asked again.
    private(set) var asksAgainAt: Uptime?
    /// bluetoothd took its time for its first answer: it may have stood still before, while frames came.
    private(set) var mayHaveHung = false
    /// Whether it is there is known since the gateway has connected to the bus. Nothing has come from it before.
    private(set) var isKnown = false
    /// It has not told what objects it has.
    private var isSilent = false
    private var connectedAt = Uptime.zero

    /// The gateway has connected to the bus.
    mutating func connect(at now: Uptime) { (connectedAt, isKnown) = (now, false) }

    /// bluetoothd does not tell what it has.
    mutating func noteSilence(at now: Uptime) -> [CentralEvent] {
        guard !isSilent else { return [] }
        isSilent = true
        return [.daemonHung(since: now)]
    }

    /// It refuses to tell what it has.
    mutating func noteRefusal(_ fault: DBusFault) -> [CentralEvent] {
        let events = endSilence()
        isKnown = true
        guard !isPresent, fault != refusal else { return events }
        refusal = fault
        return events + [.daemonRefused(fault)]
    }

    /// It has told what it has.
    mutating func gain(at now: Uptime) -> [CentralEvent] {
        // A refusal is an answer.
        mayHaveHung = refusal == nil && now - connectedAt > Central.firstAnswerMax
        (isPresent, isKnown) = (true, true)
        endRefusal()
        return endSilence() + [.daemon(isPresent: true)]
    }

    /// A question was answered, or not, for the reason given.
    mutating func noteAnswer(_ fault: DBusFault?, at now: Uptime) -> [CentralEvent] {
        guard isPresent else { return [] }
        if let fault, BlueZErrorClass(fault) == .denied {
            postpone(at: now)
            guard refusal == nil else { return [] }
            refusal = fault
            return [.daemonRefused(fault)]
        }
        guard refusal != nil else { return [] }
        endRefusal()
        return [.daemon(isPresent: true)]
    }

    /// Asks again later and rarely, since dbus-daemon writes each call that it refuses into the journal.
    mutating func postpone(at now: Uptime) { asksAgainAt = now + BlueZClient.refusedPause }

    /// It has told something, or has left.
    mutating func endSilence() -> [CentralEvent] {
        defer { isSilent = false }
        return isSilent ? [.daemonHung(since: nil)] : []
    }

    /// It has left, or was not there when the gateway came; false if that is known.
    mutating func lose() -> Bool {
        defer {
            (isPresent, isKnown) = (false, true)
            endRefusal()
        }
        return isPresent || refusal != nil || !isKnown
    }

    private mutating func endRefusal() { (refusal, asksAgainAt) = (nil, nil) }
}
