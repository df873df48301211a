import Basics
import GRDB

/// The boots of the store and their clocks.
struct Boots: Sendable {
    private var ids: [Int64: String] = [:]
    private var clocks: [Int64: BootClock] = [:]

    init(_ db: Database) throws {
        let rows = try Row.fetchCursor(
            db, sql: "SELECT \(BootClock.columns), id, boot_id FROM boot")
        while let row = try rows.next() {
            guard let boot = row[BootClock.columnCount] as Int64? else { continue }
            ids[boot] = row[BootClock.columnCount + 1] ?? ""
            clocks[boot] = BootClock(row)
        }
    }

    func id(_ boot: Int64) -> String { ids[boot] ?? "" }

    /// The time of an instant by the newest trusted reading of its boot's clock, if there is one.
    func utc(_ instant: Instant) -> UTC? {
        clocks[instant.boot]?.answer(instant.uptime)?.offset.utc(instant.uptime)
    }

    /// The end of a span, or where the clock of its boot jumped: the time from there on is not known.
    func utc(_ from: Instant, until: Instant) -> UTC? {
        if let end = utc(until) { return end }
        guard from.boot == until.boot, let jumped = clocks[from.boot]?.jumpedAfter else {
            return nil
        }
        return utc(Instant(boot: from.boot, uptime: jumped))
    }

    /// Whether some of a span may lie between two times: an unknown one rules nothing out.
    func mayOverlap(from: Instant, until: Instant, since: UTC?, before end: UTC?) -> Bool {
        func isBefore(_ time: UTC?, _ bound: UTC?) -> Bool {
            guard let time, let bound else { return false }
            return time <= bound
        }
        return !isBefore(utc(until), since) && !isBefore(end, utc(from))
    }

    /// From one instant to another: by uptime in one boot, else by the wall clocks if both are
    /// known and agree on the order.
    func length(from: Instant, until: Instant) -> Duration? {
        if from.boot == until.boot {
            return Self.length(until.uptime - from.uptime)
        }
        guard let begin = utc(from), let end = utc(until) else { return nil }
        return Self.length(end - begin)
    }

    /// Nil for what cannot be: less than nothing, or more than the store counts.
    private static func length(_ length: Duration) -> Duration? {
        (.zero...Duration.microseconds(Int64.max)).contains(length) ? length : nil
    }
}

/// A gap as it is in the store, or as the ledger in memory has it.
struct GapRow: Sendable {
    var assignment: Int64
    var sensor: Int64
    var cause: GapCause
    var from: Instant
    var until: Instant
    var isOpen = false

    /// The order of time lines: boots are numbered as they come.
    static func isEarlier(_ one: GapRow, _ other: GapRow) -> Bool {
        (one.from.boot, one.from.uptime, one.assignment)
            < (other.from.boot, other.from.uptime, other.assignment)
    }

    /// Whether some of it may lie between two times: an unknown one rules nothing out.
    func overlaps(since: UTC?, until: UTC?, _ boots: Boots) -> Bool {
        boots.mayOverlap(from: from, until: self.until, since: since, before: until)
    }

    func gap(_ boots: Boots) -> Gap {
        let length = boots.length(from: from, until: until)
        return Gap(
            assignmentID: assignment, sensorID: sensor,
            cause: length == nil ? .clockUnknown : cause,
            from: boots.utc(from), until: isOpen ? nil : boots.utc(until),
            fromBootID: boots.id(from.boot), fromUptime: from.uptime,
            untilBootID: boots.id(until.boot), untilUptime: until.uptime,
            isOpen: isOpen, duration: length)
    }

    /// The gaps of the store that are over, oldest first or newest, that overlap a span of UTC or whose time
    /// is unknown.
    static func closed(
        _ db: Database, assignment: Int64?, sensor: Int64? = nil, since: UTC?, until: UTC?,
        limit: Int, isNewest: Bool = false
    ) throws -> [GapRow] {
        let order = isNewest ? "DESC" : "ASC"
        // Named alone where there is one, so that SQLite goes by its index.
        let ofAssignment = assignment == nil ? "TRUE" : "g.assignment = ?1"
        return try Row.fetchAll(
            db,
            sql: """
                \(columns)
                WHERE g.until_boot IS NOT NULL AND \(ofAssignment) AND (?1 IS NULL OR TRUE)
                    AND (?2 IS NULL OR coalesce(g.until_uptime_us + e.wall_offset_us > ?2, TRUE))
                    AND (?3 IS NULL OR coalesce(g.from_uptime_us + b.wall_offset_us < ?3, TRUE))
                    AND (?5 IS NULL OR a.sensor = ?5)
                ORDER BY g.from_boot \(order), g.from_uptime_us \(order), g.assignment \(order)
                LIMIT ?4
                """, arguments: [assignment, since, until, limit, sensor]
        ).map { GapRow($0) }
    }

    /// Those that go on, up to `now`.
    static func open(_ db: Database, until now: Instant?) throws -> [GapRow] {
        try Row.fetchAll(db, sql: "\(columns) WHERE g.until_boot IS NULL").map {
            GapRow($0, now: now ?? .unknown)
        }
    }

