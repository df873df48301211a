import Basics

/// How well the store takes what comes, and what is wrong with it.
public struct StoreFacts: Sendable, Hashable {
    /// Why the last commit failed, or nil if it did not.
    public var fault: QueueError?
    /// Uptime of the first failure since the last success.
    public var failingSince: Uptime?
    /// Whether the store is not open for writing: what is asked is answered from what can be read of it.
    public var isAbsent: Bool
    /// How often it was opened for writing in this run: who wears what may be known otherwise each time.
    public var openings: Int
    /// Whether a salvage is under way.
    public var isSalvaging: Bool
    /// Samples in memory and not yet on disk.
    public var buffered: Int
    /// When the oldest of these arrived; nil if there is none.
    var oldestBuffered: Uptime?
    /// When the last frame was taken; nil if none was in this run.
    public var taken: Uptime?
    /// When something recorded was last written; nil if nothing was in this run.
    public var committed: Uptime?
    /// By assignment, when the newest frame arrived that this run has stored.
    public var stored: [Int64: Uptime]
    /// Samples refused since this start, because memory was full too or ``StoreFill`` at its limit.
    public var refused: Int
    /// The latest salvage of a broken store that was not acknowledged yet.
    public var salvage: SalvageReport?
    /// Samples whose row was found to be damaged, not acknowledged yet.
    public var damagedRows: Int
    /// The latest that was not acknowledged yet.
    public var missing: MissingStore?
    /// The latest step of the running boot's wall clock.
    public var clockStep: ClockStep?
    /// What is left of the disk; nil if the file system does not tell.
    public var room: DiskRoom?
}

extension SampleQueue {
    /// How well the store takes what comes. Reads neither file nor database, and changes nothing.
    public func health() -> StoreFacts {
        StoreFacts(
            fault: commits.fault, failingSince: commits.failingSince,
            isAbsent: store.absence != nil, openings: store.openings,
            isSalvaging: store.absence?.isSalvaging == true,
            buffered: buffer.arrivals.count,
            oldestBuffered: buffer.arrivals.first?.uptime, taken: buffer.takenUptime,
            committed: commits.committedUptime, stored: commits.storedUptimes,
            refused: buffer.refusedCount,
            salvage: repair.salvage, damagedRows: repair.findings.damagedRows,
            missing: repair.findings.missing, clockStep: run.clock.steps.last,
            room: DiskRoom(at: store.path))
    }
}
