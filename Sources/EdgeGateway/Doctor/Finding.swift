/// The result of one check of `doctor`: one line, and what to do.
struct Finding: Codable, Equatable, Sendable {
    enum Verdict: String, Codable, Sendable {
        /// As it should be.
        case ok
        /// It works, and may not tomorrow.
        case warning
        /// It keeps the gateway from its work.
        case fault
        /// It cannot be told here.
        case unknown
    }

    /// Stable name, such as `clock`.
    var name: String
    var verdict: Verdict
    var message: String
    /// The remedy; empty where there is nothing to do.
    var remedy: String

    static func ok(_ name: String, _ message: String) -> Finding {
        Finding(name: name, verdict: .ok, message: message, remedy: "")
    }
    static func warning(_ name: String, _ message: String, _ remedy: String) -> Finding {
        Finding(name: name, verdict: .warning, message: message, remedy: remedy)
    }
    static func fault(_ name: String, _ message: String, _ remedy: String) -> Finding {
        Finding(name: name, verdict: .fault, message: message, remedy: remedy)
    }
    static func unknown(_ name: String, _ message: String, _ remedy: String = "") -> Finding {
        Finding(name: name, verdict: .unknown, message: message, remedy: remedy)
    }
}

/// `doctor --json`
struct DoctorReport: Codable, Equatable {
    var version: String
    /// No fault was found.
    var well: Bool
    var findings: [Finding]
}
