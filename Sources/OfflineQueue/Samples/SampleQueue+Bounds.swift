import GRDB

extension SampleQueue {
    /// Undecodable frames kept, the newest: 6 MiB at the longest frame there can be.
    public static let undecodableKeptMax = 10_000

    /// How full the store is; looks at no sample row.
    public func fill() throws(QueueError) -> StoreFill {
        let (used, rows, waiting) = try read("read fill") { db in
            let row = try Row.fetchOne(
                db.cachedStatement(
                    sql: """
                        SELECT sum(stored - pruned), sum(stored - delivered - dropped) FROM segment
                        """))
            return (try StoreLimit.usedBytes(db), row?[0] as Int64? ?? 0, row?[1] as Int64? ?? 0)
        }
        // Rows are of similar size, and the other tables are small.
        let reclaimable = rows > 0 ? Double(used) * Double(rows - waiting) / Double(rows) : 0
        return StoreFill(
            usedBytes: used, reclaimableBytes: Int64(reclaimable),
            logBytes: StoreFile.logBytes(store.path),
            maxBytes: settings.maxBytes, policy: settings.fullPolicy, isFull: commits.isFull)
    }
}
