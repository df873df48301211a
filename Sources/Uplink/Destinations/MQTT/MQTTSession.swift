/// The known state of one connection to a broker and of the messages that go over it. Without I/O.
///
/// A connection that ends never comes back: the next one is another session, and what was not
/// acknowledged goes out again only when the delivery says so.
struct MQTTSession: Sendable {
    /// The reports of the library.
    enum Event: Hashable, Sendable {
        /// The broker answered the connection, in the numbers of MQTT 5.
        case answered(code: Int)
        /// It answered the message of this packet identifier.
        case acknowledged(id: Int32, code: Int)
        /// It ended the connection and said why.
        case dismissed(code: Int)
        /// The connection failed.
        case failed(TransportFault)
        /// It is of no use, because the broker refused what it is for.
        case refused(MQTTReason)
    }

    /// Why a connection is over.
    enum End: Hashable, Sendable {
        case fault(TransportFault)
        case refused(MQTTReason)
        /// Not opened: another client has the gateway's name.
        case nameTaken
    }

    /// Where it stands.
    enum State: Hashable, Sendable {
        /// The broker has not answered yet.
        case opening
        /// Messages are taken.
        case open
        case over(End)
    }

    private(set) var state = State.opening
    /// The messages of this round that wait for an answer: packet identifier to place.
    private var waiting: [Int32: Int] = [:]
    /// The code of each message's answer; nil where none came yet.
    private(set) var codes: [Int?] = []
    /// The messages of this round that the library took.
    private(set) var sent = 0

    /// A round of messages begins.
    mutating func begin(count: Int) {
        codes = Array(repeating: nil, count: count)
        waiting = [:]
        sent = 0
    }

    /// The message at `index` is on its way.
    mutating func send(_ index: Int, id: Int32) {
        waiting[id] = index
        sent += 1
    }

    /// The message at `index` was not sent: the library knows from the broker's CONNACK that it would be
    /// refused with this code.
    mutating func refuse(_ index: Int, code: Int) { codes[index] = code }

    /// Whether nothing more is to be waited for in this round.
    var isSettled: Bool {
        switch state {
        case .opening: false
        case .open: !codes.contains(nil)
        case .over: true
        }
    }

    /// Why it is over; nil while it is not.
    var end: End? { if case .over(let end) = state { end } else { nil } }

    mutating func note(_ event: Event) {
        // The first word counts: that the connection is gone says less than why.
        guard end == nil else { return }
        switch event {
        case .answered(let code):
            let reason = MQTTReason(.connack, code)
            state = reason.meaning == .stored ? .open : .over(.refused(reason))
        case .acknowledged(let id, let code):
            guard let index = waiting.removeValue(forKey: id) else { return }
            codes[index] = code
        case .dismissed(let code): state = .over(.refused(MQTTReason(.disconnect, code)))
        case .failed(let fault): state = .over(.fault(fault))
        case .refused(let reason): state = .over(.refused(reason))
        }
    }
}

/// The result of a round of messages.
struct MQTTOutcome: Hashable, Sendable {
    /// The code of each message's answer; nil where none came.
    var codes: [Int?]
    /// Whether any of them may have reached the broker.
    var wasSent: Bool
    /// Why the connection is over, if it is.
    var end: MQTTSession.End?

    /// The answer for the delivery.
    func answer(count: Int, isAlone: Bool) -> DeliveryAnswer {
        for case let code? in codes {
            let reason = MQTTReason(.puback, code)
            if reason.meaning != .stored { return answer(of: reason, isAlone: isAlone) }
        }
        switch end {
        case nil: return .entries(Array(repeating: EntryAnswer(.stored), count: count))
        case .refused(let reason): return answer(of: reason, isAlone: isAlone)
        case .nameTaken: return .held(.nameTaken, retryAt: nil)
        case .fault(let fault):
            return wasSent ? .unanswered("\(fault)") : .notSent(retryAt: nil)
        }
    }

    private func answer(of reason: MQTTReason, isAlone: Bool) -> DeliveryAnswer {
        let word = "\(reason.packet.rawValue) \(reason.code)"
        func entry(_ verdict: EntryVerdict) -> DeliveryAnswer {
            isAlone
                ? .entries([EntryAnswer(verdict, status: reason.code, diagnostics: word)])
                : .malformed
        }
        switch reason.meaning {
        case .refused, .partly: return entry(.refused)
        case .suspect: return entry(.unclear)
        case .tooLarge: return .tooLarge
        case .throttled: return .throttled(retryAfter: nil)
        case .unauthorized: return .held(.credentialsRefused, retryAt: nil)
        case .held(let reason): return .held(reason, retryAt: nil)
        case .stored, .each, .unclear, .unanswered:
            return wasSent ? .unclear(word) : .notSent(retryAt: nil)
        }
    }
}
