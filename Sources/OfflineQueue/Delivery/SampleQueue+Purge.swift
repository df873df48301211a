extension SampleQueue {
    /// Deletes delivered and dropped samples that arrived before `horizon` (UTC µs; nil: all of them),
    /// whatever ``QueueSettings/keepDeliveredMicroseconds`` says; at most ``pruneRowsMax`` a call.
    ///
    /// Dead letters and counters stay. Returns how many rows went; call again while it returns
    /// ``pruneRowsMax``.
    public func purgeSettled(before horizon: Int64? = nil) throws(QueueError) -> Int {
        try write("purge samples") { db in try Self.prune(db, horizon: horizon ?? .max) }
    }
}
