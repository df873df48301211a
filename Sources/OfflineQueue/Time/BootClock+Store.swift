import Basics
import GRDB

// The store's part of the clock of a boot: columns of its row, and its steps.

extension BootClock {
    /// The columns of `boot` that ``init(_:)`` reads, in its order.
    static let columns = """
        wall_offset_us, trusted_from_us, trusted_until_us, clock_error_us, jumped_after_us
        """
    static let columnCount = 5

    /// Steps that the store keeps, of all boots together: a clock that steps for ever must not fill it.
    private static let storedStepsMax = 1_000

    /// From a row that begins with ``columns``.
    init(_ row: Row, steps: [ClockStep] = []) {
        self.init(
            offset: row[0], first: row[1], newest: row[2],
            error: (row[3] as Int64?).map { .microseconds($0) }, jumpedAfter: row[4], steps: steps)
    }

    /// The clock of a boot with its last steps; nil if the store does not know the boot.
    init?(_ db: Database, boot: Int64) throws {
        let row = try Row.fetchOne(
            db.cachedStatement(sql: "SELECT \(Self.columns) FROM boot WHERE id = ?"),
            arguments: [boot])
        guard let row else { return nil }
        let steps = try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT after_uptime_us, at_uptime_us, before_us, offset_us FROM clock_step
                    WHERE boot = ? ORDER BY at_uptime_us DESC LIMIT \(Self.stepsMax)
                    """), arguments: [boot]
        ).reversed().compactMap(ClockStep.init)
        self.init(row, steps: steps)
    }

    /// Writes the boot's row and what else these facts change. The clock has taken all of them already.
    ///
    /// - Parameter source: who says so, for people.
    func write(_ facts: [Fact], boot: Int64, source: String, _ db: Database) throws {
        guard !facts.isEmpty else { return }
        try db.execute(
            sql: """
                UPDATE boot SET wall_offset_us = ?1, offset_source = iif(wall_offset_us IS ?1,
                        offset_source, ?2),
                    trusted_from_us = ?3, trusted_until_us = ?4, clock_error_us = ?5,
                    jumped_after_us = ?6
                WHERE id = ?7
                """,
            arguments: [offset, source, first, newest, error?.microseconds, jumpedAfter, boot])
        for case .stepped(let step) in facts {
            try db.execute(
                sql: "INSERT OR REPLACE INTO clock_step VALUES (?, ?, ?, ?, ?)",
                arguments: [boot, step.at, step.after, step.before, step.offset])
            try db.execute(
                sql: """
                    DELETE FROM clock_step WHERE (boot, at_uptime_us) IN (
                        SELECT boot, at_uptime_us FROM clock_step
                        ORDER BY boot DESC, at_uptime_us DESC LIMIT -1 OFFSET ?)
                    """, arguments: [Self.storedStepsMax])
        }
        if facts.contains(where: \.givesTimes) { try dateSegments(of: boot, db) }
    }

    /// Gives the segments without a time theirs, but for those after a jump.
    private func dateSegments(of boot: Int64, _ db: Database) throws {
        let segments = try Row.fetchAll(
            db,
            sql: """
                SELECT id, first_uptime_us FROM segment
                WHERE wall_offset_us IS NULL AND run IN (SELECT id FROM run WHERE boot = ?)
                """, arguments: [boot])
        for segment in segments {
            guard let id = segment[0] as Int64?, let first = segment[1] as Uptime?,
                let offset = answer(first)?.offset
            else { continue }
            try db.execute(
                sql: "UPDATE segment SET wall_offset_us = ? WHERE id = ?", arguments: [offset, id])
        }
    }
}

extension ClockStep {
    fileprivate init?(_ row: Row) {
        guard let after = row[0] as Uptime?, let at = row[1] as Uptime?,
            let before = row[2] as WallOffset?, let offset = row[3] as WallOffset?
        else { return nil }
        self.init(after: after, at: at, before: before, offset: offset)
    }
}

/// The clocks of the boots that a read comes upon, each read once.
struct BootClocks {
    private let db: Database
    private var clocks: [Int64: BootClock?] = [:]

    init(_ db: Database) { self.db = db }

    mutating func of(_ boot: Int64) throws -> BootClock? {
        if let known = clocks[boot] { return known }
        let clock = try BootClock(db, boot: boot)
        clocks[boot] = .some(clock)
        return clock
    }
}

extension Database {
    /// The number of the boot with this name. Adds the boot if it is new.
    func boot(_ name: String) throws -> Int64 {
        try execute(
            sql: "INSERT INTO boot (boot_id) VALUES (?) ON CONFLICT DO NOTHING", arguments: [name])
        return try Int64.fetchOne(
            self, sql: "SELECT id FROM boot WHERE boot_id = ?", arguments: [name]) ?? 0
    }
}
