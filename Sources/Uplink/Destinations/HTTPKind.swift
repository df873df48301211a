import OfflineQueue

/// A kind that sends each batch as one HTTP request.
public protocol HTTPKind: DestinationKind {
    /// The server.
    var origin: Origin { get }
    /// Whether it takes RR intervals.
    var takesIntervals: Bool { get }
    /// ``Destination/servesMany``.
    var servesMany: Bool { get }
    /// The data points in the parts that go out in requests of their own, one after the other; one part, unless
    /// the system wants it otherwise.
    func batches(of points: [OutgoingPoint], _ context: RequestContext) -> [[OutgoingPoint]]
    /// The request that delivers these data points. Of none it is harmless, and shows whether the server
    /// would take some.
    func request(_ points: [OutgoingPoint], _ context: RequestContext) -> HTTPRequest
    /// The request that delivers these entries of the gap ledger, all of one kind; nil if it takes none.
    func request(ledger entries: [LedgerEntry], _ context: RequestContext) -> HTTPRequest?
    /// Adds the token to a request.
    func authorized(_ request: HTTPRequest, by token: Secret) -> HTTPRequest
    /// The host that gives the tokens.
    var tokenHost: String { get }
    /// Where the token comes from; nil where none is needed.
    func tokens(_ parts: DestinationParts) -> (any TokenSource)?
    /// The table of answers. What it leaves out is read as HTTP defines it.
    static var answers: [AnswerRow] { get }
    /// The text of an answer that the table is read with, and that a person sees.
    func words(of answer: HTTPAnswer) -> String
    /// The meaning of an answer; the table says it, unless the answer's other parts matter.
    func meaning(of answer: HTTPAnswer) -> AnswerMeaning
    /// The same of an answer to so many data points, where it counts them.
    func meaning(of answer: HTTPAnswer, to count: Int) -> AnswerMeaning
    /// Of an answer that means ``AnswerMeaning/partly``: which of so many data points were refused, each with the
    /// server's words; nil if it does not tell.
    func refused(in answer: HTTPAnswer, count: Int) -> [Int: String]?
    /// The positions of the data points that such a server takes or refuses together.
    func series(of points: [OutgoingPoint]) -> [[Int]]
}

/// The facts that a request may depend on beside its data points.
public struct RequestContext: Sendable {
    /// The patient of data points that name none.
    public var patient: String?
    /// The time, seconds since 1970.
    public var seconds: Int64
}

/// The meaning of an answer to a whole request.
public enum AnswerMeaning: Hashable, Sendable {
    /// All of it is stored, now or before.
    case stored
    /// One of the data points is wrong, by the server's own word: what is refused alone is dead.
    case refused
    /// Perhaps one of the data points is wrong: what is refused alone is dead when others are stored.
    case suspect
    /// Some of the data points are wrong, by the server's own word, and others are stored.
    case partly
    /// It says of each data point what became of it.
    case each([EntryAnswer])
    /// The request is too large.
    case tooLarge
    /// Too many requests.
    case throttled
    /// The token is not taken.
    case unauthorized
    /// Not taken, until a person acts.
    case held(HoldReason)
    /// Says nothing about the data points.
    case unclear
    /// A proxy answered in place of the server, which may still be working on the request.
    case unanswered
}

extension AnswerMeaning {
    /// The answer for the delivery. `isAlone`: the request had a single data point, to find out about it;
    /// `words`: what the server said.
    func delivery(
        of answer: HTTPAnswer, count: Int, isAlone: Bool, words: String
    ) -> DeliveryAnswer {
        func entry(_ verdict: EntryVerdict) -> DeliveryAnswer {
            .entries([EntryAnswer(verdict, status: answer.status, diagnostics: words)])
        }
        return switch self {
        case .stored: .entries(Array(repeating: EntryAnswer(.stored), count: count))
        case .each(let entries): .entries(entries)
        case .refused, .partly: isAlone ? entry(.refused) : .malformed
        case .suspect: isAlone ? entry(.unclear) : .malformed
        case .tooLarge: .tooLarge
        case .throttled:
            .throttled(retryAfter: RetryAfter.pause(answer.retryAfter, date: answer.date))
        case .unauthorized: .held(.credentialsRefused, retryAt: nil)
        case .held(let reason): .held(reason, retryAt: nil)
        case .unclear: .unclear(String(answer.status))
        case .unanswered: .unanswered(String(answer.status))
        }
    }
}

/// A row of a table of answers; the first that matches counts.
public struct AnswerRow: Sendable {
    /// The HTTP statuses.
    public var status: ClosedRange<Int>
    /// The words with which the answer begins, if that matters.
    public var begins = ""
    /// The words that the answer contains, if that matters.
    public var contains = ""
    /// The meaning.
    public var meaning: AnswerMeaning

