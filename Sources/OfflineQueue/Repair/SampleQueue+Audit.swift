import Basics
import Foundation
import GRDB

extension SampleQueue {
    /// Counts every row and checks every checksum, cursor and reference, and compares with the
    /// counters. Reads the whole store and holds it meanwhile: for tests. Beside a daemon at work, see
    /// ``verify(path:progress:)``.
    public func audit() throws(QueueError) -> Audit {
        try read("audit store") { db in try StoreWalk(db: db).audit { _ in } }
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
        if let damage = log.damage { return Audit(differences: ["log: \(damage)"]) }
        do {
            let database = try StoreFile.openReadOnly(path)
            defer { try? database.close() }
            return try database.read { db in
                var audit = Audit()
                let lines = try String.fetchAll(db, sql: "PRAGMA integrity_check(100)")
                for line in lines where line != "ok" { audit.add("sqlite: \(line.asOneLine)") }
                do {
                    audit = try StoreWalk(db: db, audit: audit).audit(progress)
                } catch {
                    audit.add("sqlite: \(QueueError(operation, error).cause)")
                }
                return audit
            }
        } catch {
            let error = QueueError(operation, error)
            guard error.code == .corrupt else { throw error }
            return Audit(differences: ["sqlite: \(error.cause)"])
        }
    }
}

/// One walk over every row, in memory that grows with the segments only.
private struct StoreWalk {
    let db: Database
    var audit = Audit()
    var segments: [Int64: Segment] = [:]

    /// The books of a destination in a segment, and the counts.
    fileprivate struct Books {
        /// 0: the assignment's own.
        var destination: Int64
        var settledThrough, before, delivered, dead, dropped: Int64
        var waiting = 0
    }

    /// The counters of a segment's row, and the counts.
    fileprivate struct Segment {
        var row: [String: Int64]
        var rows = 0
        var outside = 0
        /// When its assignment was worn, in the boot of its run, and samples of another time.
        var worn: ClosedRange<Uptime>?
        var notWorn = 0
        var books: [Books] = []
        subscript(_ name: String) -> Int64 { row[name] ?? 0 }
    }

    /// A segment at one of its destinations, for which rows are counted.
    private struct Place: Hashable {
        var segment, destination: Int64
    }

    func audit(_ progress: (Double) -> Void) throws -> Audit {
        var walk = self
        try walk.readSegments()
        try walk.readSamples(progress)
        try walk.compare()
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
        // One that lasts no time keeps what a person is to give to the right patient.
        let worn = try Row.fetchCursor(
            db,
            sql: """
                SELECT s.id, iif(a.began_boot = r.boot, a.began_uptime_us, 0),
                    iif(a.ended_boot = r.boot, a.ended_uptime_us, NULL)
                FROM segment s JOIN run r ON r.id = s.run JOIN assignment a ON a.id = s.assignment
                WHERE r.is_imported = 0 AND (a.ended_boot IS NULL
                    OR (a.began_boot, a.began_uptime_us) < (a.ended_boot, a.ended_uptime_us))
                """)
        while let row = try worn.next() {
            let begin: Uptime = row[1] ?? .zero
            let end: Uptime = row[2] ?? Uptime(microseconds: .max)
            segments[row[0] ?? 0]?.worn = begin...max(begin, end)
        }
        let books = try Row.fetchCursor(
            db,
            sql: """
                SELECT segment, coalesce(further, 0), settled_through, before, delivered, dead, dropped
                FROM \(DeliveryBooks.allSQL)
                """)
        while let row = try books.next() {
            segments[row[0] ?? 0]?.books.append(
                Books(
                    destination: row[1] ?? 0, settledThrough: row[2] ?? 0, before: row[3] ?? 0,
                    delivered: row[4] ?? 0, dead: row[5] ?? 0, dropped: row[6] ?? 0))
        }
    }

