import Basics

/// How well the store takes what comes, and what is wrong with it.
public struct StoreFacts: Sendable, Hashable {
    /// Why the last commit failed, or nil if it did not.
    public var fault: QueueError?
    /// Whether the store is not open: what is asked is answered from what the sidecar knows.
    public var isAbsent: Bool
    /// While it is absent, how many samples it had, and when that was; nil if nobody knows.
    public var lastKnown: LastKnown?
    /// How often it was opened for writing in this run: who wears what may be known otherwise each time.
    public var openings: Int
    /// Whether samples of a broken store are being saved.
    public var isSalvaging: Bool
    /// Samples in memory and not yet on disk.
    public var buffered: Int
    /// Samples refused since this start, because memory was full too or ``StoreFill`` at its limit.
    public var refused: Int
    /// The latest salvage of a broken store that was not acknowledged yet.
    public var salvage: SalvageReport?
    /// Samples that were saved of a broken store so far, while more are.
    public var saved: Int
    /// Samples whose row was found to be damaged, not acknowledged yet.
    public var damagedRows: Int
    /// The latest that was not acknowledged yet.
    public var missing: MissingStore?
    /// Why what a fresh store needs to know of this one is older than this one; nil if it is not.
    public var sidecarFault: QueueError?
    /// The latest steps of the running boot's wall clock, oldest first.
    public var clockSteps: [ClockStep]
    /// Whether a sample that comes now has a time, by the clock of the running boot.
    public var givesTimes: Bool
    /// The room that is left on the disk; nil if the file system does not tell.
    public var room: DiskRoom?
}

/// How many samples a store had that cannot be asked.
public struct LastKnown: Sendable, Hashable {
    /// So many.
    public let samples: Int
    /// When, by the wall clock, trusted or not.
    public let at: UTC

    /// The time as text, to the minute.
    public var atText: String {
        let text = UTCText.text(at)?.prefix(16).replacing("T", with: " ")
        return text.map { "\($0) UTC" } ?? "an unknown time"
    }
}

extension SampleQueue {
    /// How well the store takes what comes. Reads neither file nor database, and changes nothing.
    public func health() -> StoreFacts {
        StoreFacts(
            fault: commits.fault, isAbsent: store.absence != nil,
            lastKnown: store.absence == nil
                ? nil : sidecar.newest.map { LastKnown(samples: $0.samples, at: $0.at) },
            openings: store.openings, isSalvaging: saving != nil,
            buffered: buffer.arrivals.count, refused: buffer.refusedCount,
            salvage: repair.salvage, saved: saving?.carried ?? 0,
            damagedRows: repair.findings.damagedRows, missing: repair.findings.missing,
            sidecarFault: sidecar.fault, clockSteps: run.clock.steps,
            givesTimes: bootClock(with: clock.read()).isKnown,
            room: DiskRoom(at: store.path))
    }
}