    init(
        _ status: ClosedRange<Int>, begins: String = "", contains: String = "",
        _ meaning: AnswerMeaning
    ) {
        self.status = status
        self.begins = begins
        self.contains = contains
        self.meaning = meaning
    }

    init(
        _ status: Int, begins: String = "", contains: String = "", _ meaning: AnswerMeaning
    ) {
        self.init(status...status, begins: begins, contains: contains, meaning)
    }

    func matches(_ answer: HTTPAnswer, _ words: String) -> Bool {
        status ~= answer.status && (begins.isEmpty || words.hasPrefix(begins))
            && (contains.isEmpty || words.contains(contains))
    }

    /// The meanings by HTTP itself (RFC 9110, RFC 6585), for what a kind's own table leaves out.
    static let general: [AnswerRow] = [
        AnswerRow(300...399, .held(.moved)),
        AnswerRow(401, .unauthorized),
        AnswerRow(402, .held(.planExceeded)),
        AnswerRow(403, .held(.forbidden)),
        AnswerRow(404, .held(.notFound)),
        AnswerRow(405...406, .held(.requestRefused)),
        AnswerRow(410, .held(.notFound)),
        AnswerRow(413, .tooLarge),
        AnswerRow(415, .held(.requestRefused)),
        AnswerRow(429, .throttled),
        AnswerRow(502, .unanswered),
        AnswerRow(503, .throttled),
        AnswerRow(504, .unanswered),
    ]
}

extension HTTPKind {
    /// The server itself.
    public var tokenHost: String { origin.host }
    public var place: String { "\(origin)" }

    public var takesIntervals: Bool { true }

    public var servesMany: Bool { false }

    public func batches(
        of points: [OutgoingPoint], _ context: RequestContext
    ) -> [[OutgoingPoint]] { [points] }

    public func meaning(of answer: HTTPAnswer, to count: Int) -> AnswerMeaning {
        meaning(of: answer)
    }

    public func refused(in answer: HTTPAnswer, count: Int) -> [Int: String]? { nil }

    public func series(of points: [OutgoingPoint]) -> [[Int]] { [Array(points.indices)] }

    public func request(
        ledger entries: [LedgerEntry], _ context: RequestContext
    ) -> HTTPRequest? { nil }

    public func authorized(_ request: HTTPRequest, by token: Secret) -> HTTPRequest {
        request.authorized(by: token)
    }

    public func tokens(_ parts: DestinationParts) -> (any TokenSource)? { nil }

    public func words(of answer: HTTPAnswer) -> String {
        answer.content == .page ? "" : String(decoding: answer.body.prefix(500), as: UTF8.self)
    }

    public func meaning(of answer: HTTPAnswer) -> AnswerMeaning { meaningInTable(of: answer) }

    /// The meaning of an answer by the table, or by HTTP itself.
    func meaningInTable(of answer: HTTPAnswer) -> AnswerMeaning {
        let words = words(of: answer)
        let row =
            Self.answers.first { $0.matches(answer, words) }
            ?? AnswerRow.general.first { $0.matches(answer, words) }
        switch row?.meaning {
        // A page is a proxy's, which has not looked at the data points.
        case .refused where answer.content == .page, .suspect where answer.content == .page,
            .partly where answer.content == .page:
            return .unclear
        case let meaning: return meaning ?? .unclear
        }
    }

    /// The requests for one invented sample and one invented gap, without their token.
    public var example: String {
        let context = RequestContext(seconds: 1_795_334_401)
        let requests =
            [request([.example], context)]
            + [request(ledger: LedgerEntry.examples, context)].compactMap(\.self)
        return requests.map { text(of: $0) }.joined(separator: "\n\n")
    }

    private func text(of request: HTTPRequest) -> String {
        let names = request.headers.map(\.name).joined(separator: ", ")
        // Where the address is a secret, so is its path.
        let isShown = !Self.fields.contains { $0.name == "url" && $0.isSecret }
        return """
            \(request.method.rawValue) \(request.origin)\(isShown ? request.target : "/…")
            Content-Type: \(request.contentType ?? "")\(names.isEmpty ? "" : "; also \(names)")

            \(String(decoding: request.body, as: UTF8.self))
            """
    }

    public func make(_ parts: DestinationParts) -> any Destination {
        HTTPDestination(self, tokens: tokens(parts), parts)
    }

    public func probe(
        _ parts: DestinationParts
    ) async throws(DestinationProblem) -> ProbeReport {
        let destination = HTTPDestination(self, tokens: tokens(parts), parts)
        try await destination.probe()
        return ProbeReport(checked: ["\(origin) takes an empty batch"])
    }
}
