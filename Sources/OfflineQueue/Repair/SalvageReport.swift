import Basics

/// The outcome of a store that was found broken: kept in its successor until it is acknowledged.
public struct SalvageReport: Sendable, Hashable, Identifiable {
    /// The store's number for it.
    public let id: Int64
    /// When, by the wall clock, trusted or not.
    public let at: UTC
    /// The name of the broken file, which lies beside the store.
    public let brokenFile: String
    /// The damage.
    public let cause: String
    /// How many samples it had; nil if that is not known.
    public let stored: LastKnown?
    /// Samples carried over, each under the identity it had.
    public let carried: Int
    /// Rows left behind because they fail their checksum.
    public let damaged: Int
    /// Samples left behind because nobody knows whose they are.
    public let orphaned: Int
    /// Whether it got no samples after that.
    let isExact: Bool
    /// Whether nothing more is carried over.
    public let isDone: Bool
    /// Why not all that can be read is here; nil while nothing is in the way.
    public let fault: String?
    /// Whether it was acknowledged: ``SampleQueue/acknowledgeSalvages()``.
    public let isAcknowledged: Bool

    /// Samples of which nobody knows what became; nil if nobody knows how many, as after a power cut, or while it is
    /// being saved.
    public var unknown: Int? {
        guard isDone, isExact else { return nil }
        return stored.map { max($0.samples - carried, damaged + orphaned) }
    }
}

extension SampleQueue {
    /// Files of broken stores that stay when they are acknowledged. Each is as large as the store was.
    public static let brokenFilesMax = 3
}
