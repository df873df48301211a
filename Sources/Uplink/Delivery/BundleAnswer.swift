import Foundation

/// What the exchange said of one entry.
public struct EntryAnswer: Hashable, Sendable {
    /// What it means.
    public var verdict: EntryVerdict
    /// The HTTP status of the entry, 0 if there was none.
    public var status: Int
    /// The exchange's words, at most `diagnosticsLengthMax` characters. They may quote the
    /// measurement: for the dead letters only, never for a log.
    public var diagnostics: String

    /// Old exchanges send 5 KB for each refusal.
    public static let diagnosticsLengthMax = 200

    /// An answer, judged by its status and whole diagnostics.
    public init(status: Int, diagnostics: String, endpoint: EntryVerdict.Endpoint) {
        verdict = .judge(status: status, diagnostics: diagnostics, endpoint: endpoint)
        self.status = status
        self.diagnostics = String(diagnostics.prefix(Self.diagnosticsLengthMax))
    }

    /// The answer to an entry that was not even sent.
    static let notWanted = EntryAnswer(verdict: .notWanted)

    private init(verdict: EntryVerdict) {
        self.verdict = verdict
        status = 0
        diagnostics = ""
    }
}

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

    /// Reads the answer to a bundle of `count` entries.
    public init(_ body: [UInt8], count: Int) throws(Fault) {
        let document: Document
        do {
            document = try JSONDecoder().decode(Document.self, from: Data(body))
        } catch is DecodingError {
            throw Self.isJSON(body) ? .notABatchResponse : .notJSON
        } catch {
            throw .notJSON
        }
        guard document.resourceType == "Bundle", document.type == "batch-response" else {
            throw .notABatchResponse
        }
        guard document.entry.count == count else { throw .miscounted }
        entries = document.entry.map {
            EntryAnswer(status: $0.status, diagnostics: $0.diagnostics, endpoint: .bundle)
        }
    }

    private static func isJSON(_ body: [UInt8]) -> Bool {
        (try? JSONDecoder().decode(Anything.self, from: Data(body))) != nil
    }

    private struct Anything: Decodable {
        init(from decoder: any Decoder) throws {}
    }

    private struct Document: Decodable {
        var resourceType: String
        var type: String
        var entry: [Entry]
    }

    /// An entry that is not as it should be is read as far as it goes: it becomes unclear by itself
    /// and does not take the others with it.
    private struct Entry: Decodable {
        var status = 0
        var diagnostics = ""

        private enum CodingKeys: String, CodingKey {
            case response
        }

        init(from decoder: any Decoder) throws {
            guard let container = try? decoder.container(keyedBy: CodingKeys.self),
                let response = try? container.decode(Response.self, forKey: .response)
            else { return }
            // "201 Created": exactly three digits, then nothing or a blank.
            let parts = response.status.split(separator: " ", maxSplits: 1)
            if let first = parts.first, first.utf8.count == 3,
                first.utf8.allSatisfy({ 0x30...0x39 ~= $0 })
            {
                status = Int(first) ?? 0
            }
            diagnostics = response.outcome?.diagnostics ?? ""
        }
    }

    private struct Response: Decodable {
        var status: String
        var outcome: OperationOutcome?

        private enum CodingKeys: String, CodingKey {
            case status, outcome
        }

        init(from decoder: any Decoder) throws {
            let container = try decoder.container(keyedBy: CodingKeys.self)
            status = try container.decode(String.self, forKey: .status)
            outcome = try? container.decode(OperationOutcome.self, forKey: .outcome)
        }
    }
}

/// FHIR's way to say what went wrong (R5 OperationOutcome).
struct OperationOutcome: Decodable {
    struct Issue: Decodable {
        var diagnostics: String?
    }

    var issue: [Issue]?

    var diagnostics: String { issue?.first?.diagnostics ?? "" }

    /// The diagnostics in a single endpoint's error body, empty if it is none.
    static func diagnostics(_ body: [UInt8]) -> String {
        (try? JSONDecoder().decode(OperationOutcome.self, from: Data(body)))?.diagnostics ?? ""
    }
}
