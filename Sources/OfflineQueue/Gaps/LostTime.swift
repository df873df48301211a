import Basics
import GRDB

// A fresh store knows nothing of the time before it. All of it is `store-lost`, until samples and gaps that were
// saved speak for their parts, as they do where a run is taken to be over since its last commit (`gateway-off`).

extension Database {
    /// The time of each assignment up to `begin` of its ledger here, or to its end, is lost.
    func loseTime(until begin: (_ assignment: Int64) -> Instant) throws {
        for row in try Row.fetchAll(self, sql: "SELECT * FROM assignment") {
            guard let id = row["id"] as Int64?, let began = Instant(row, "began") else { continue }
            try insertLost(id, from: began, until: Instant(row, "ended") ?? begin(id))
        }
    }

    /// Samples of an assignment were saved that came at these uptimes of a boot.
    func cover(_ assignment: Int64, boot: Int64, with uptimes: [Uptime]) throws {
        let uptimes = uptimes.sorted()
        guard var from = uptimes.first, var until = uptimes.first else { return }
        func cover() throws {
            try explain(
                assignment, from: Instant(boot: boot, uptime: from),
                until: Instant(boot: boot, uptime: until), as: nil)
        }
        for uptime in uptimes {
            if GapLedger.isGap(from: until, until: uptime) {
                try cover()
                from = uptime
            }
            until = uptime
        }
        try cover()
    }

    /// A part of the lost time has another cause after all; nil: a sample was saved of it.
    func explain(
        _ assignment: Int64, from: Instant, until: Instant, as cause: GapCause?
    ) throws {
        let lost = try Row.fetchAll(
            cachedStatement(
                sql: """
                    SELECT id, from_boot, from_uptime_us, until_boot, until_uptime_us, cause FROM gap
                    WHERE assignment = ?1 AND cause IN ('store-lost', 'gateway-off')
                        AND until_boot IS NOT NULL
                        AND (from_boot, from_uptime_us) <= (?4, ?5)
                        AND (until_boot, until_uptime_us) >= (?2, ?3)
                    """),
            arguments: [assignment, from.boot, from.uptime, until.boot, until.uptime])
        for row in lost {
            guard let begin = Instant(row, at: 1), let end = Instant(row, at: 3) else { continue }
            try execute(sql: "DELETE FROM gap WHERE id = ?", arguments: [row[0] as Int64?])
            let left = GapCause(rawValue: row[5] ?? "") ?? .storeLost
            try insertLost(assignment, left, from: begin, until: min(from, end))
            try insertLost(assignment, left, from: max(until, begin), until: end)
            if let cause, max(from, begin) < min(until, end) {
                try insertGap(of: assignment, cause, from: max(from, begin), until: min(until, end))
            }
        }
    }

    private func insertLost(
        _ assignment: Int64, _ cause: GapCause = .storeLost, from: Instant, until: Instant
    ) throws {
        guard from < until,
            from.boot != until.boot || GapLedger.isGap(from: from.uptime, until: until.uptime)
        else { return }
        try insertGap(of: assignment, cause, from: from, until: until)
    }
}

extension Instant: Comparable {
    static func < (one: Instant, other: Instant) -> Bool {
        (one.boot, one.uptime) < (other.boot, other.uptime)
    }
}
