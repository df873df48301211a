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
    /// `CLOCK_BOOTTIME` of its first and last frame, µs.
    public var uptimes: ClosedRange<Uptime> {
        Uptime(
            microseconds: uptimesMicroseconds.lowerBound)...Uptime(
                microseconds: uptimesMicroseconds.upperBound)
    }
    let uptimesMicroseconds: ClosedRange<Int64>
    /// The least UTC − uptime, with which its frames come after all that is known to be older.
    public var earliestOffset: Duration { Duration.microseconds(earliestOffsetMicroseconds) }
    let earliestOffsetMicroseconds: Int64
    /// The greatest one with which they come before all that is known to be newer; nil if nothing is.
    public var latestOffset: Duration? {
        latestOffsetMicroseconds.map { Duration.microseconds($0) }
    }
    let latestOffsetMicroseconds: Int64?
}

extension SampleQueue {
    /// Tells the queue what the clocks say: the first trusted reading of a boot fixes the offset by
    /// which the times of its earlier samples are computed.
    public func noteClock(_ reading: ClockReading) throws(QueueError) {
        guard run.wallOffset == nil, reading.isTrusted else { return }
        let offset = reading.wallMicroseconds &- reading.uptimeMicroseconds
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
        let wallOffsetMicroseconds = wallOffset.microseconds
        let operation = "release boot"
        let reading = clock.read()
        let now = reading.trustedWallMicroseconds ?? PlausibleTime.range(at: reading).upperBound
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
                let (first, early) = uptimes.lowerBound
                    .addingReportingOverflow(wallOffsetMicroseconds)
                let (last, late) = uptimes.upperBound
                    .addingReportingOverflow(wallOffsetMicroseconds)
                guard !early, first >= ClockTrust.earliestCredibleMicroseconds else {
                    throw QueueError(
                        .invalidArgument, operation, "its frames would be older than this program")
                }
                guard !late, last <= now else {
                    throw QueueError(
                        .invalidArgument, operation, "its frames would be in the future")
                }
            }
            try db.trust(boot: id, offset: wallOffsetMicroseconds, source: "technician")
            return id
        }
        if released == run.boot { run.trust(wallOffset: wallOffsetMicroseconds) }
    }

    /// The boots with samples whose clock is not trusted, oldest first: what
    /// ``release(bootID:wallOffset:)`` is for.
    public func untrustedBoots() throws(QueueError) -> [UntrustedBoot] {
        let now = clock.read().trustedWallMicroseconds
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
                let latest = [after, now].compactMap { $0 }.min()
                return UntrustedBoot(
                    bootID: row[1] ?? "", isRunning: id == running, held: row[2] ?? 0,
                    uptimesMicroseconds: uptimes,
                    earliestOffsetMicroseconds: max(
                        before ?? .min, ClockTrust.earliestCredibleMicroseconds)
                        &- uptimes.lowerBound,
                    latestOffsetMicroseconds: latest.map { $0 &- uptimes.upperBound })
            }
        }
    }

    /// Uptimes of the first and last frame of a boot; nil if it has none.
    private static func uptimes(_ db: Database, boot: Int64) throws -> ClosedRange<Int64>? {
        let row = try Row.fetchOne(
            db,
            sql: """
                SELECT min(s.first_uptime_us), max(s.last_uptime_us)
                FROM segment s JOIN run r ON r.id = s.run WHERE r.boot = ?
                """, arguments: [boot])
        guard let first = row?[0] as Int64?, let last = row?[1] as Int64?, first <= last else {
            return nil
        }
        return first...last
    }

    /// UTC µs of the last frame of the boots before, and of the first start of the boots after, as far
    /// as their clocks are trusted.
    private static func neighbours(
        _ db: Database, of boot: Int64
    ) throws -> (before: Int64?, after: Int64?) {
        let before = try Int64.fetchOne(
            db,
            sql: """
                SELECT max(s.last_uptime_us + b.wall_offset_us)
                FROM segment s JOIN run r ON r.id = s.run JOIN boot b ON b.id = r.boot
                WHERE b.id < ?
                """, arguments: [boot])
        let after = try Int64.fetchOne(
            db,
            sql: """
                SELECT min(r.started_uptime_us + b.wall_offset_us)
                FROM run r JOIN boot b ON b.id = r.boot WHERE b.id > ?
                """, arguments: [boot])
        return (before, after)
    }
}

extension Database {
    /// Fixes the offset UTC − uptime (µs) of a boot, unless it has one.
    func trust(boot: Int64, offset: Int64, source: String) throws {
        try execute(
            sql: """
                UPDATE boot SET wall_offset_us = ?, offset_source = ?
                WHERE id = ? AND wall_offset_us IS NULL
                """, arguments: [offset, source, boot])
    }
}