    /// The next that are over and begin after an instant. Those that were lost with a store and end before `told` are left
    /// out: the destination has these days.
    static func next(
        _ db: Database, of assignment: Int64, after cursor: Instant, told: UTC, limit: Int
    ) throws -> [GapRow] {
        try Row.fetchAll(
            db,
            sql: """
                \(columns)
                WHERE g.assignment = ?1 AND g.until_boot IS NOT NULL
                    AND (g.from_boot, g.from_uptime_us) > (?2, ?3)
                    AND NOT (g.cause = '\(GapCause.storeLost.rawValue)'
                        AND coalesce(g.until_uptime_us + e.wall_offset_us <= ?5, FALSE))
                ORDER BY g.from_boot, g.from_uptime_us LIMIT ?4
                """, arguments: [assignment, cursor.boot, cursor.uptime, limit, told]
        ).map { GapRow($0) }
    }

    /// Those of all assignments that overlap a day and lie within one boot. On no day lie those of a boot without a time.
    static func within(_ db: Database, dayStartingAt day: UTC) throws -> [GapRow] {
        try Row.fetchAll(
            db.cachedStatement(sql: withinDaySQL), arguments: [day, day + Coverage.day]
        ).map { GapRow($0) }
    }

    /// Those that lead from one boot to another: without them a time line does not get to the boots of a day.
    static func betweenBoots(_ db: Database, of assignment: Int64) throws -> [GapRow] {
        try Row.fetchAll(db.cachedStatement(sql: betweenBootsSQL), arguments: [assignment]).map {
            GapRow($0)
        }
    }

    // A gap is never deleted for its age: of each boot, only those are read that end after the day begins.
    static let withinDaySQL = """
        \(list) FROM boot b CROSS JOIN gap g CROSS JOIN assignment a
        WHERE g.until_boot = b.id AND g.until_uptime_us > ?1 - b.wall_offset_us
            AND g.from_boot = b.id AND g.from_uptime_us < ?2 - b.wall_offset_us
            AND a.id = g.assignment
        """
    static let betweenBootsSQL = """
        \(list) FROM gap g JOIN assignment a ON a.id = g.assignment
        WHERE g.assignment = ? AND g.from_boot <> g.until_boot
        """

    private static let list = """
        SELECT g.assignment, a.sensor, g.cause, g.from_boot, g.from_uptime_us,
            g.until_boot, g.until_uptime_us
        """
    private static let columns = """
        \(list)
        FROM gap g
        JOIN assignment a ON a.id = g.assignment
        JOIN boot b ON b.id = g.from_boot
        LEFT JOIN boot e ON e.id = g.until_boot
        """
}

extension GapRow {
    /// From a row of ``list``; one that goes on does so up to `now`.
    fileprivate init(_ row: Row, now: Instant = .unknown) {
        let (from, until) = (Instant(row, at: 3) ?? .unknown, Instant(row, at: 5))
        self.init(
            assignment: row[0] ?? 0, sensor: row[1] ?? 0,
            // A cause that this program has no word for cannot be told in its words.
            cause: GapCause(rawValue: row[2] ?? "") ?? .silent,
            from: from, until: until ?? max(from, now), isOpen: until == nil)
    }
}

/// The time line of one assignment: gaps, and between them what samples speak for.
struct TimeLine: Sendable {
    var begin: Instant
    var end: Instant
    /// Oldest first.
    var gaps: [GapRow]

    /// Of the assignment in a row, up to `now` if it goes on.
    init(of assignment: Row, now: Instant, gaps: [GapRow] = []) {
        begin = Instant(assignment, "began") ?? .unknown
        end = Instant(assignment, "ended") ?? now
        self.gaps = gaps.sorted(by: GapRow.isEarlier)
    }

    /// Whether some of it may lie on a day. Of boots whose clocks overlap, an earlier one may reach beyond the end.
    func mayTouch(dayStartingAt day: UTC, _ boots: Boots) -> Bool {
        boots.mayOverlap(
            from: begin, until: end, since: begin.boot == end.boot ? day : nil,
            before: day + Coverage.day)
    }

    /// The time line in UTC, without holes: time that cannot be placed on it is `clock-unknown`.
    func spans(_ boots: Boots) -> [TimeSpan] {
        var spans: [TimeSpan] = []
        var reached = boots.utc(begin)
        func add(from: Instant, until: Instant, _ cause: GapCause?) {
            guard let start = boots.utc(from), let stop = boots.utc(from, until: until) else {
                return
            }
            // Where the clocks of two boots overlap, the earlier one has said what it was.
            let begin = reached ?? start
            if start > begin {
                spans.append(TimeSpan(from: begin, until: start, cause: .clockUnknown))
            }
            guard stop > max(start, begin) else { return reached = max(begin, start) }
            spans.append(TimeSpan(from: max(start, begin), until: stop, cause: cause))
            reached = stop
        }
        var cursor = begin
        for gap in gaps {
            if gap.from.boot == cursor.boot, gap.from.uptime > cursor.uptime {
                add(from: cursor, until: gap.from.clipped(to: end), nil)
            }
            let isOverlap = gap.from.boot == cursor.boot && gap.from.uptime < cursor.uptime
            add(from: isOverlap ? cursor : gap.from, until: gap.until.clipped(to: end), gap.cause)
            cursor = gap.until
        }
        if cursor.boot == end.boot { add(from: cursor, until: end, nil) }
        if let stop = boots.utc(end), let reached, stop > reached {
            spans.append(TimeSpan(from: reached, until: stop, cause: .clockUnknown))
        }
        return spans
    }
}

extension Instant {
    /// The instant, or the end of the time line if that is earlier in the same boot.
    fileprivate func clipped(to end: Instant) -> Instant {
        boot == end.boot && end.uptime < uptime ? end : self
    }
}
