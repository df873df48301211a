import OfflineQueue

/// The names that people give to straps, enrollments and destinations, and to the gateway.
enum GivenName {
    /// The longest, in Unicode scalars: lists show names in a column.
    static let lengthMax = 64

    /// Whether `text` can be a name: it is seen as it was typed, and by itself.
    static func isValid(_ text: String) -> Bool { fault(text) == nil }

    /// Refuses what cannot be a name, before anything is done.
    ///
    /// - Parameter name: nil: none is given.
    /// - Throws: ``ProblemReport``
    static func check(_ name: String?) throws {
        guard let name, let fault = fault(name) else { return }
        throw ProblemReport(
            code: .badRequest, message: fault,
            advice: "give 1 to \(lengthMax) printable characters, with single blanks between words")
    }

    /// Whether two names are one to a person, who types either in small letters.
    static func areSame(_ one: String, _ other: String) -> Bool {
        one.lowercased() == other.lowercased()
    }

    /// Why a text can be no name.
    private static func fault(_ text: String) -> String? {
        let length = text.unicodeScalars.count
        if length == 0 { return "the name is empty" }
        if length > lengthMax {
            return "the name has \(length) characters, and \(lengthMax) is the most"
        }
        if Printable.line(text) != text { return "the name has characters that cannot be printed" }
        if isBlank(text.first) || isBlank(text.last) {
            return "the name has a blank at an end"
        }
        if isPartOfAddress(text) { return "the name looks like the address of a strap" }
        // A page, and a person who types the name, make one blank of several.
        if zip(text, text.dropFirst()).contains(where: { isBlank($0) && isBlank($1) }) {
            return "the name has several blanks in a row"
        }
        return nil
    }

    /// Whether a strap's address, or its end, can be meant: two octets or more.
    private static func isPartOfAddress(_ text: String) -> Bool {
        let octets = text.trimmingPrefix("…").split(
            separator: ":", omittingEmptySubsequences: false)
        return octets.count > 1
            && octets.allSatisfy { $0.count == 2 && $0.allSatisfy(\.isHexDigit) }
    }

    private static func isBlank(_ character: Character?) -> Bool {
        character?.isWhitespace ?? false
    }
}

extension [Enrollment] {
    /// The one with that name.
    func named(_ name: String) -> Enrollment? { first { GivenName.areSame($0.terms.name, name) } }
}
