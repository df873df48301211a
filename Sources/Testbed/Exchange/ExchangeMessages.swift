import Foundation

/// A request as the exchange's web framework sees it.
struct ExchangeRequest: Sendable {
    var method: String
    /// The Host header.
    var host: String
    /// The path, percent-decoded, without the query.
    var path: String
    var query: [String: [String]]
    /// By name in lower case.
    var headers: [String: String]
    /// Empty when the request named no Content-Length: the server does not read chunked bodies.
    var body: [UInt8]

    /// - Parameters:
    ///   - target: path and query as in the request line.
    ///   - headers: with their names in lower case.
    init(
        method: String, host: String, target: String, headers: [(String, String)], body: [UInt8]
    ) {
        let parts = target.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        self.method = method
        self.host = host
        path = String(parts[0]).removingPercentEncoding ?? String(parts[0])
        query = parts.count > 1 ? formFields(String(parts[1])) : [:]
        self.headers = Dictionary(headers, uniquingKeysWith: { $0 + ", " + $1 })
        self.body = body
    }

    /// A header's value; nil when absent.
    func header(_ name: String) -> String? {
        headers[name.lowercased()]
    }

    /// The media type without parameters, in lower case; empty when absent.
    var mediaType: String {
        let value = header("Content-Type") ?? ""
        return value.prefix { $0 != ";" }.trimmingCharacters(in: .whitespaces).lowercased()
    }
}

/// An answer of the exchange.
struct ExchangeAnswer: Sendable {
    var status: Int
    var headers: [(name: String, value: String)] = []
    var body: [UInt8]

    /// A JSON answer.
    static func json(_ status: Int, _ body: ExchangeJSON) -> ExchangeAnswer {
        ExchangeAnswer(
            status: status, headers: [("Content-Type", "application/json")], body: body.bytes)
    }

    /// The framework's own refusal: `{"detail": …}`.
    static func detail(_ status: Int, _ text: String) -> ExchangeAnswer {
        json(status, ["detail": .string(text)])
    }

    /// A refusal of the single-resource endpoint.
    static func outcome(_ status: Int, _ diagnostics: String) -> ExchangeAnswer {
        var issue = operationOutcome(diagnostics)
        if case .object(let members) = issue {
            issue = .object(
                [ExchangeJSON.Member(name: "resourceType", value: "OperationOutcome")] + members)
        }
        return json(status, issue)
    }

    /// An OAuth refusal.
    static func oauth(_ status: Int, _ error: String, _ description: String? = nil)
        -> ExchangeAnswer
    {
        var body: [ExchangeJSON.Member] = [.init(name: "error", value: .string(error))]
        if let description {
            body.append(.init(name: "error_description", value: .string(description)))
        }
        return json(status, .object(body))
    }

    /// A page for people, which is what a client gets when the framework itself gives up.
    static func html(_ status: Int, _ title: String) -> ExchangeAnswer {
        let page = """
            <!doctype html>
            <html lang="en">
            <head>
              <title>\(title)</title>
            </head>
            <body>
              <h1>\(title)</h1><p></p>
            </body>
            </html>

            """
        return ExchangeAnswer(
            status: status, headers: [("Content-Type", "text/html; charset=utf-8")],
            body: Array(page.utf8))
    }

    static let notFound = html(404, "Not Found")
    static let serverError = html(500, "Server Error (500)")

    func with(_ name: String, _ value: String) -> ExchangeAnswer {
        var copy = self
        copy.headers.append((name, value))
        return copy
    }
}

/// The `outcome` of one refused entry.
func operationOutcome(_ diagnostics: String) -> ExchangeJSON {
    [
        "issue": [
            ["severity": "error", "code": "processing", "diagnostics": .string(diagnostics)]
        ]
    ]
}

/// How the answer reaches the client; a fault may spoil it after the work is done.
enum ExchangeDelivery: Sendable, Hashable {
    case whole
    /// The connection breaks without one byte.
    case none
    /// The connection breaks after this share of the body, 0…1.
    case partial(Double)
    /// Nothing comes, and the connection stays open.
    case silence
}

/// The form fields of a body, `application/x-www-form-urlencoded`.
func formFields(_ text: String) -> [String: [String]] {
    var fields: [String: [String]] = [:]
    for pair in text.split(separator: "&") {
        let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        let decode = { (part: Substring) -> String in
            let spaced = String(part).replacing("+", with: " ")
            return spaced.removingPercentEncoding ?? spaced
        }
        fields[decode(parts[0]), default: []].append(parts.count > 1 ? decode(parts[1]) : "")
    }
    return fields
}
