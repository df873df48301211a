import Basics
import GRDB

/// A point on an assignment's time line: an uptime of a boot (its row).
struct Instant: Sendable, Hashable {
    var boot: Int64
    var uptime: Uptime

    /// Earlier than every instant of a store.
    static let unknown = Instant(boot: 0, uptime: .zero)
}

extension Instant {
    /// Reads the columns `NAME_boot` and `NAME_uptime_us` of a row; nil if they are NULL.
    init?(_ row: Row, _ name: String) {
        guard let boot = row["\(name)_boot"] as Int64? else { return nil }
        self.init(boot: boot, uptime: row["\(name)_uptime_us"] ?? .zero)
    }

    /// Reads a column with the boot and the next one with the uptime; nil if they are NULL.
    init?(_ row: Row, at column: Int) {
        guard let boot = row[column] as Int64? else { return nil }
        self.init(boot: boot, uptime: row[column + 1] ?? .zero)
    }
}

/// A ledger and what of it is in the store.
struct KeptLedger: Sendable {
    var ledger: GapLedger
    /// When its assignment or the run ended; nil while both go on. Frames from before may still come.
    private var end: Uptime?
    /// Where the gap begins that is in the store as open.
    private var storedFrom: Uptime?
    /// As it was when its end was last written.
    private var endWritten: GapLedger?

    init(ledger: GapLedger) { self.ledger = ledger }

    var isEnded: Bool { end != nil }

    /// Whether it ended so long ago that no frame of it comes any more.
    func isOver(at uptime: Uptime) -> Bool {
        end.map { uptime - $0 > GapLedgers.lateMax } ?? false
    }

    mutating func end(at uptime: Uptime) { end = end ?? uptime }

    /// Writes what is over, and what is open at `uptime`. Returns whether there was anything to write.
    mutating func write(
        _ db: Database, assignment: Int64, boot: Int64, uptime: Uptime
    ) throws -> Bool {
        guard endWritten == nil || endWritten != ledger else { return false }
        let (open, over) = parts(at: uptime)
        let voidSince = ledger.voidSince
        if let voidSince {
            try db.deleteGaps(of: assignment, boot: boot, since: voidSince)
            if let from = storedFrom, from >= voidSince { storedFrom = nil }
        }
        for interval in over {
            let until = Instant(boot: boot, uptime: interval.until ?? uptime)
            if interval.from == storedFrom {
                storedFrom = nil
                if try db.closeGap(of: assignment, at: until) { continue }
                // The row is not there: the store was salvaged meanwhile.
            }
            try db.insertGap(
                of: assignment, interval.cause,
                from: Instant(boot: boot, uptime: interval.from), until: until)
        }
        ledger.removeClosed()
        if isEnded {
            // A late frame shortens the last silence, which is then written anew.
            ledger.doubt()
            endWritten = ledger
        }
        if storedFrom != nil, open?.from != storedFrom {
            // A sample came from before this silence was called a gap: it was not one.
            try db.deleteOpenGap(of: assignment)
            storedFrom = nil
            guard open != nil else { return true }
        }
        guard let open, open.from != storedFrom else { return !over.isEmpty || voidSince != nil }
        try db.insertGap(
            of: assignment, open.cause, from: Instant(boot: boot, uptime: open.from), until: nil)
        storedFrom = open.from
        return true
    }

    /// The part that the store does not know yet, or knows as open only, at `uptime`.
    func unstored(at uptime: Uptime) -> [GapLedger.Interval] {
        guard endWritten == nil || endWritten != ledger else { return [] }
        var copy = self
        let (open, over) = copy.parts(at: uptime)
        return over + (open.map { [$0] } ?? [])
    }

    /// The gap that is open at `uptime`, and those that are over.
    private mutating func parts(
        at uptime: Uptime
    ) -> (open: GapLedger.Interval?, over: [GapLedger.Interval]) {
        if let end {
            var ended = ledger
            ended.end(at: end)
            return (nil, ended.closed)
        }
        let open = ledger.open(at: uptime)
        return (open, ledger.closed)
    }
}

extension Database {
    func insertGap(
        of assignment: Int64, _ cause: GapCause, from: Instant, until: Instant?
    ) throws {
        try cachedStatement(
            sql: """
                INSERT INTO gap (assignment, cause, from_boot, from_uptime_us, until_boot,
                    until_uptime_us)
                VALUES (?, ?, ?, ?, ?, ?)
                """
        ).execute(arguments: [
            assignment, cause.rawValue, from.boot, from.uptime, until?.boot, until?.uptime,
        ])
    }

