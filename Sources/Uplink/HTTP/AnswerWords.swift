/// A server's words about a fault.
extension HTTPAnswer {
    /// The server's own sentence in a document that reports an error, or a short plain text; nil if there is none.
    /// It may quote what was sent.
    var words: String? {
        switch content {
        case .document:
            (try? ReportedError(json: body))?.message
                ?? (try? OperationOutcome(json: body)).flatMap { $0.words.isEmpty ? nil : $0.words }
        case .other: String(decoding: body.prefix(500), as: UTF8.self)
        case .page, .empty: nil
        }
    }

    /// The answer in a sentence for a person, such as "HTTP 400: no such scope" or "HTTP 502 with a web page".
    func shown(hiding patients: Set<String> = []) -> String {
        "HTTP \(status)"
            + (words(hiding: patients).map { ": " + $0 } ?? " with \(content.rawValue)")
    }

    /// The same for logs and reports, without these patients' identifiers.
    func words(hiding patients: Set<String>) -> String? {
        words.flatMap { ServerWords.shown($0, hiding: patients) }
    }
}

/// A document that reports an error.
private struct ReportedError: Decodable {
    /// The members in which servers write their sentence, the one that says most first. Some put them into an object below
    /// one of these.
    private enum CodingKeys: String, CodingKey, CaseIterable {
        case errorDescription, message, msg, detail, error, title, reason
    }

    let message: String?

    init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        message = CodingKeys.allCases.lazy.compactMap { key in
            (try? members.decode(String.self, forKey: key))
                ?? (try? members.decode(ReportedError.self, forKey: key))?.message
        }.first { !$0.isEmpty }
    }
}

/// A server's words, made fit to be shown.
enum ServerWords {
    /// Longest text that is shown, in characters.
    static let lengthMax = 160
    /// A longer run of characters without a blank may be a token.
    static let wordLengthMax = 40

    /// The same without these patients' identifiers or secrets; nil if nothing is left.
    static func shown(_ text: String, hiding secrets: Set<String>) -> String? {
        var text = text
        // One secret may be part of another.
        for secret in secrets.sorted(by: { $0.count > $1.count }) where !secret.isEmpty {
            text.replace(secret, with: "...")
        }
        let shown = shown(text)
        return shown.isEmpty ? nil : shown
    }

    /// The beginning of the first line: one printable ASCII line, and no digits, for a server may quote what it was
    /// given.
    static func shown(_ text: String) -> String {
        let line = text.prefix { !$0.isNewline }.prefix(lengthMax)
        let masked = line.map { character -> Character in
            let isShown = character.isASCII && (character == " " || !character.isWhitespace)
            guard isShown, (character.asciiValue ?? 0) >= 0x20, character.asciiValue != 0x7F else {
                return "?"
            }
            return character.isNumber ? "#" : character
        }
        return masked.split(separator: " ").map { word in
            word.count > wordLengthMax ? "..." : String(word)
        }.joined(separator: " ")
    }
}
