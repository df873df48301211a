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
            document = try JSONReader.read(body, Document.init(reading:))
        } catch {
            throw .notJSON
        }
        guard document.resourceType == "Bundle", document.type == "batch-response",
            let entries = document.entries
        else { throw .notABatchResponse }
        guard entries.count == count else { throw .miscounted }
        self.entries = entries
    }
}

/// What is of interest in a bundle's answer. Of members with the same name the last one counts, as for
/// the exchange itself.
private struct Document {
    var resourceType: String?
    var type: String?
    /// Nil if there is no array of them.
    var entries: [EntryAnswer]?

    init(reading reader: inout JSONReader) throws(JSONReader.Fault) {
        try reader.objectIfAny { reader, name throws(JSONReader.Fault) in
            switch name {
            case "resourceType": resourceType = try reader.stringIfAny()
            case "type": type = try reader.stringIfAny()
            case "entry": entries = try reader.listIfAny(Self.entry)
            default: try reader.skip()
            }
        }
    }

    /// An entry that is not as it should be is read as far as it goes: it becomes unclear by itself
    /// and does not take the others with it.
    private static func entry(
        _ reader: inout JSONReader
    ) throws(JSONReader.Fault) -> EntryAnswer {
        var status = 0
        var diagnostics = ""
        try reader.objectIfAny { reader, name throws(JSONReader.Fault) in
            guard name == "response" else { return try reader.skip() }
            (status, diagnostics) = (0, "")
            try reader.objectIfAny { reader, name throws(JSONReader.Fault) in
                switch name {
                case "status": status = number(of: try reader.stringIfAny())
                case "outcome": diagnostics = try OperationOutcome.diagnostics(&reader)
                default: try reader.skip()
                }
            }
        }
        return EntryAnswer(status: status, diagnostics: diagnostics, endpoint: .bundle)
    }

    /// "201 Created": exactly three digits, then nothing or a blank. 0 for anything else.
    private static func number(of status: String?) -> Int {
        guard let status else { return 0 }
        let digits = status.utf8.prefix { $0 != 0x20 }
        guard digits.count == 3, digits.allSatisfy({ 0x30...0x39 ~= $0 }) else { return 0 }
        return Int(Substring(digits)) ?? 0
    }
}

/// FHIR's way to say what went wrong (R5 OperationOutcome).
enum OperationOutcome {
    /// The diagnostics in a single endpoint's error body, empty if it is none.
    static func diagnostics(_ body: [UInt8]) -> String {
        (try? JSONReader.read(body, diagnostics)) ?? ""
    }

    /// The diagnostics of the first issue, empty if there are none.
    static func diagnostics(_ reader: inout JSONReader) throws(JSONReader.Fault) -> String {
        var diagnostics = ""
        try reader.objectIfAny { reader, name throws(JSONReader.Fault) in
            guard name == "issue" else { return try reader.skip() }
            _ = try reader.listIfAny(atMost: 1) { reader throws(JSONReader.Fault) in
                try reader.objectIfAny { reader, name throws(JSONReader.Fault) in
                    guard name == "diagnostics" else { return try reader.skip() }
                    diagnostics = try reader.stringIfAny() ?? ""
                }
            }
        }
        return diagnostics
    }
}
