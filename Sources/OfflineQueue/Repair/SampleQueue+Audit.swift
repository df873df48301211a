import Foundation
import GRDB

extension SampleQueue {
    /// Counts every row and checks every checksum, cursor and reference, and compares with the
    /// counters. Reads the whole store and holds it meanwhile: for tests. Beside a daemon at work, see
    /// ``verify(path:progress:)``.
    public func audit() throws(QueueError) -> Audit {
        try read("audit store") { db in try StoreWalk(db).audit { _ in } }
    }

    /// Sees whether this version opens the store at `path`, without a look at its rows.
    ///
    /// Throws what keeps it from that, such as `other-version`. A damaged log does not: ``verify(path:progress:)``
    /// describes it.
    public static func checkOpens(path: String) throws(QueueError) {
        guard WriteAheadLog(of: path, readsIndex: true).damage == nil else { return }
        do {
            try StoreFile.openReadOnly(path).close()
        } catch {
            let error = QueueError("open store", error)
            if error.code != .corrupt { throw error }
        }
    }

    /// Looks at everything in the store at `path`: SQLite's own structures, each row's checksum,
    /// cursors, references, and the counters against the rows.
    ///
    /// Only reads, in one snapshot: a daemon may be at work on the store meanwhile, whose log then
    /// grows until this ends. `progress` gets the part done, 0…1, about every thousandth.
    /// Throws only if the store cannot be read at all; whatever is wrong with it is a finding.
    public static func verify(
        path: String, progress: (Double) -> Void = { _ in }
    ) throws(QueueError) -> Audit {
        let operation = "verify store"
        let log = WriteAheadLog(of: path, readsIndex: true)
        // SQLite would make the log's index anew, by which the next start knows how much is missing.
        if let damage = log.damage {
            var audit = Audit()
            audit.add("log: \(damage)")
            return audit
        }
        do {
            let database = try StoreFile.openReadOnly(path)
            defer { try? database.close() }
            return try database.read { db in
                var audit = Audit()
                let lines = try String.fetchAll(db, sql: "PRAGMA integrity_check(100)")
                for line in lines where line != "ok" { audit.add("sqlite: \(line.asOneLine)") }
                do {
                    let walk = try StoreWalk(db).audit(progress)
                    audit.differences += walk.differences
                    audit.damaged = walk.damaged
                    audit.samples = walk.samples
                } catch {
                    audit.add("sqlite: \(QueueError(operation, error).cause)")
                }
                return audit
            }
        } catch {
            let error = QueueError(operation, error)
            guard error.code == .corrupt else { throw error }
            var audit = Audit()
            audit.add("sqlite: \(error.cause)")
            return audit
        }
    }
}

/// One walk over every row, in memory that grows with the segments only.
private struct StoreWalk {
    private let db: Database
    private var audit = Audit()
    private var segments: [Int64: Segment] = [:]
    private var further: [Int64: [Further]] = [:]

    /// The counters of a row of `further_delivery`, and the counts.
    private struct Further {
        var destination: Int64
        var settledThrough: Int64
        var before, delivered, dead, dropped: Int64
        var waiting = 0
    }

    /// The counters of a segment's row, and the counts.
    fileprivate struct Segment {
        var row: [String: Int64]
        var rows = 0
        var waiting = 0
        var outside = 0
        subscript(_ name: String) -> Int64 { row[name] ?? 0 }
    }

    init(_ db: Database) { self.db = db }

    func audit(_ progress: (Double) -> Void) throws -> Audit {
        var walk = self
        try walk.readSegments()
        try walk.readFurther()
        try walk.readSamples(progress)
        try walk.compare()
        try walk.compareFurther()
        try walk.checkReferences()
        return walk.audit
    }

    private mutating func readSegments() throws {
        let rows = try Row.fetchCursor(db, sql: "SELECT * FROM segment")
        while let row = try rows.next() {
            guard let id = row["id"] as Int64? else { continue }
            var values: [String: Int64] = [:]
            for name in row.columnNames { values[name] = row[name] }
            segments[id] = Segment(row: values)
        }
    }

    private mutating func readFurther() throws {
        let rows = try Row.fetchCursor(
            db,
            sql: """
                SELECT segment, destination, settled_through, before, delivered, dead, dropped
                FROM further_delivery
                """)
        while let row = try rows.next() {
            further[row[0] ?? 0, default: []].append(
                Further(
                    destination: row[1] ?? 0, settledThrough: row[2] ?? 0, before: row[3] ?? 0,
                    delivered: row[4] ?? 0, dead: row[5] ?? 0, dropped: row[6] ?? 0))
        }
    }

    private mutating func readSamples(_ progress: (Double) -> Void) throws {
        let last = try Int64.fetchOne(db, sql: "SELECT max(id) FROM sample") ?? 0
        let first = try Int64.fetchOne(db, sql: "SELECT min(id) FROM sample") ?? 0
        let step = max(1, (last - first) / 1_000)
        var next = first
        var strays = 0
        let key = try? db.storeKey()
        if key == nil { audit.add("the mark of the store is not its first run's") }
        let rows = try Row.fetchCursor(
            db, sql: "SELECT \(SampleColumn.list) FROM sample")
        while let row = try rows.next() {
            let sample = SampleRow(row)
            audit.samples += 1
            if let key, !sample.isIntact(key), audit.damaged.count < Audit.findingsMax {
                audit.damaged.append(sample.id)
            }
            if segments[sample.segment]?.count(sample.id) == nil { strays += 1 }
            for index in further[sample.segment]?.indices ?? 0..<0
            where sample.id > further[sample.segment]?[index].settledThrough ?? 0 {
                further[sample.segment]?[index].waiting += 1
            }
            if sample.id >= next {
                progress(Double(sample.id - first) / Double(max(1, last - first)))
                next = sample.id + step
            }
        }
        strays += segments.values.reduce(0) { $0 + $1.outside }
        if strays > 0 { audit.add("samples outside their segment: \(strays)") }
        progress(1)
    }

