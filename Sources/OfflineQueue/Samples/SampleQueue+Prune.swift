import Basics
import GRDB

extension SampleQueue {
    /// Rows one call deletes at most, so that it never holds the store for long.
    public static let pruneRowsMax = 5_000
    /// Requests kept for the history; at one request a minute, a week.
    public static let uploadsKeptMax = 10_000

    /// Deletes delivered and dropped samples that arrived longer than
    /// ``QueueSettings/keepDelivered`` ago, at most ``pruneRowsMax`` a call.
    ///
    /// Before that, samples that wait longer than ``QueueSettings/maxAge`` are dropped, and
    /// those that wait for a further destination longer than it has them kept.
    /// Dead letters and counters stay. Does nothing while ``presentTime`` is not known. Returns how many
    /// rows went; call again while it returns ``pruneRowsMax``.
    @discardableResult
    public func prune() throws(QueueError) -> Int {
        guard let now = presentTime else { return 0 }
        pruneEvidence(now)
        let horizon = now - settings.keepDelivered
        let ageHorizon = settings.maxAge.map { now - $0 }
        let (pruned, dropped) = try write("prune samples") { [walk = repair.walk] db in
            var dropped: [DroppedRange] = []
            try StoreLimit.dropAged(db, horizon: ageHorizon, now: now, into: &dropped)
            try db.execute(
                sql: "DELETE FROM upload WHERE id <= (SELECT max(id) FROM upload) - ?",
                arguments: [Self.uploadsKeptMax])
            try walk.store(db)
            return (try Pruning.prune(db, before: horizon).deleted, dropped)
        }
        FaultPoint.pruned.reach()
        if pruned > 0 { keepSidecar(isDue: true) }
        deliveries.lent.drop(dropped)
        return pruned
    }

    /// Deletes delivered and dropped samples that arrived before `horizon` (nil: all of them),
    /// whatever ``QueueSettings/keepDelivered`` says; at most ``pruneRowsMax`` a call.
    ///
    /// Dead letters and counters stay. Returns how many rows went; call again while it returns
    /// ``pruneRowsMax``.
    public func purgeSettled(before horizon: UTC? = nil) throws(QueueError) -> Int {
        try write("purge samples") { db in
            try Pruning.prune(db, before: horizon).deleted
        }
    }
}
