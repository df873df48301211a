/// A step of the store at which a debug build can be made to die (``KillSwitch``).
enum FaultPoint: String, CaseIterable {
    /// A frame is in memory.
    case append
    /// A commit: begun; rows inserted; counters moved; gaps written; on disk, but not yet known to be.
    case commitBegun = "commit-begun"
    case commitRows = "commit-rows"
    case commitBooks = "commit-books"
    case commitGaps = "commit-gaps"
    case committed
    /// A settlement: one segment moved; a request in the history; on disk.
    case settleSegment = "settle-segment"
    case settleUpload = "settle-upload"
    case settled
    /// A checkpoint writes a page from the log home.
    case checkpoint
    /// Pruning: rows deleted; cursor moved; on disk.
    case pruneRows = "prune-rows"
    case pruneCursor = "prune-cursor"
    case pruned
    /// Erasing: the last rows of a patient deleted; on disk.
    case eraseRegistry = "erase-registry"
    case erased
    /// The patient changes: one assignment ended, another begun; ledgers written.
    case assignmentChanged = "assignment-changed"
    case assignmentGaps = "assignment-gaps"
    /// A ledger is kept while nothing is committed.
    case ledgerKept = "ledger-kept"
    /// A start: each part of the schema; all of it; the last run's ledgers closed; the run begun.
    case migrate
    case migrated
    case ledgersClosed = "ledgers-closed"
    case runBegun = "run-begun"
    /// One of the files of a broken store has its new name.
    case evidenceRenamed = "evidence-renamed"
    /// A slice of what a broken store held is in the new one.
    case sliceSaved = "slice-saved"
    /// An orderly stop: written, not committed; the log copied into the file and gone.
    case runEnded = "run-ended"
    case closed

    /// The process has come to this step.
    @inline(__always)
    func reach() { KillSwitch.reach(rawValue) }
}
