import GRDB

// Samples that were lost are counted for ever, by reason. A person has to see them once: those of a `LossReason`
// that were not acknowledged yet are a health item.

extension SampleQueue {
    /// Samples that were refused or dropped and not acknowledged yet, by reason; one that was dropped for
    /// two destinations counts twice.
    static func unacknowledgedLosses(_ db: Database) throws -> [String: Int] {
        let reasons = LossReason.allCases.map { "'\($0.rawValue)'" }.joined(separator: ", ")
        let rows = try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT l.reason, sum(l.count) - coalesce(k.count, 0) AS lost
                    FROM loss l LEFT JOIN acknowledged_loss k ON k.reason = l.reason
                    WHERE l.reason IN (\(reasons)) GROUP BY l.reason HAVING lost > 0
                    """))
        return Dictionary(
            rows.map { ($0[0] as String? ?? "", $0[1] as Int? ?? 0) }, uniquingKeysWith: +)
    }

    /// Acknowledges every loss there is.
    static func acknowledgeLosses(_ db: Database) throws {
        try db.execute(sql: "DELETE FROM acknowledged_loss")
        try db.execute(
            sql: "INSERT INTO acknowledged_loss SELECT reason, sum(count) FROM loss GROUP BY reason"
        )
    }

    /// Forgets acknowledged losses that were erased, so that they do not hide new ones.
    static func forgetErasedLosses(_ db: Database) throws {
        try db.execute(
            sql: """
                UPDATE acknowledged_loss SET count = min(count, coalesce(
                    (SELECT sum(l.count) FROM loss l WHERE l.reason = acknowledged_loss.reason), 0))
                """)
    }
}

/// How a sample can be lost, as table `loss` words it.
enum LossKind: String {
    case refused, dropped
}

extension Database {
    /// Adds `count` losses of a segment to table `loss`; `destination` 0 is the assignment's own.
    func count(
        _ count: Int, _ kind: LossKind, _ reason: String, segment: Int64, destination: Int64 = 0
    ) throws {
        try cachedStatement(
            sql: """
                INSERT INTO loss (segment, destination, kind, reason, count) VALUES (?, ?, ?, ?, ?)
                ON CONFLICT DO UPDATE SET count = count + excluded.count
                """
        ).execute(arguments: [segment, destination, kind.rawValue, reason.bounded, count])
    }
}