    /// Returns whether there was an open one.
    @discardableResult
    func closeGap(of assignment: Int64, at until: Instant) throws -> Bool {
        try cachedStatement(
            sql: """
                UPDATE gap SET until_boot = ?, until_uptime_us = ?
                WHERE assignment = ? AND until_boot IS NULL
                """
        ).execute(arguments: [until.boot, until.uptime, assignment])
        return changesCount > 0
    }

    /// What the gaps of a boot tell of the time since an uptime turned out to be wrong.
    func deleteGaps(of assignment: Int64, boot: Int64, since uptime: Uptime) throws {
        try cachedStatement(
            sql: "DELETE FROM gap WHERE assignment = ? AND from_boot = ? AND from_uptime_us >= ?"
        ).execute(arguments: [assignment, boot, uptime])
        try cachedStatement(
            sql: """
                UPDATE gap SET until_uptime_us = ?3
                WHERE assignment = ?1 AND from_boot = ?2 AND until_boot = ?2 AND until_uptime_us > ?3
                """
        ).execute(arguments: [assignment, boot, uptime])
    }

    func deleteOpenGap(of assignment: Int64) throws {
        try execute(
            sql: "DELETE FROM gap WHERE assignment = ? AND until_boot IS NULL",
            arguments: [assignment])
    }
}

/// The run before this one: it knows when the gateway was last known to record.
struct PreviousRun: Sendable {
    private let id: Int64
    private let boot: Int64
    private let started: Uptime
    private let lastAlive: Uptime

    /// Up to when it is known to have recorded.
    var end: Instant { Instant(boot: boot, uptime: lastAlive) }

    /// Nil if there was none. An orderly end is exact; else the run lived at least until its last
    /// commit.
    init?(_ db: Database) throws {
        let row = try Row.fetchOne(
            db, sql: "SELECT * FROM run WHERE is_imported = 0 ORDER BY id DESC LIMIT 1")
        guard let row, let id = row["id"] as Int64?, let boot = row["boot"] as Int64? else {
            return nil
        }
        self.id = id
        self.boot = boot
        started = row["started_uptime_us"] ?? .zero
        if let ended = row["ended_uptime_us"] as Uptime? {
            lastAlive = max(started, ended)
        } else {
            let committed = try Uptime.fetchOne(
                db, sql: "SELECT max(last_uptime_us) FROM segment WHERE run = ?", arguments: [id])
            lastAlive = max(started, row["alive_uptime_us"] ?? started, committed ?? started)
        }
    }

    /// Closes what that run left of an open assignment's ledger, and accounts for the time until `now` as `gateway-off`.
    /// Returns the uptime up to which all is explained.
    func closeLedger(
        _ db: Database, of assignment: Row, resumedAt now: Instant
    ) throws -> Uptime {
        let id: Int64 = assignment["id"] ?? 0
        let end: Instant
        if let from = try openGap(db, id) {
            end = Instant(boot: boot, uptime: max(lastAlive, from))
            if end.uptime > from {
                try db.closeGap(of: id, at: end)
            } else {
                try db.deleteOpenGap(of: id)
            }
        } else {
            let known = try explained(db, assignment, id)
            end = Instant(boot: boot, uptime: max(lastAlive, known))
            if GapLedger.isGap(from: known, until: end.uptime) {
                try db.insertGap(
                    of: id, .silent, from: Instant(boot: boot, uptime: known), until: end)
            }
        }
        if end.boot == now.boot, end.uptime >= now.uptime { return end.uptime }
        try db.insertGap(of: id, .gatewayOff, from: end, until: now)
        return now.uptime
    }

    private func openGap(_ db: Database, _ assignment: Int64) throws -> Uptime? {
        try Uptime.fetchOne(
            db,
            sql: "SELECT from_uptime_us FROM gap WHERE assignment = ? AND until_boot IS NULL",
            arguments: [assignment])
    }

    /// The last uptime of that run for which there are samples or a gap that is over.
    private func explained(_ db: Database, _ assignment: Row, _ id: Int64) throws -> Uptime {
        var known = started
        if assignment["began_boot"] == boot {
            known = max(known, assignment["began_uptime_us"] ?? known)
        }
        let gap = try Uptime.fetchOne(
            db,
            sql: """
                SELECT max(until_uptime_us) FROM gap WHERE assignment = ? AND until_boot = ?
                """, arguments: [id, boot])
        let sample = try Uptime.fetchOne(
            db,
            sql: """
                SELECT max(last_sample_uptime_us) FROM segment WHERE run = ? AND assignment = ?
                """, arguments: [self.id, id])
        return max(known, gap ?? known, sample ?? known)
    }
}
