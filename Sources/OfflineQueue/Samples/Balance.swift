import Basics

/// The books: where every frame that ever arrived is now.
public struct Balance: Sendable, Hashable {
    /// Frames taken over, readable or not.
    public var received = 0
    /// Samples written to the store.
    public var stored = 0
    /// Frames no measurement could be read from; kept.
    public var undecodable = 0
    /// Frames neither disk nor memory could take, by reason. Lost, and therefore a term of its own:
    /// they were never stored.
    public var refused: [String: Int] = [:]
    /// Copies of frames, passed over: another program listens to the strap as well.
    public var doubled = 0
    /// Samples the exchange has.
    public var delivered = 0
    /// Samples that wait for their turn.
    public var pending = 0
    /// Samples that wait for a person, by reason: `not-enrolled`, `clock-unknown`, `enroll-again`, or
    /// the hold of their delivery. Each sample under one reason, the first that applies in this order.
    public var held: [String: Int] = [:]
    /// Samples the exchange refused for good.
    public var dead = 0
    /// Samples a policy withheld, by reason.
    public var dropped: [String: Int] = [:]
    /// Frames still in memory; in none of the figures above until they are written.
    public var buffered = 0
    /// When the oldest sample that is neither delivered, dead nor dropped arrived; nil if
    /// there is none, or while the clock of its boot is not trusted.
    public internal(set) var oldestUnsent: UTC?

    /// All zero.
    public init() {}

    /// Samples that are neither delivered, dead nor dropped.
    public var unsent: Int { pending + held.values.reduce(0, +) }

    /// Whether both equations hold:
    /// `received = stored + undecodable + refused + doubled` and
    /// `stored = delivered + pending + held + dead + dropped`.
    public var isBalanced: Bool {
        received == stored + undecodable + refused.values.reduce(0, +) + doubled
            && stored == delivered + unsent + dead + dropped.values.reduce(0, +)
    }
}

/// Whose books.
public enum BalanceScope: Sendable, Hashable {
    /// Everybody's.
    case everything
    /// One delivery's.
    case enrollment(Int64)
    /// One sensor's, for all its patients.
    case sensor(Int64)
    /// One assignment's.
    case assignment(Int64)
    /// The counts of one delivery for one patient, where the assignments name patients.
    case patient(String, enrollment: Int64)
}

/// The counters, and what counting the rows one by one gave.
public struct Audit: Sendable, Hashable {
    /// Lines, and samples, one report holds at most: on a store that is broken all over, more would
    /// say nothing more.
    public static let findingsMax = 1_000

    /// One line for each thing that is not as it should be: "segment 3 stored: counter 10, rows 9".
    public internal(set) var differences: [String] = []
    /// Samples whose row fails its checksum.
    public internal(set) var damaged: [Int64] = []
    /// Samples checked.
    public internal(set) var samples = 0

    /// Whether counters and rows agree and every row is as it was written.
    public var isClean: Bool { differences.isEmpty && damaged.isEmpty }

    mutating func add(_ difference: String) {
        if differences.count < Self.findingsMax { differences.append(difference) }
    }
}
