import Basics

/// What became of a store that was found broken: kept in its successor until it is acknowledged.
public struct SalvageReport: Sendable, Hashable, Identifiable {
    /// The store's number for it.
    public let id: Int64
    /// When, by the wall clock, trusted or not.
    public let at: UTC
    /// The name of the broken file, which lies beside the store as long as there are not more than
    /// ``SampleQueue/brokenFilesMax`` of them.
    public let brokenFile: String
    /// What SQLite said.
    public let cause: String
    /// Samples carried over, each under the identity it had.
    public let carried: Int
    /// Rows left behind because they fail their checksum.
    public let damaged: Int
    /// Rows left behind because their assignment could not be read.
    public let orphaned: Int
    /// Samples that waited and are gone, as far as the books tell: counted as dropped,
    /// `store-damaged`.
    public let lost: Int
    /// Whether it was acknowledged: ``SampleQueue/acknowledgeSalvages()``.
    public let isAcknowledged: Bool
}

extension SampleQueue {
    /// The reason under which samples are counted that a broken store lost.
    public static let storeDamaged = "store-damaged"
    /// Broken files kept beside the store; of more, the oldest go. Each is as large as the store was.
    public static let brokenFilesMax = 3
}
