/// The content of an answer, for a person.
public enum AnswerContent: String, Sendable {
    /// A page for people: of a proxy, a captive portal, a maintenance notice, or a server's
    /// software.
    case page = "a web page"
    /// No body at all.
    case empty = "an empty answer"
    /// A document, but none that says what became of the samples.
    case document = "an error"
    /// Something else.
    case other = "an answer that is no document"
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

    /// The kind of body, for a person.
    var content: AnswerContent {
        if isDocument { return .document }
        guard let first = body.first(where: { !Self.blanks.contains($0) }) else { return .empty }
        let isPage = (contentType ?? "").lowercased().contains("html") || first == 0x3C
        return isPage ? .page : .other
    }

    /// Whether the body begins as a page does. Many servers send an `OK` as `text/html`.
    var isMarkup: Bool {
        content == .page && body.first { !Self.blanks.contains($0) } == 0x3C
    }
}
