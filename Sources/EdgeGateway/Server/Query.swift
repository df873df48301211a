import Basics
import Hummingbird
import HummingbirdCore

/// The query of a request. An invalid value is refused: a client that asks for one sensor and errs in
/// its number shall not be shown all of them.
struct Query {
    private let parameters: FlatDictionary<Substring, Substring>

    init(_ request: Request) { parameters = request.uri.queryParameters }

    func text(_ name: String) -> String? { parameters[Substring(name)].map { String($0) } }

    /// A whole number; nil if it is not there.
    ///
    /// - Throws: ``ProblemReport``
    func number(_ name: String) throws -> Int64? {
        guard let text = text(name) else { return nil }
        guard let number = Int64(text) else { throw wrong(name, "a whole number") }
        return number
    }

    /// An instant, in seconds since 1970; nil if it is not there.
    ///
    /// - Throws: ``ProblemReport``
    func instant(_ name: String) throws -> UTC? {
        guard let seconds = try number(name) else { return nil }
        guard 0..<253_402_300_800 ~= seconds else { throw wrong(name, "a time") }
        return .epoch + .seconds(seconds)
    }

    /// `true` or `false`; false if it is not there.
    ///
    /// - Throws: ``ProblemReport``
    func flag(_ name: String) throws -> Bool {
        switch text(name) {
        case "true": true
        case "false", nil: false
        default: throw wrong(name, "true or false")
        }
    }

    private func wrong(_ name: String, _ wanted: String) -> ProblemReport {
        ProblemReport(
            code: .badRequest, message: "`\(name)` is not \(wanted)",
            advice: "docs/api.yaml describes it")
    }
}
