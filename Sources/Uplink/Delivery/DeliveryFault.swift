import OfflineQueue

/// Why an exchange takes nothing. Carries no path, token, body or identifier, so it may be logged and shown.
public enum DeliveryFault: Error, Hashable, Sendable {
    /// What an answer holds that is not the exchange's own document.
    public enum Content: String, Sendable {
        /// A page for people: of a proxy, a captive portal, a maintenance notice, or the exchange's server
        /// software.
        case page = "a web page"
        /// No body at all.
        case empty = "an empty answer"
        /// A document, but none that says what became of the samples.
        case document = "an error"
        /// Something else.
        case other = "an answer that is no document"
    }

    /// No answer came from the host.
    case transport(TransportFault, host: String)
    /// Every answer is of this HTTP status and holds this.
    case answer(status: Int, Content)
    /// The exchange takes none of the samples, each with this status; its words without digits.
    case refusesEach(status: Int, text: String)
    /// The exchange gives no access token now.
    case noToken
}

extension DeliveryFault: CustomStringConvertible {
    /// What happens, in words for a technician.
    public var description: String {
        switch self {
        case .transport(let fault, let host): fault.description(at: host)
        case .answer(400, .page):
            "the exchange answers HTTP 400 with a web page; perhaps it does not accept this host name"
        case .answer(let status, .empty): "the exchange answers HTTP \(status) with an empty body"
        case .answer(let status, let content):
            "the exchange answers HTTP \(status) with \(content.rawValue)"
        case .refusesEach(let status, let text):
            "the exchange stores no sample (\(status)\(text.isEmpty ? "" : ": " + text))"
        case .noToken: "the exchange gives no access token"
        }
    }

    /// A refusal of every sample. Of its words only the beginning is kept, and no digits: a database may
    /// quote what it was given.
    static func refusal(of answer: EntryAnswer) -> DeliveryFault {
        let line = answer.diagnostics.prefix { !$0.isNewline }.prefix(80)
        let text = line.map { character -> Character in
            let isShown = character.isASCII && (character == " " || !character.isWhitespace)
            guard isShown, (character.asciiValue ?? 0) >= 0x20, character.asciiValue != 0x7F else {
                return "?"
            }
            return character.isNumber ? "#" : character
        }
        return .refusesEach(status: answer.status, text: String(text))
    }
}

extension TransportFault {
    /// What happened, with the name of the host where it helps.
    public func description(at host: String) -> String {
        switch self {
        case .dns: "the server's name \(host) could not be resolved"
        case .connect: "no connection to the server \(host)"
        default: description
        }
    }
}

extension HTTPAnswer {
    /// Whether the server says the body is JSON, or it begins as an object or array does.
    var isDocument: Bool {
        let type = (contentType ?? "").lowercased()
        if type.contains("json") { return !body.isEmpty }
        guard !type.contains("html") else { return false }
        return body.first { !Self.blanks.contains($0) }.map { $0 == 0x7B || $0 == 0x5B } ?? false
    }

    private static let blanks: Set<UInt8> = [0x20, 0x09, 0x0A, 0x0D]

    /// What the body is, for a person.
    var content: DeliveryFault.Content {
        if isDocument { return .document }
        guard let first = body.first(where: { !Self.blanks.contains($0) }) else { return .empty }
        let isPage = (contentType ?? "").lowercased().contains("html") || first == 0x3C
        return isPage ? .page : .other
    }
}