    private mutating func readSamples(_ progress: (Double) -> Void) throws {
        let last = try Int64.fetchOne(db, sql: "SELECT max(id) FROM sample") ?? 0
        let first = try Int64.fetchOne(db, sql: "SELECT min(id) FROM sample") ?? 0
        let step = max(1, (last &- first) / 1_000)
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
            if segments[sample.segment]?.count(sample) == nil { strays += 1 }
            if sample.id >= next {
                progress(Double(sample.id &- first) / Double(max(1, last &- first)))
                next = sample.id &+ step
            }
        }
        strays += segments.values.reduce(0) { $0 + $1.outside }
        if strays > 0 { audit.add("samples outside their segment: \(strays)") }
        let notWorn = segments.values.reduce(0) { $0 + $1.notWorn }
        if notWorn > 0 {
            audit.add(
                "samples of a time at which nobody wore the strap for their patient: \(notWorn)")
        }
        progress(1)
    }

    private mutating func compare() throws {
        let undecodable = try counts("SELECT segment, 0, count(*) FROM undecodable GROUP BY 1")
        let letters = """
            SELECT d.segment, coalesce(d.further, 0), count(*) FROM \(SampleQueue.lettersSQL) d
            JOIN sample p ON p.id = d.sample AND p.segment = d.segment
            """
        let dead = try counts("\(letters) WHERE d.is_requeued = 0 GROUP BY 1, 2")
        let requeued = try counts("\(letters) WHERE d.is_requeued = 1 GROUP BY 1, 2")
        let losses = "SELECT segment, destination, sum(count) FROM loss WHERE kind ="
        let refused = try counts("\(losses) 'refused' GROUP BY 1")
        let dropped = try counts("\(losses) 'dropped' GROUP BY 1, 2")
        for (id, segment) in segments.sorted(by: { $0.key < $1.key }) {
            var name = "segment \(id)"
            func compare(_ what: String, _ counter: Int64, _ rows: Int?) {
                guard counter != rows ?? 0 else { return }
                audit.add("\(name) \(what): counter \(counter), rows \(rows ?? 0)")
            }
            var place = Place(segment: id, destination: 0)
            compare("stored", segment["stored"] &- segment["pruned"], segment.rows)
            compare(
                "undecodable", segment["undecodable"] &- segment["undecodable_pruned"],
                undecodable[place])
            compare("refused", segment["refused"], refused[place])
            for books in segment.books {
                place.destination = books.destination
                if books.destination != 0 { name += " for destination \(books.destination)" }
                let settled = books.delivered &+ books.dead &+ books.dropped
                compare(
                    "unsent", segment["stored"] &- books.before &- settled,
                    books.waiting + (requeued[place] ?? 0))
                compare("dead", books.dead, dead[place])
                compare("dropped", books.dropped, dropped[place])
                if !segment.isInOrder(books) {
                    audit.add("\(name): its cursors are not in order")
                }
                name = "segment \(id)"
            }
        }
    }

    private func counts(_ sql: String) throws -> [Place: Int] {
        var counts: [Place: Int] = [:]
        for row in try Row.fetchAll(db, sql: sql) {
            counts[Place(segment: row[0] ?? 0, destination: row[1] ?? 0)] = row[2] ?? 0
        }
        return counts
    }

    private mutating func checkReferences() throws {
        let rows = try Row.fetchCursor(
            db,
            sql: "SELECT \"table\", parent, count(*) FROM pragma_foreign_key_check GROUP BY 1, 2")
        while let row = try rows.next() {
            let child: String = row[0] ?? ""
            let parent: String = row[1] ?? ""
            audit.add("\(child): \(row[2] as Int? ?? 0) rows name a \(parent) that is not there")
        }
    }
}

extension StoreWalk.Segment {
    /// Counts a sample; nil, by way of the optional it is called on, if there is no such segment.
    fileprivate mutating func count(_ sample: SampleRow) {
        rows += 1
        for index in books.indices where sample.id > books[index].settledThrough {
            books[index].waiting += 1
        }
        if sample.id < self["first_sample"] || sample.id > self["last_sample"] { outside += 1 }
        if let worn, !worn.contains(sample.uptime) { notWorn += 1 }
    }

    fileprivate func isInOrder(_ books: StoreWalk.Books) -> Bool {
        self["first_sample"] &- 1 <= self["pruned_through"]
            && self["pruned_through"] <= books.settledThrough
            && books.settledThrough <= self["last_sample"]
    }
}
