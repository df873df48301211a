import Basics
import GRDB

/// How far the background check for damage has come in its walk over all rows.
struct ChecksumWalk: Sendable {
    /// Pause between two walks over the whole store.
    static let pause = Duration.seconds(60)
    /// Rows of one step: with a step each 5 s, 8.6 million a day, for a millisecond and a half each time.
    static let rowsMax = 500

    /// The last sample that was checked.
    var through: Int64 = 0
    /// When the next walk may begin, after one of this run.
    var restsUntil: Uptime?
    /// Whether the tables other than `sample` are next.
    var isAtEnd = false

    /// The walk is over; the next begins after a pause.
    mutating func rest(_ uptime: Uptime) {
        isAtEnd = false
        through = 0
        restsUntil = uptime + Self.pause
    }

    func store(_ db: Database) throws {
        try db.execute(
            sql: "INSERT OR REPLACE INTO walk (id, through) VALUES (1, ?)", arguments: [through])
    }
}

extension SampleQueue {
    /// Checks the next rows for damage: a step of a walk over the whole store that goes on where the last run
    /// left it. Call it about each 5 s. What it finds is in ``health()`` until it is acknowledged;
    /// a broken structure is salvaged by ``commitIfDue(within:)``.
    public func checkNextRows() {
        let uptime = clock.read().uptime
        guard store.absence == nil, !store.isClosed, repair.damage == nil,
            uptime >= repair.walk.restsUntil ?? uptime
        else { return }
        // From the disk, and not from what SQLite remembers of it.
        store.database.releaseMemory()
        if repair.walk.isAtEnd { return endWalk(uptime) }
        let after = repair.walk.through
        let checked = try? read("check rows") { db in
            let key = try db.storeKey()
            return try Row.fetchAll(
                db.cachedStatement(
                    sql: """
                        SELECT \(SampleColumn.list) FROM sample
                        WHERE id > ? ORDER BY id LIMIT \(ChecksumWalk.rowsMax)
                        """), arguments: [after]
            ).map { SampleRow($0) }.map { (id: $0.id, isIntact: $0.isIntact(key)) }
        }
        guard let rows = checked else { return }
        report(rows.filter { !$0.isIntact }.map(\.id))
        repair.walk.through = rows.last?.id ?? after
        repair.walk.isAtEnd = rows.count < ChecksumWalk.rowsMax
    }

    private func report(_ damaged: [Int64]) {
        guard !damaged.isEmpty else { return }
        // If it cannot be written, the next walk finds it again.
        let found = try? write("report damaged rows") { db in
            for sample in damaged {
                try db.execute(
                    sql: """
                        INSERT OR IGNORE INTO damaged_row (sample)
                        SELECT ?1 WHERE (SELECT count(*) FROM damaged_row) < ?2
                        """, arguments: [sample, StoreFindings.damagedMax])
            }
            return try StoreFindings(db)
        }
        if let found { repair.findings.damagedRows = found.damagedRows }
    }

    /// The log, the small tables, and what is not damaged any more because it is gone.
    private func endWalk(_ uptime: Uptime) {
        repair.walk.rest(uptime)
        let log = WriteAheadLog(of: store.path, readsIndex: false)
        if let code = log.unreadable { return note(QueueError(errno: code, "check log")) }
        repair.worked("check log")
        if let found = log.damage { return note(QueueError(.corrupt, "check log", found)) }
        let lines = try? read("check tables") { db in
            let tables = try String.fetchAll(
                db,
                sql: """
                    SELECT name FROM sqlite_master WHERE type = 'table' AND name <> 'sample'
                        AND name NOT LIKE 'sqlite_%'
                    """)
            return try tables.flatMap { table in
                try String.fetchAll(db, sql: "PRAGMA quick_check('\(table)')").filter { $0 != "ok" }
            }
        }
        if let line = lines?.first {
            // SQLite says it in the same way, with another number, when the device refuses a page.
            let isUnread =
                line.contains("unable to get the page") && !line.contains("error code=11")
            return note(
                QueueError(isUnread ? .inputOutput : .corrupt, "check pages", line.asOneLine))
        }
        repair.worked("check pages")
        guard repair.findings.damagedRows > 0 else { return }
        let found = try? write("report damaged rows") { db in
            try db.execute(
                sql: "DELETE FROM damaged_row WHERE sample NOT IN (SELECT id FROM sample)")
            return try StoreFindings(db)
        }
        if let found { repair.findings.damagedRows = found.damagedRows }
    }
}
