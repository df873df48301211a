/// Which gateway may write for which patients: a text that a person reads, one pair a line.
///
///     # gateway   patient
///     ward3-07    40001     # bed 7
///
/// A gateway may not write for a patient who is not in it. It cannot change it: whoever stole one could as well.
public struct RelayTable: Sendable, Hashable {
    /// Why a text is no table.
    public struct Fault: Error, Hashable, Sendable, CustomStringConvertible {
        /// The line, from 1 on.
        public var line: Int
        /// The fault.
        public var message: String

        /// Both.
        public var description: String { "line \(line): \(message)" }
    }

    /// A hospital's gateways with the patients of a year.
    public static let linesMax = 1_000_000

    private var patients: [String: Set<String>] = [:]

    /// An empty one: nobody may write.
    public init() {}

    /// Reads a table.
    public init(_ text: String) throws(Fault) {
        let (table, faults) = Self.read(text)
        if let fault = faults.first { throw fault }
        self = table
    }

    /// The pairs of a text, and everything that is wrong with it.
    public static func read(_ text: String) -> (table: RelayTable, faults: [Fault]) {
        var table = RelayTable()
        var faults: [Fault] = []
        var number = 0
        for line in lines(of: text) {
            number += 1
            func note(_ message: String) { faults.append(Fault(line: number, message: message)) }
            guard number <= linesMax else {
                note("there are more than \(linesMax) lines")
                break
            }
            let words = words(of: line)
            guard !words.isEmpty else { continue }
            if words.count != 2 {
                note("write a gateway and a patient")
            } else if !isGateway(words[0]) {
                note("this is no gateway's name")
            } else if !PatientAccess.isExchangeID(words[1]) {
                note("a patient is a number, such as 40001")
            } else {
                table.patients[words[0], default: []].insert(words[1])
            }
        }
        return (table, faults)
    }

    /// The lines of a text, whichever system's editor has written it: LF and CRLF are one character each.
    public static func lines(of text: String) -> [Substring] {
        text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline)
    }

    /// What a line says, without its comment.
    public static func words(of line: Substring) -> [String] {
        line.prefix { $0 != "#" }.split(whereSeparator: \.isWhitespace).map(String.init)
    }

    /// Whether this gateway may write for this patient.
    public func allows(_ gateway: String, _ patient: String) -> Bool {
        patients[gateway]?.contains(patient) ?? false
    }

    /// The pairs in it.
    public var count: Int { patients.values.reduce(0) { $0 + $1.count } }

    /// Whether `text` is a gateway's name: it is one token of a subject.
    public static func isGateway(_ text: String) -> Bool {
        1...63 ~= text.utf8.count
            && text.utf8.allSatisfy { $0.isAlphanumeric || $0 == 0x2D || $0 == 0x5F }
    }
}
