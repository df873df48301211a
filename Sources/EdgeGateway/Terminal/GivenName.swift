import OfflineQueue

/// The names that people give to straps, enrollments and destinations, and to the gateway.
enum GivenName {
    /// The longest, in Unicode scalars: lists show names in a column.
    static let lengthMax = 64

    /// Whether `text` can be a name: it is seen as it was typed, and by itself.
    static func isValid(_ text: String) -> Bool {
        (1...lengthMax).contains(text.unicodeScalars.count) && Printable.line(text) == text
            && !isBlank(text.first) && !isBlank(text.last)
    }

    /// Refuses what cannot be a name, before anything is done.
    ///
    /// - Parameter name: nil: none is given.
    /// - Throws: ``ProblemReport``
    static func check(_ name: String?) throws {
        guard let name, !isValid(name) else { return }
        throw ProblemReport(
            code: .badRequest, message: "this is not a name",
            advice: "give 1 to \(lengthMax) printable characters, with no blank at either end")
    }

    private static func isBlank(_ character: Character?) -> Bool {
        character?.isWhitespace ?? false
    }
}

extension [Enrollment] {
    /// The one with that name.
    func named(_ name: String) -> Enrollment? { first { $0.terms.name == name } }
}
