import HTTPTypes
import OfflineQueue

/// A fault that a command or an API call can report.
struct ProblemReport: Codable, Error, Equatable {
    /// The stable name of a ``ProblemCode``, such as `no-adapter`.
    var code: String
    /// The event, one line.
    var message: String
    /// The remedy, one line.
    var advice: String

    init(code: ProblemCode, message: String, advice: String) {
        self.code = code.rawValue
        self.message = message
        self.advice = advice
    }

    /// The problem that a fault of the store is for the client.
    init(_ error: QueueError) {
        self.init(
            code: ProblemCode(error.code), message: "\(error.operation): \(error.cause)",
            advice: error.code.advice)
    }

    /// The status that goes with the code. A report of a newer daemon may have a code that is not known here.
    var httpStatus: HTTPResponse.Status { ProblemCode(rawValue: code)?.status ?? .conflict }
}
