/// The policy of the queue when it has reached ``QueueSettings/maxBytes`` and nothing delivered is left
/// to delete.
public enum FullPolicy: String, Sendable, Hashable, CaseIterable {
    /// Stored samples stay; new frames are refused, counted as `queue-full`.
    case refuseNew = "refuse-new"
    /// The oldest samples that wait are dropped, counted as `queue-full`. Dead letters stay.
    case keepNewest = "keep-newest"
}

/// How full the store is.
public struct StoreFill: Sendable, Hashable {
    /// The part of the limit at which a person should know: with the default limit, about two
    /// weeks before it is reached.
    public static let warningFraction = 0.8

    /// Bytes of the pages that hold something. The file may be larger: SQLite uses the pages again
    /// that were freed, and does not give them back.
    public var usedBytes: Int64
    /// Of these, about how many belong to samples that are delivered or dropped and go first.
    public var reclaimableBytes: Int64
    /// The write-ahead log beside the file, which the limit does not cover: normally about 1 MiB at
    /// most, more while another program reads the store for long.
    public var logBytes: Int64
    /// ``QueueSettings/maxBytes``.
    public var maxBytes: Int64?
    /// ``QueueSettings/fullPolicy``.
    public var policy: FullPolicy
    /// Whether the last commit had to refuse or drop samples for want of room.
    public var isFull: Bool

    /// The part of the limit that is taken by what must not go, 0 or more; nil without a limit.
    public var fraction: Double? {
        guard let maxBytes else { return nil }
        return Double(max(0, usedBytes - reclaimableBytes)) / Double(max(1, maxBytes))
    }

    /// Whether a person should know before it is full.
    public var isNearlyFull: Bool { isFull || (fraction ?? 0) >= Self.warningFraction }
}
