import Basics
import GRDB

extension SampleQueue {
    /// The books of `scope`, read from the segments' counters: of the samples one a segment that waits is read.
    public func balance(of scope: BalanceScope = .everything) throws(QueueError) -> Balance {
        let books = Self.books(of: scope)
        var balance = try read("read balance") { [holds = deliveries.patientHolds] db in
            var balance = Balance()
            for (condition, arguments, view) in books {
                try balance.add(db, condition, arguments, view, holds)
            }
            return balance
        }
        balance.buffered = try buffered(in: scope)
        return balance
    }

    /// The counts of the samples of `scope` at further destinations, each sample once for every one of them.
    public func furtherBalance(of scope: BalanceScope) throws(QueueError) -> Balance {
        let (condition, arguments) = Self.assignments(of: scope)
        return try read("read balance") { [holds = deliveries.patientHolds] db in
            var balance = Balance()
            try balance.add(db, condition, arguments, .further, holds)
            return balance
        }
    }

    /// The assignments (`a`) of a scope, by their own destination.
    static func assignments(of scope: BalanceScope) -> (String, StatementArguments) {
        switch scope {
        case .everything: ("TRUE", [])
        case .enrollment(let id): ("a.enrollment = ?", [id])
        case .sensor(let id): ("a.sensor = ?", [id])
        case .assignment(let id): ("a.id = ?", [id])
        case .patient(let patient, let enrollment):
            ("a.enrollment = ? AND a.patient = ?", [enrollment, patient])
        }
    }

    /// Which rows of which view make up the books of a scope. Those of a destination are of the assignments
    /// whose own one it is, and of those that go there as well; every other scope counts a sample once, by
    /// its assignment's own destination.
    private static func books(
        of scope: BalanceScope
    ) -> [(condition: String, arguments: StatementArguments, view: BooksView)] {
        let (condition, arguments) = assignments(of: scope)
        guard case .enrollment(let id) = scope else { return [(condition, arguments, .own)] }
        return [(condition, arguments, .own), ("f.destination = ?", [id], .further)]
    }

    private func buffered(in scope: BalanceScope) throws(QueueError) -> Int {
        guard !buffer.isEmpty else { return 0 }
        if scope == .everything { return buffer.arrivals.count }
        let (condition, arguments) = Self.assignments(of: scope)
        return try read("read balance") { [boot = run.boot, arrivals = buffer.arrivals] db in
            var ids = try Int64.fetchSet(
                db, sql: "SELECT a.id FROM assignment a WHERE \(condition)", arguments: arguments)
            if case .enrollment(let id) = scope {
                try ids.formUnion(db.assignments(further: id))
            }
            var wearing = Wearing(db, boot: boot)
            return try arrivals.count { arrival in
                try wearing.assignment(of: arrival.sensorID, at: arrival.uptime)
                    .map(ids.contains) ?? false
            }
        }
    }

    /// Segments (`s`) with the books (`d`) of one of their destinations, and that destination (`e`).
    enum BooksView: CaseIterable {
        case own, further

        /// With `d` for the cursor, the counters and `before`, and `hold`.
        var sql: String {
            """
            FROM \(self == .own ? "segment s" : "further_delivery f JOIN segment s ON s.id = f.segment")
            JOIN assignment a ON a.id = s.assignment
            JOIN run r ON r.id = s.run
            LEFT JOIN enrollment e ON e.id = \(destination)
            """
        }

        /// The alias of the table that has cursor and counters.
        var books: String { self == .own ? "s" : "f" }
        /// The destination, as an expression.
        var destination: String { self == .own ? "a.enrollment" : "f.destination" }
        /// The patient whose hold concerns a segment, as an expression.
        var patient: String { PendingSegment.patientSQL(isFurther: self == .further) }
        /// Samples that were gone before the destination was added.
        var before: String { self == .own ? "0" : "f.before" }
        /// In table `loss`.
        var lossDestination: String { self == .own ? "0" : "f.destination" }
        /// Samples that are neither delivered, dead nor dropped.
        var unsent: String {
            "(s.stored - \(before) - \(books).delivered - \(books).dead - \(books).dropped)"
        }
        /// Why the samples of a segment are held; NULL if they are not.
        var hold: String {
            """
            CASE WHEN \(destination) IS NULL THEN 'not-enrolled'
                WHEN s.wall_offset_us IS NULL THEN 'clock-unknown'
                WHEN e.state <> 'active' THEN 'enroll-again'
                ELSE e.hold_reason END
            """
        }
        /// The time of the first sample behind a segment's cursor; NULL if there is none.
        var oldest: String { time(ofThe: "ASC") }
        /// The same of the last one.
        var newest: String { time(ofThe: "DESC") }

