import Basics

/// A relay's answer to a request: the exchange's own answer, for the points of this request alone
/// (docs/operate/relay.md has the form).
struct RelayAnswer: Sendable, Hashable {
    /// Instants in it are meant from the time of the answer on: clocks of two machines have nothing to do with
    /// each other.
    var content: Content

    /// ``DeliveryAnswer`` with durations in place of instants.
    enum Content: Sendable, Hashable {
        case entries([EntryAnswer])
        case notSent(retryAfter: Duration?)
        case throttled(retryAfter: Duration?)
        case tooLarge
        case malformed
        case unclear(String)
        case unanswered(String)
        case held(HoldReason, retryAfter: Duration?)
    }

    /// The longest pause that is written and believed.
    static let pauseMax = Duration.seconds(3_600)
    /// Words are for a history and a log: so many printable characters of ASCII.
    static let wordLengthMax = 64
    /// Largest answer read: a hundred entries with ``EntryAnswer/diagnosticsLengthMax`` characters, each of
    /// them an escape of twelve bytes.
    static let bytesMax = 512 << 10

    init(_ content: Content) { self.content = content }

    /// An answer of the exchange, given at `now`.
    init(_ answer: DeliveryAnswer, _ now: Uptime) {
        content =
            switch answer {
            case .entries(let entries): .entries(entries)
            case .notSent(let retryAt): .notSent(retryAfter: retryAt.map { $0 - now })
            case .throttled(let pause): .throttled(retryAfter: pause)
            case .tooLarge: .tooLarge
            case .malformed: .malformed
            case .unclear(let word): .unclear(word)
            case .unanswered(let word): .unanswered(word)
            case .held(let reason, let retryAt):
                .held(reason, retryAfter: retryAt.map { $0 - now })
            }
    }

    /// The meaning for a gateway that gets it at `now` and has sent so many points.
    func answer(count: Int, _ now: Uptime) -> DeliveryAnswer {
        switch content {
        case .entries(let entries):
            entries.count == count ? .entries(entries) : .unclear("relay-miscounted")
        case .notSent(let pause): .notSent(retryAt: pause.map { now + $0 })
        case .throttled(let pause): .throttled(retryAfter: pause)
        case .tooLarge: .tooLarge
        case .malformed: .malformed
        case .unclear(let word): .unclear(word)
        case .unanswered(let word): .unanswered(word)
        case .held(let reason, let pause): .held(reason, retryAt: pause.map { now + $0 })
        }
    }

    // MARK: - Writing

    /// The answer as JSON.
    var bytes: [UInt8] {
        var json = JSONBytes()
        json.raw(#"{"v":1"#)
        func kind(_ name: String) {
            json.raw(#","answer":"#)
            json.string(name)
        }
        func pause(_ pause: Duration?) {
            guard let pause else { return }
            json.raw(#","retry_after_ms":"#)
            json.integer(Int(Self.bounded(pause).microseconds / 1000))
        }
        func word(_ word: String) {
            json.raw(#","word":"#)
            json.string(Self.plain(word))
        }
        switch content {
        case .entries(let entries):
            kind("entries")
            json.raw(#","entries":"#)
            json.array(entries) { Self.write($0, to: &$1) }
        case .notSent(let retry):
            kind("not-sent")
            pause(retry)
        case .throttled(let retry):
            kind("throttled")
            pause(retry)
        case .tooLarge: kind("too-large")
        case .malformed: kind("malformed")
        case .unclear(let text):
            kind("unclear")
            word(text)
        case .unanswered(let text):
            kind("unanswered")
            word(text)
        case .held(let reason, let retry):
            kind("held")
            json.raw(#","reason":"#)
            json.string(reason.rawValue)
            pause(retry)
        }
        json.raw("}")
        return json.bytes
    }

    private static func write(_ entry: EntryAnswer, to json: inout JSONBytes) {
        json.raw(#"{"verdict":"#)
        json.string(entry.verdict.relayWord)
        if case .held(let reason) = entry.verdict {
            json.raw(#","reason":"#)
            json.string(reason.rawValue)
        }
        json.raw(#","status":"#)
        json.integer(entry.status)
        if !entry.diagnostics.isEmpty {
            json.raw(#","diagnostics":"#)
            json.string(entry.diagnostics)
        }
        json.raw("}")
    }

    // MARK: - Reading

    /// Reads what came back, from a relay or from anybody else; nil if it is no answer.
    init?(reading bytes: [UInt8]) {
        guard bytes.count <= Self.bytesMax,
            let document = try? Document(json: bytes),
            document.v == RelayRequest.version, let content = document.content
        else { return nil }
        self.content = content
    }

    fileprivate static func bounded(_ pause: Duration) -> Duration {
        min(max(pause, .zero), pauseMax)
    }

    fileprivate static func plain(_ word: String) -> String {
        String(
            String.UnicodeScalarView(
                word.unicodeScalars.prefix(wordLengthMax).map {
                    0x20...0x7E ~= $0.value ? $0 : "?"
                }))
    }
}

extension EntryVerdict {
    fileprivate var relayWord: String {
        switch self {
        case .stored: "stored"
        case .storedBefore: "stored-before"
        case .held: "held"
        case .refused: "refused"
        case .notWanted: "not-wanted"
        case .unclear: "unclear"
        }
    }

    /// An answer that cannot be understood says nothing about the sample.
    fileprivate init(relayWord word: String?, reason: String?) {
        self =
            switch word {
            case "stored": .stored
            case "stored-before": .storedBefore
            case "held": HoldReason(relayWord: reason).map { .held($0) } ?? .unclear
            case "refused": .refused
            case "not-wanted": .notWanted(.noConsent)
            default: .unclear
            }
    }
}

extension HoldReason {
    /// Nil for what no exchange says.
    fileprivate init?(relayWord word: String?) {
        guard let word, let reason = HoldReason(rawValue: word), reason.isOfExchange else {
            return nil
        }
        self = reason
    }
}

/// The members of an answer that are read.
private struct Document: Decodable {
    struct Entry: Decodable, Sendable {
        @IfAny var verdict: String?
        @IfAny var reason: String?
        @IfAny var status: Int?
        @IfAny var diagnostics: String?
    }

    @IfAny var v: Int64?
    @IfAny var answer: String?
    @IfAny var word: String?
    @IfAny var reason: String?
    @IfAny var retryAfterMs: Int64?
    @IfAny var entries: [IfAny<Entry>]?

    var content: RelayAnswer.Content? {
        let pause = retryAfterMs.map {
            RelayAnswer.bounded(.milliseconds(min($0, RelayAnswer.pauseMax.microseconds / 1000)))
        }
        let word = RelayAnswer.plain(word ?? "")
        switch answer {
        case "entries": return entries.map { .entries($0.map { Self.entry($0.wrappedValue) }) }
        case "not-sent": return .notSent(retryAfter: pause)
        case "throttled": return .throttled(retryAfter: pause)
        case "too-large": return .tooLarge
        case "malformed": return .malformed
        case "unclear": return .unclear(word)
        case "unanswered": return .unanswered(word)
        case "held":
            return HoldReason(relayWord: reason).map { .held($0, retryAfter: pause) }
        default: return nil
        }
    }

    private static func entry(_ entry: Entry?) -> EntryAnswer {
        let status = entry?.status ?? 0
        return EntryAnswer(
            EntryVerdict(relayWord: entry?.verdict, reason: entry?.reason),
            status: 100...599 ~= status ? status : 0, diagnostics: entry?.diagnostics ?? "")
    }
}
