/// The body of a bundle's answer, read without believing any of it.
public struct BundleAnswer: Sendable {
    /// Why nothing in an answer may be believed. All samples of the request stay unknown.
    public enum Fault: Error, Hashable, Sendable {
        /// Not JSON, cut short, or nested beyond measure.
        case notJSON
        /// JSON, but no `batch-response` bundle.
        case notABatchResponse
        /// More or fewer entries than were sent: positions mean nothing then.
        case miscounted
    }

    /// One answer per entry sent, in the same order.
    public let entries: [EntryAnswer]

    /// Reads an exchange's answer to a bundle of `count` entries.
    public init(_ body: [UInt8], count: Int) throws(Fault) {
        try self.init(body, count: count) { status, outcome in
            EntryAnswer(
                status: status, diagnostics: outcome?.diagnostics ?? "", endpoint: .bundle)
        }
    }

    /// Reads the answer to a bundle of `count` entries, each by `judge`.
    init(
        _ body: [UInt8], count: Int, judge: (Int, OperationOutcome?) -> EntryAnswer
    ) throws(Fault) {
        let document: Document?
        do {
            document = try IfAny<Document>(json: body).wrappedValue
        } catch {
            throw .notJSON
        }
        guard let document, document.resourceType == "Bundle", document.type == "batch-response",
            let entries = document.entry
        else { throw .notABatchResponse }
        guard entries.count == count else { throw .miscounted }
        // An entry that is not as it should be is read as far as it goes: it becomes unclear by itself
        // and does not take the others with it.
        self.entries = entries.map { entry in
            let response = entry.wrappedValue?.response
            return judge(Document.number(of: response?.status), response?.outcome)
        }
    }
}

/// The members of a bundle's answer that are read.
private struct Document: Decodable {
    @IfAny var resourceType: String?
    @IfAny var type: String?
    /// Nil if there is no array of them.
    @IfAny var entry: [IfAny<Entry>]?

    struct Entry: Decodable, Sendable {
        @IfAny var response: Response?
    }

    struct Response: Decodable, Sendable {
        @IfAny var status: String?
        @IfAny var outcome: OperationOutcome?
    }

    /// "201 Created": exactly three digits, then nothing or a blank. 0 for anything else.
    static func number(of status: String?) -> Int {
        guard let status else { return 0 }
        let digits = status.utf8.prefix { $0 != 0x20 }
        guard digits.count == 3, digits.allSatisfy({ 0x30...0x39 ~= $0 }) else { return 0 }
        return Int(Substring(digits)) ?? 0
    }
}

/// FHIR's way to say what went wrong (OperationOutcome of R4 and R5).
struct OperationOutcome: Decodable, Sendable {
    private struct Issue: Decodable, Sendable {
        @IfAny var severity: String?
        @IfAny var code: String?
        @IfAny var diagnostics: String?
        @IfAny var details: Details?
        @IfAny var expression: [String]?
    }

    private struct Details: Decodable, Sendable {
        @IfAny var text: String?
    }

    @IfAny private var issue: [IfAny<Issue>]?

    /// The diagnostics of the first issue, empty if there are none.
    var diagnostics: String { issue?.first?.wrappedValue?.diagnostics ?? "" }

    /// The first issue that is an error: its code, what it says, and of which element; empty if there are none.
    var words: String {
        let issues = (issue ?? []).compactMap(\.wrappedValue)
        let isError = { (issue: Issue) in ["error", "fatal"].contains(issue.severity) }
        guard let issue = issues.first(where: isError) ?? issues.first else { return "" }
        let element = issue.expression?.first.map { "(\($0))" }
        return [issue.code.map { $0 + ":" }, issue.diagnostics ?? issue.details?.text, element]
            .compactMap(\.self).joined(separator: " ")
    }

    /// The diagnostics in a single endpoint's error body; empty if the body is no OperationOutcome.
    static func diagnostics(_ body: [UInt8]) -> String {
        (try? OperationOutcome(json: body))?.diagnostics ?? ""
    }
}