        private func time(ofThe order: String) -> String {
            """
            (SELECT p.uptime_us + s.wall_offset_us FROM sample p
            WHERE p.id > \(books).settled_through AND p.id <= s.last_sample AND p.segment = s.id
            ORDER BY p.id \(order) LIMIT 1)
            """
        }
    }

    /// The latest requests of all deliveries or of one, newest first.
    public func uploads(
        enrollment: Int64? = nil, limit: Int = 100
    ) throws(QueueError) -> [UploadRecord] {
        try read("list uploads") { db in
            try Row.fetchAll(
                db,
                sql: """
                    SELECT at_wall_us, enrollment, first_sample, last_sample, first_time_us,
                        last_time_us, count, outcome
                    FROM upload WHERE ?1 IS NULL OR enrollment = ?1 ORDER BY id DESC LIMIT ?2
                    """, arguments: [enrollment, max(0, limit)]
            ).map { row in
                UploadRecord(
                    at: row[0], enrollmentID: row[1] ?? 0,
                    samples: Self.range(row[2], row[3]),
                    times: Self.range(row[4], row[5]),
                    count: row[6] ?? 0, outcome: row[7] ?? "")
            }
        }
    }

    private static func range<Value: Comparable>(
        _ low: Value?, _ high: Value?
    ) -> ClosedRange<Value>? {
        guard let low, let high, low <= high else { return nil }
        return low...high
    }
}

extension Balance {
    /// Adds the books of the segments for which `condition` holds.
    fileprivate mutating func add(
        _ db: Database, _ condition: String, _ arguments: StatementArguments,
        _ view: SampleQueue.BooksView, _ patientHolds: [Int64: [String?: String]]
    ) throws {
        let books = view.books
        let sums = try Row.fetchCursor(
            db.cachedStatement(
                sql: """
                    SELECT \(view.hold) AS hold,
                        sum(s.received - \(view.before)), sum(s.stored - \(view.before)),
                        sum(s.undecodable), sum(\(books).delivered), sum(\(books).dead),
                        sum(\(view.unsent)), \(view.destination) AS destination,
                        \(view.patient) AS named, sum(s.doubled)
                    \(view.sql)
                    WHERE \(condition) GROUP BY hold, destination, named
                    """), arguments: arguments)
        while let row = try sums.next() {
            let copies: Int = row[9] ?? 0
            received += (row[1] ?? 0) + copies
            doubled += copies
            stored += row[2] ?? 0
            undecodable += row[3] ?? 0
            delivered += row[4] ?? 0
            dead += row[5] ?? 0
            let unsent: Int = row[6] ?? 0
            let delivery: [String?: String]? = (row[7] as Int64?).flatMap { patientHolds[$0] }
            let ofPatient = delivery?[row[8] as String?]
            if let hold = row[0] as String? ?? ofPatient {
                if unsent > 0 { held[hold, default: 0] += unsent }
            } else {
                pending += unsent
            }
        }
        let losses = try Row.fetchCursor(
            db.cachedStatement(
                sql: """
                    SELECT l.kind, l.reason, sum(l.count) \(view.sql)
                    JOIN loss l ON l.segment = s.id
                        AND (l.kind = 'refused' OR l.destination = \(view.lossDestination))
                    WHERE \(condition) GROUP BY l.kind, l.reason
                    """), arguments: arguments)
        while let row = try losses.next() {
            guard let reason = row[1] as String?, let count = row[2] as Int? else { continue }
            if row[0] == LossKind.refused.rawValue {
                refused[reason, default: 0] += count
            } else {
                dropped[reason, default: 0] += count
            }
        }
        // The first after the cursor of a segment with a known clock. Imported samples have later numbers
        // than older ones recorded here, so that each segment counts.
        let oldest = try UTC.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT min(\(view.oldest)) \(view.sql)
                    WHERE \(books).settled_through < s.last_sample AND s.wall_offset_us IS NOT NULL
                        AND \(condition)
                    """), arguments: arguments)
        oldestUnsent = [oldestUnsent, oldest].compactMap { $0 }.min()
    }
}
