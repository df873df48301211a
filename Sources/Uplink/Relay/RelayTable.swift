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
        var fault: Fault?
        self.init(text) { fault = fault ?? $0 }
        if let fault { throw fault }
    }

    /// Everything that is wrong with a text.
    public static func faults(in text: String) -> [Fault] {
        var faults: [Fault] = []
        _ = RelayTable(text) { faults.append($0) }
        return faults
    }

    private init(_ text: String, note: (Fault) -> Void) {
        var number = 0
        for line in text.split(separator: "\n", omittingEmptySubsequences: false) {
            number += 1
            guard number <= Self.linesMax else {
                note(Fault(line: number, message: "there are more than \(Self.linesMax) lines"))
                return
            }
            let words = line.prefix { $0 != "#" }.split { $0 == " " || $0 == "\t" || $0 == "\r" }
            guard !words.isEmpty else { continue }
            guard words.count == 2 else {
                note(Fault(line: number, message: "write a gateway and a patient"))
                continue
            }
            guard Self.isGateway(String(words[0])) else {
                note(Fault(line: number, message: "this is no gateway's name"))
                continue
            }
            guard PatientAccess.isExchangeID(String(words[1])) else {
                note(Fault(line: number, message: "a patient is a number, such as 40001"))
                continue
            }
            patients[String(words[0]), default: []].insert(String(words[1]))
        }
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
