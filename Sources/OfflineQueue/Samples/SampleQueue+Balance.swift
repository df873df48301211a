import GRDB

extension SampleQueue {
    /// The books of `scope`, read from the segments' counters: of the samples one a segment that waits is read.
    public func balance(of scope: BalanceScope = .everything) throws(QueueError) -> Balance {
        let (condition, arguments) = Self.condition(scope)
        var balance = try read("read balance") { [patientHolds] db in
            try Self.balance(db, condition, arguments, patientHolds)
        }
        balance.buffered = try buffered(in: scope)
        return balance
    }

    static func condition(_ scope: BalanceScope) -> (String, StatementArguments) {
        switch scope {
        case .everything: ("TRUE", [])
        case .enrollment(let id): ("a.enrollment = ?", [id])
        case .sensor(let id): ("a.sensor = ?", [id])
        case .assignment(let id): ("a.id = ?", [id])
        case .patient(let patient, let enrollment):
            ("a.enrollment = ? AND a.patient = ?", [enrollment, patient])
        }
    }

    private func buffered(in scope: BalanceScope) throws(QueueError) -> Int {
        guard !buffer.isEmpty else { return 0 }
        if scope == .everything { return buffer.count }
        let (condition, arguments) = Self.condition(scope)
        let assignments = try read("read balance") { db in
            try Int64.fetchSet(
                db, sql: "SELECT a.id FROM assignment a WHERE \(condition)", arguments: arguments)
        }
        return buffer.count { assignments.contains($0.assignmentID) }
    }

    /// Why the samples of a segment are held; NULL if they are not.
    static let holdSQL = """
        CASE WHEN a.enrollment IS NULL THEN 'not-enrolled'
            WHEN b.wall_offset_us IS NULL THEN 'clock-unknown'
            WHEN e.state <> 'active' THEN 'enroll-again'
            ELSE e.hold_reason END
        """

    static let segmentJoins = """
        FROM segment s
        JOIN assignment a ON a.id = s.assignment
        JOIN run r ON r.id = s.run
        JOIN boot b ON b.id = r.boot
        LEFT JOIN enrollment e ON e.id = a.enrollment
        """

    private static func balance(
        _ db: Database, _ condition: String, _ arguments: StatementArguments,
        _ patientHolds: [Int64: [String: String]]
    ) throws -> Balance {
        var balance = Balance()
        let sums = try Row.fetchCursor(
            db,
            sql: """
                SELECT \(holdSQL) AS hold,
                    sum(s.received), sum(s.stored), sum(s.undecodable), sum(s.delivered),
                    sum(s.dead), sum(s.stored - s.delivered - s.dead - s.dropped),
                    a.enrollment, a.patient, sum(s.doubled)
                \(segmentJoins)
                WHERE \(condition) GROUP BY hold, a.enrollment, a.patient
                """, arguments: arguments)
        while let row = try sums.next() {
            let doubled: Int = row[9] ?? 0
            balance.received += (row[1] ?? 0) + doubled
            balance.doubled += doubled
            balance.stored += row[2] ?? 0
            balance.undecodable += row[3] ?? 0
            balance.delivered += row[4] ?? 0
            balance.dead += row[5] ?? 0
            let unsent: Int = row[6] ?? 0
            let delivery: [String: String]? = (row[7] as Int64?).flatMap { patientHolds[$0] }
            let ofPatient = (row[8] as String?).flatMap { delivery?[$0] }
            if let hold = row[0] as String? ?? ofPatient {
                if unsent > 0 { balance.held[hold, default: 0] += unsent }
            } else {
                balance.pending += unsent
            }
        }
        let losses = try Row.fetchCursor(
            db,
            sql: """
                SELECT l.kind, l.reason, sum(l.count) FROM loss l
                JOIN segment s ON s.id = l.segment
                JOIN assignment a ON a.id = s.assignment
                WHERE \(condition) GROUP BY l.kind, l.reason
                """, arguments: arguments)
        while let row = try losses.next() {
            guard let reason = row[1] as String?, let count = row[2] as Int? else { continue }
            if row[0] == LossKind.refused.rawValue {
                balance.refused[reason] = count
            } else {
                balance.dropped[reason] = count
            }
        }
        balance.oldestUnsentMicroseconds = try oldestUnsent(db, condition, arguments)
        return balance
    }

    /// The oldest sample that waits: the first after the cursor of a segment with a known clock. Imported
    /// samples have later numbers than older ones recorded here, so that each segment counts.
    private static func oldestUnsent(
        _ db: Database, _ condition: String, _ arguments: StatementArguments
    ) throws -> Int64? {
        try Int64.fetchOne(
            db,
            sql: """
                SELECT min(\(oldestOfSegmentSQL)) \(segmentJoins)
                WHERE s.settled_through < s.last_sample AND b.wall_offset_us IS NOT NULL
                    AND \(condition)
                """, arguments: arguments)
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
                    atMicroseconds: row[0], enrollmentID: row[1] ?? 0,
                    samples: Self.range(row[2], row[3]),
                    timesMicroseconds: Self.range(row[4], row[5]),
                    count: row[6] ?? 0, outcome: row[7] ?? "")
            }
        }
    }

    private static func range(_ low: Int64?, _ high: Int64?) -> ClosedRange<Int64>? {
        guard let low, let high, low <= high else { return nil }
        return low...high
    }
}
