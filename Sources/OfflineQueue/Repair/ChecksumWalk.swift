import Basics
import GRDB

/// How far the background check for damage has come in its walk over all rows.
struct ChecksumWalk: Sendable {
    /// Pause between two walks over the whole store.
    static let pause = Duration.seconds(60)
    /// Rows of one step: with a step each 5 s, 8.6 million a day, for a millisecond and a half each time.
    static let rowsMax = 500

    /// The last sample that was checked.
    private(set) var through: Int64 = 0
    /// When the next walk may begin, after one of this run.
    var restsUntil: Uptime?
    /// Whether the tables other than `sample` are next.
    private(set) var isAtEnd = false
    /// The sample behind which this run began to count, and how many rows of each segment it has passed.
    private var begin: Int64 = 0
    private var rows: [Int64: Int] = [:]
    /// Of these, how many were damaged: nobody knows of which segment they are.
    private var damaged = 0

    init(after sample: Int64 = 0) { (through, begin) = (sample, sample) }

    /// The walk is over; the next begins after a pause.
    mutating func rest(_ uptime: Uptime) {
        self = ChecksumWalk()
        restsUntil = uptime + Self.pause
    }

    /// The walk behind the next rows, which of these are damaged, and at the end how many are missing.
    func next(_ db: Database) throws -> (walk: ChecksumWalk, damaged: [Int64], missing: Int) {
        var walk = self
        let key = try db.storeKey()
        let samples = try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT \(SampleColumn.list) FROM sample
                    WHERE id > ? ORDER BY id LIMIT \(Self.rowsMax)
                    """), arguments: [through]
        ).map { SampleRow($0) }
        for sample in samples { walk.rows[sample.segment, default: 0] += 1 }
        let damaged = samples.filter { !$0.isIntact(key) }.map(\.id)
        walk.damaged += damaged.count
        walk.through = samples.last?.id ?? through
        walk.isAtEnd = samples.count < Self.rowsMax
        return (walk, damaged, walk.isAtEnd ? try walk.missing(db) : 0)
    }

    /// Samples of which the books say that they are here, and which SQLite passes over: it compares the count of a page's
    /// rows with the page only when it is asked, and asking takes it minutes. What the walk has passed may be deleted
    /// meanwhile; nothing is added there.
    private func missing(_ db: Database) throws -> Int {
        let booked = try Row.fetchAll(
            db, sql: "SELECT id, stored - pruned FROM segment WHERE first_sample > ?",
            arguments: [begin])
        var missing = 0
        for segment in booked {
            let (id, count): (Int64, Int) = (segment[0] ?? 0, segment[1] ?? 0)
            missing = missing &+ max(0, count &- rows[id, default: 0])
        }
        return max(0, missing &- damaged)
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
        let done = try? read("check rows") { [walk = repair.walk] db in try walk.next(db) }
        guard let (walk, damaged, missing) = done else { return }
        repair.walk = walk
        if !damaged.isEmpty {
            report { db in
                for sample in damaged {
                    try db.execute(
                        sql: """
                            INSERT OR IGNORE INTO damaged_row (sample)
                            SELECT ?1 WHERE (SELECT count(*) FROM damaged_row) < ?2
                            """, arguments: [sample, StoreFindings.damagedMax])
                }
            }
        }
        if missing > 0 {
            let cause = "\(missing.counted("sample")) cannot be reached"
            note(QueueError(.corrupt, "check rows", cause))
        }
    }

    private func report(_ change: (Database) throws -> Void) {
        // If it cannot be written, the next walk finds it again.
        let found = try? write("report damaged rows") { db in
            try change(db)
            return try StoreFindings(db)
        }
        if let found { repair.findings.damagedRows = found.damagedRows }
    }

    /// The log, the small tables, and what is not damaged any more because it is gone. What the device does not let it
    /// read is looked at again at the next step: ``StoreRepair`` knows a device by how long it fails.
    private func endWalk(_ uptime: Uptime) {
        let log = WriteAheadLog(of: store.path, readsIndex: false)
        if let code = log.unreadable { return note(QueueError(errno: code, "check log")) }
        repair.worked("check log")
        if let found = log.damage { return note(QueueError(.corrupt, "check log", found)) }
        let found = try? read("check tables") { db in
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
        guard let lines = found else { return }
        if let line = lines.first {
            // SQLite says it in the same way, with another number, when the device refuses a page.
            let isUnread =
                line.contains("unable to get the page") && !line.contains("error code=11")
            return note(
                QueueError(isUnread ? .inputOutput : .corrupt, "check pages", line.asOneLine))
        }
        repair.worked("check pages")
        repair.walk.rest(uptime)
        guard repair.findings.damagedRows > 0 else { return }
        report { db in
            try db.execute(
                sql: "DELETE FROM damaged_row WHERE sample NOT IN (SELECT id FROM sample)")
        }
    }
}
