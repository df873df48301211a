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
                    SELECT reason, sum(count - acknowledged) AS lost FROM loss
                    WHERE reason IN (\(reasons)) GROUP BY reason HAVING lost > 0
                    """))
        return Dictionary(
            rows.map { ($0[0] as String? ?? "", $0[1] as Int? ?? 0) }, uniquingKeysWith: +)
    }

    /// Acknowledges every loss there is.
    static func acknowledgeLosses(_ db: Database) throws {
        try db.execute(sql: "UPDATE loss SET acknowledged = count WHERE acknowledged < count")
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
