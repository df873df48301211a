import Basics
import GRDB

/// A boot whose clock is not trusted, and what is known of when it was.
public struct UntrustedBoot: Sendable, Hashable {
    /// Its name (``BootID``).
    public let bootID: String
    /// Whether it is the running one, which may yet be synchronised.
    public let isRunning: Bool
    /// Samples that wait for its time.
    public let held: Int
    /// `CLOCK_BOOTTIME` of its first and last frame.
    public let uptimes: ClosedRange<Uptime>
    /// The least UTC − uptime, with which its frames come after all that is known to be older.
    public let earliestOffset: Duration
    /// The greatest one with which they come before all that is known to be newer; nil if nothing is.
    public let latestOffset: Duration?
}

extension SampleQueue {
    /// Tells the queue what the clocks say: the first trusted reading of a boot fixes the offset by
    /// which the times of its earlier samples are computed.
    public func noteClock(_ reading: ClockReading) throws(QueueError) {
        guard run.wallOffset == nil, reading.isTrusted else { return }
        let offset = WallOffset(utc: reading.wall, uptime: reading.uptime)
        try write("note clock") { [boot = run.boot] db in
            try db.trust(boot: boot, offset: offset, source: "clock")
        }
        run.trust(wallOffset: offset)
    }

    /// A technician states that in the boot named `bootID`, which never had a trusted clock, UTC
    /// was uptime + `wallOffset`.
    ///
    /// Throws `already-set` if that boot's clock is known, and `invalid-argument` if its frames would
    /// have come before this program was built (``ClockTrust/earliestCredible``) or, by a
    /// trusted clock, would come in the future.
    public func release(
        bootID: String, wallOffset: Duration
    ) throws(QueueError) {
        let offset = WallOffset(wallOffset)
        let operation = "release boot"
        let reading = clock.read()
        let now = reading.trustedWall ?? PlausibleTime.range(at: reading).upperBound
        let released = try write(operation) { db -> Int64 in
            let row = try Row.fetchOne(
                db, sql: "SELECT id, wall_offset_us FROM boot WHERE boot_id = ?",
                arguments: [bootID])
            guard let row, let id = row[0] as Int64? else {
                throw QueueError(.unknownReference, operation, "no such boot")
            }
            guard row[1] as Int64? == nil else {
                throw QueueError(.alreadySet, operation, "its clock is known")
            }
            if let uptimes = try Self.uptimes(db, boot: id) {
                guard let first = offset.utc(uptimes.lowerBound),
                    first >= ClockTrust.earliestCredible
                else {
                    throw QueueError(
                        .invalidArgument, operation, "its frames would be older than this program")
                }
                guard let last = offset.utc(uptimes.upperBound), last <= now else {
                    throw QueueError(
                        .invalidArgument, operation, "its frames would be in the future")
                }
            }
            try db.trust(boot: id, offset: offset, source: "technician")
            return id
        }
        if released == run.boot { run.trust(wallOffset: offset) }
    }

    /// The boots with samples whose clock is not trusted, oldest first: what
    /// ``release(bootID:wallOffset:)`` is for.
    public func untrustedBoots() throws(QueueError) -> [UntrustedBoot] {
        let now = clock.read().trustedWall
        return try read("list boots") { [running = run.boot] db in
            let rows = try Row.fetchAll(
                db,
                sql: """
                    SELECT b.id, b.boot_id, sum(s.stored - s.delivered - s.dead - s.dropped)
                    FROM boot b JOIN run r ON r.boot = b.id JOIN segment s ON s.run = r.id
                    WHERE b.wall_offset_us IS NULL
                    GROUP BY b.id HAVING sum(s.stored) > 0 ORDER BY b.id
                    """)
            return try rows.compactMap { row in
                guard let id = row[0] as Int64?, let uptimes = try Self.uptimes(db, boot: id)
                else { return nil }
                let (before, after) = try Self.neighbours(db, of: id)
                let earliest = max(
                    before ?? ClockTrust.earliestCredible, ClockTrust.earliestCredible)
                let latest = [after, now].compactMap { $0 }.min()
                return UntrustedBoot(
                    bootID: row[1] ?? "", isRunning: id == running, held: row[2] ?? 0,
                    uptimes: uptimes,
                    earliestOffset: WallOffset(utc: earliest, uptime: uptimes.lowerBound).duration,
                    latestOffset: latest.map {
                        WallOffset(utc: $0, uptime: uptimes.upperBound).duration
                    })
            }
        }
    }

    /// Uptimes of the first and last frame of a boot; nil if it has none.
    private static func uptimes(_ db: Database, boot: Int64) throws -> ClosedRange<Uptime>? {
        let row = try Row.fetchOne(
            db,
            sql: """
                SELECT min(s.first_uptime_us), max(s.last_uptime_us)
                FROM segment s JOIN run r ON r.id = s.run WHERE r.boot = ?
                """, arguments: [boot])
        guard let first = row?[0] as Uptime?, let last = row?[1] as Uptime?, first <= last else {
            return nil
        }
        return first...last
    }

    /// When the last frame of the boots before came, and when the first start of the boots after, as far
    /// as their clocks are trusted.
    private static func neighbours(
        _ db: Database, of boot: Int64
    ) throws -> (before: UTC?, after: UTC?) {
        let before = try UTC.fetchOne(
            db,
            sql: """
                SELECT max(s.last_uptime_us + b.wall_offset_us)
                FROM segment s JOIN run r ON r.id = s.run JOIN boot b ON b.id = r.boot
                WHERE b.id < ?
                """, arguments: [boot])
        let after = try UTC.fetchOne(
            db,
            sql: """
                SELECT min(r.started_uptime_us + b.wall_offset_us)
                FROM run r JOIN boot b ON b.id = r.boot WHERE b.id > ?
                """, arguments: [boot])
        return (before, after)
    }
}

extension Database {
    /// Fixes the offset of a boot, unless it has one.
    func trust(boot: Int64, offset: WallOffset, source: String) throws {
        try execute(
            sql: """
                UPDATE boot SET wall_offset_us = ?, offset_source = ?
                WHERE id = ? AND wall_offset_us IS NULL
                """, arguments: [offset, source, boot])
    }
}
