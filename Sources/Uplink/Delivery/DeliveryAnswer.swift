import Basics

/// The result of one attempt to deliver data points.
public enum DeliveryAnswer: Hashable, Sendable {
    /// One answer per data point, in order.
    case entries([EntryAnswer])
    /// Certainly not taken: no connection, or no token right now. Try again at the given uptime, or
    /// soon.
    case notSent(retryAt: Uptime?)
    /// Not taken: too many requests, or too busy.
    case throttled(retryAfter: Duration?)
    /// Not taken: the request is too large.
    case tooLarge
    /// Not taken: something in it is not as it must be.
    case malformed
    /// It is unknown what was taken: an error, or an answer that cannot be believed.
    case unclear(String)
    /// It is unknown what was taken: no whole answer came. As likely the network's doing as the
    /// destination's.
    case unanswered(String)
    /// Not taken, until a person acts. Checked again at the given uptime, or in a
    /// minute.
    case held(HoldReason, retryAt: Uptime?)
}

extension DeliveryAnswer {
    /// The outcome in a word, without what the exchange said.
    var word: String {
        switch self {
        case .entries(let entries):
            if entries.allSatisfy({ $0.isTaken || $0.verdict.isNotWanted }) {
                entries.contains(where: \.verdict.isNotWanted)
                    ? "delivered, RR intervals refused" : "delivered"
            } else if entries.contains(where: \.isTaken) {
                "delivered in part"
            } else {
                "not delivered"
            }
        case .notSent: "not sent"
        case .throttled: "throttled"
        case .tooLarge: "too large"
        case .malformed: "malformed"
        case .unclear(let word), .unanswered(let word): word
        case .held(let reason, _): reason.rawValue
        }
    }

    /// Whether every sample's fate is known: nothing of the request can still be under way.
    var isCertain: Bool {
        guard case .entries(let entries) = self else { return false }
        return entries.allSatisfy { $0.verdict != .unclear }
    }

    /// Whether the destination may have too much to do.
    var tellsOfOverload: Bool {
        switch self {
        case .unclear, .unanswered, .throttled: true
        case .entries, .notSent, .tooLarge, .malformed, .held: false
        }
    }

    /// The word for the delivery history; nil when nothing reached the exchange, which during an
    /// outage would fill the history with nothing.
    var recordWord: String? {
        switch self {
        case .entries, .unclear, .unanswered, .malformed, .tooLarge: word
        case .notSent, .throttled, .held: nil
        }
    }
}

extension EntryAnswer {
    /// Whether the destination has the data point.
    var isTaken: Bool { verdict == .stored || verdict == .storedBefore }
}
