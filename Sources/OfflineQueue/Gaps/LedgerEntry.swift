import Basics

/// A report of the gap ledger to a destination: why samples are missing, or how much of a day there is.
///
/// An entry never changes once it is sent: a gap waits for the end of its silence. It has the same `id` whenever it is sent
/// again.
public struct LedgerEntry: Sendable, Hashable {
    /// The content.
    public enum Content: Sendable, Hashable {
        /// Time without samples. Where it begins and ends, nil if the clock was not trusted then;
        /// and how long it was, if that is known.
        case gap(GapCause, from: UTC?, until: UTC?, length: Duration?)
        /// A UTC day that is over, in days since 1970-01-01.
        case coverage(day: Int64, Coverage)
    }

    /// Known by no other entry of any gateway.
    public let id: String
    /// The assignment whose time it is.
    public let assignmentID: Int64
    /// The sensor worn.
    public let sensorID: Int64
    /// The patient, as the samples name it; nil: the destination's own.
    public let patient: String?
    /// The content.
    public let content: Content
    /// Where the destination goes on after it.
    let cursor: LedgerCursor
}

extension LedgerEntry {
    /// An entry that no store has, such as an invented one.
    public init(id: String, sensorID: Int64, patient: String?, _ content: Content) {
        self.init(
            id: id, assignmentID: 0, sensorID: sensorID, patient: patient, content: content,
            cursor: LedgerCursor())
    }
}

/// How far a destination has been told of an assignment's ledger.
struct LedgerCursor: Sendable, Hashable {
    /// Where the last gap begins that was sent.
    var gap = Instant.unknown
    /// The last day whose coverage was sent, in days since 1970-01-01.
    var day: Int64 = 0
}
