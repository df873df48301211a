/// How long the listings of the store are.
enum Listing {
    /// Samples, letters or requests one listing may be asked for: an answer of some megabytes.
    static let entriesMax = 10_000

    /// - Throws: ``ProblemReport`` for a limit outside of 1 to ``entriesMax``.
    static func check(limit: Int) throws {
        guard (1...entriesMax).contains(limit) else {
            throw ProblemReport(
                code: .badRequest, message: "a list has 1 to \(entriesMax) entries",
                advice: "ask for --limit 100")
        }
    }
}