    private mutating func compare() throws {
        let undecodable = try counts("SELECT segment, count(*) FROM undecodable GROUP BY segment")
        let letters = """
            FROM dead_letter d JOIN sample p ON p.id = d.sample AND p.segment = d.segment
            """
        let dead = try counts(
            "SELECT d.segment, count(*) \(letters) WHERE d.is_requeued = 0 GROUP BY d.segment")
        let requeued = try counts(
            "SELECT d.segment, count(*) \(letters) WHERE d.is_requeued = 1 GROUP BY d.segment")
        let losses = "SELECT segment, sum(count) FROM loss WHERE kind ="
        let refused = try counts("\(losses) 'refused' GROUP BY segment")
        let dropped = try counts("\(losses) 'dropped' AND destination = 0 GROUP BY segment")
        for (id, segment) in segments.sorted(by: { $0.key < $1.key }) {
            func compare(_ what: String, _ counter: Int64, _ rows: Int) {
                if counter != rows {
                    audit.add("segment \(id) \(what): counter \(counter), rows \(rows)")
                }
            }
            let settled = segment["delivered"] &+ segment["dead"] &+ segment["dropped"]
            compare("stored", segment["stored"] &- segment["pruned"], segment.rows)
            compare("unsent", segment["stored"] &- settled, segment.waiting + (requeued[id] ?? 0))
            compare(
                "undecodable", segment["undecodable"] &- segment["undecodable_pruned"],
                undecodable[id] ?? 0)
            compare("dead", segment["dead"], dead[id] ?? 0)
            compare("refused", segment["refused"], refused[id] ?? 0)
            compare("dropped", segment["dropped"], dropped[id] ?? 0)
            if !segment.isInOrder { audit.add("segment \(id): its cursors are not in order") }
        }
    }

    private mutating func compareFurther() throws {
        for (id, deliveries) in further.sorted(by: { $0.key < $1.key }) {
            for delivery in deliveries {
                func compare(_ what: String, _ counter: Int64, _ rows: Int) {
                    guard counter != rows else { return }
                    audit.add(
                        "segment \(id) for destination \(delivery.destination) \(what): "
                            + "counter \(counter), rows \(rows)")
                }
                func count(_ sql: String) throws -> Int {
                    try Int.fetchOne(
                        db.cachedStatement(sql: sql), arguments: [id, delivery.destination]) ?? 0
                }
                let letters = """
                    SELECT count(*) FROM further_dead_letter l
                    JOIN sample p ON p.id = l.sample AND p.segment = l.segment
                    WHERE l.segment = ? AND l.destination = ? AND l.is_requeued =
                    """
                let requeued = try count("\(letters) 1")
                let stored = segments[id]?["stored"] ?? 0
                let settled = delivery.delivered &+ delivery.dead &+ delivery.dropped
                compare(
                    "unsent", stored &- delivery.before &- settled, delivery.waiting + requeued)
                compare("dead", delivery.dead, try count("\(letters) 0"))
                compare(
                    "dropped", delivery.dropped,
                    try count(
                        """
                        SELECT sum(count) FROM loss
                        WHERE kind = 'dropped' AND segment = ? AND destination = ?
                        """))
                let pruned = segments[id]?["pruned_through"] ?? 0
                let last = segments[id]?["last_sample"] ?? 0
                if delivery.settledThrough < pruned || delivery.settledThrough > last {
                    audit.add(
                        "segment \(id) for destination \(delivery.destination): "
                            + "its cursors are not in order")
                }
            }
        }
    }

    private func counts(_ sql: String) throws -> [Int64: Int] {
        var counts: [Int64: Int] = [:]
        for row in try Row.fetchAll(db, sql: sql) { counts[row[0] ?? 0] = row[1] ?? 0 }
        return counts
    }

    private mutating func checkReferences() throws {
        let rows = try Row.fetchCursor(
            db,
            sql:
                "SELECT \"table\", \"parent\", count(*) FROM pragma_foreign_key_check GROUP BY 1, 2"
        )
        while let row = try rows.next() {
            let child: String = row[0] ?? ""
            let parent: String = row[1] ?? ""
            audit.add("\(child): \(row[2] as Int? ?? 0) rows name a \(parent) that is not there")
        }
    }
}

extension StoreWalk.Segment {
    /// Counts a sample; nil, by way of the optional it is called on, if there is no such segment.
    fileprivate mutating func count(_ sample: Int64) {
        rows += 1
        if sample > self["settled_through"] { waiting += 1 }
        if sample < self["first_sample"] || sample > self["last_sample"] { outside += 1 }

    }

    fileprivate var isInOrder: Bool {
        self["first_sample"] &- 1 <= self["pruned_through"]
            && self["pruned_through"] <= self["settled_through"]
            && self["settled_through"] <= self["last_sample"]
    }
}
