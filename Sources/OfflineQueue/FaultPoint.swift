#if DEBUG
    import Foundation
    import Synchronization
#endif

/// A step at which a debug build can be made to die, as by `kill -9`: for the tests of what survives.
///
/// `EDGE_GATEWAY_KILL_AT=commit-rows:3` kills the process the third time it has inserted the rows of
/// a commit. In release builds there is nothing of it.
enum FaultPoint: String, CaseIterable {
    /// A frame is in memory.
    case append
    /// A commit: begun; rows inserted; counters moved; gaps written; on disk, but not yet known to be.
    case commitBegun = "commit-begun"
    case commitRows = "commit-rows"
    case commitBooks = "commit-books"
    case commitGaps = "commit-gaps"
    case committed
    /// A settlement: one segment moved; the request noted; on disk.
    case settleSegment = "settle-segment"
    case settleUpload = "settle-upload"
    case settled
    /// Pruning: rows deleted; cursor moved; on disk.
    case pruneRows = "prune-rows"
    case pruneCursor = "prune-cursor"
    case pruned
    /// The wearer changes: one assignment ended, another begun; ledgers written.
    case wearerChanged = "wearer-changed"
    case wearerGaps = "wearer-gaps"
    /// A ledger is kept while nothing is committed.
    case ledgerKept = "ledger-kept"
    /// A start: each step of the schema; all of them; the last run's ledgers closed; the run begun.
    case migrate
    case migrated
    case ledgersClosed = "ledgers-closed"
    case runBegun = "run-begun"
    /// An orderly stop: written, not committed.
    case runEnded = "run-ended"

    /// The process has come to this step.
    @inline(__always)
    func reach() {
        #if DEBUG
            Self.target.withLock { target in
                guard target.point == self else { return }
                target.remaining -= 1
                if target.remaining == 0 { kill(getpid(), SIGKILL) }
            }
        #endif
    }

    #if DEBUG
        private static let target = Mutex<(point: FaultPoint?, remaining: Int)>(
            {
                let words = ProcessInfo.processInfo.environment["EDGE_GATEWAY_KILL_AT"]?
                    .split(separator: ":")
                guard let words,
                    let point = words.first.flatMap({ FaultPoint(rawValue: String($0)) })
                else { return (nil, 0) }
                return (point, words.count > 1 ? Int(words[1]) ?? 1 : 1)
            }())
    #endif
}
