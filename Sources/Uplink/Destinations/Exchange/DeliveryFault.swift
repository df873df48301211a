import OfflineQueue

/// Why an exchange takes nothing. Carries no path, token, body or identifier, so it may be logged and shown.
public enum DeliveryFault: Error, Hashable, Sendable {
    /// No answer came from the host.
    case transport(TransportFault, host: String)
    /// Every answer is of this HTTP status and holds this.
    case answer(status: Int, AnswerContent)
    /// The exchange redirects.
    case redirect(Redirect)
    /// The exchange takes none of the samples, each with this status; its words without digits.
    case refusesEach(status: Int, text: String)
    /// The exchange gives no access token now, or takes none; what was seen, such as
    /// ": HTTP 503 with a web page".
    case noToken(String)
}

extension DeliveryFault: CustomStringConvertible {
    /// A description for a technician.
    public var description: String {
        switch self {
        case .transport(let fault, let host): fault.description(at: host)
        case .answer(400, .page):
            "the exchange answers HTTP 400 with a web page; perhaps it does not accept this host name"
        case .answer(let status, .empty): "the exchange answers HTTP \(status) with an empty body"
        case .answer(let status, let content):
            "the exchange answers HTTP \(status) with \(content.rawValue)"
        case .redirect(let redirect): "the exchange \(redirect)"
        case .refusesEach(let status, let text):
            "the exchange stores no sample (\(status)\(text.isEmpty ? "" : ": " + text))"
        case .noToken(let cause): "the exchange gives no access token\(cause)"
        }
    }

    /// The remedy, for a person; nil: what is done about any fault of a network.
    var advice: String? {
        guard case .redirect(let redirect) = self else { return nil }
        return redirect.enrollAdvice
    }

    /// A refusal of every sample.
    static func refusal(of answer: EntryAnswer) -> DeliveryFault {
        .refusesEach(status: answer.status, text: ServerWords.shown(answer.diagnostics))
    }
}
