import Basics
import GRDB

/// A boot with samples whose time is not known, and what is known of when they came: its clock was never trusted, or
/// jumped to another date.
public struct UntrustedBoot: Sendable, Hashable {
    /// Its name (``BootID``).
    public let bootID: String
    /// Whether it is the running one, which may yet be synchronised.
    public let isRunning: Bool
    /// Samples that wait for its time.
    public let held: Int
    /// `CLOCK_BOOTTIME` of the first and last frame without a time.
    public let uptimes: ClosedRange<Uptime>
    /// The least UTC − uptime, with which its frames come after all that is known to be older.
    public let earliestOffset: Duration
    /// The greatest one with which they come before all that is known to be newer; nil if nothing is.
    public let latestOffset: Duration?
}

extension SampleQueue {
    /// The time now by all that the clock of this boot has said, the present reading included; nil while that is in
    /// doubt: it was never trusted, or jumped to another date. Whatever ages or ends does so by this, not by the wall
    /// clock, which the boot's clock may have rejected.
    public var presentTime: UTC? {
        let reading = clock.read()
        return bootClock(with: reading).answer(reading.uptime)?.offset.utc(reading.uptime)
    }

    /// The clock of this boot after a reading that need not be remembered.
    func bootClock(with reading: ClockReading) -> BootClock {
        var clock = run.clock
        _ = clock.note(reading)
        return clock
    }

    /// The times that a file may give to a sample: credible ones up to a day after now, which is how far behind another
    /// machine's clock this one may be, and those before, in which an older program may have recorded it.
    var statableTimes: Range<UTC> {
        let end = clock.credible.upperBound
        return ClockTrust
            .earliestMeasurable..<min(
                end, presentTime.map { $0 + .seconds(86_400) } ?? end)
    }

    /// Tells the queue what the clocks say: the first trusted reading of a boot gives its earlier samples their time,
    /// and the newest one counts for those that follow.
    public func noteClock(_ reading: ClockReading) throws(QueueError) {
        var clock = run.clock
        if let fact = clock.note(reading) {
            try write("note clock") { [clock, boot = run.boot] db in
                try clock.write([fact], boot: boot, source: "clock", db)
            }
        }
        run.adopt(clock)
    }

    /// A technician states that UTC was uptime + `wallOffset` for the samples without a time of the boot named
    /// `bootID`.
    ///
    /// Throws `already-set` if that boot has none, and `invalid-argument` if its frames would
    /// have come before this program was built (``ClockTrust/earliestCredible``) or, where the
    /// present time is known, would come in the future.
    public func release(
        bootID: String, wallOffset: Duration
    ) throws(QueueError) {
        let offset = WallOffset(wallOffset)
        let operation = "release boot"
        let credible = clock.credible
        let now = presentTime ?? credible.upperBound
        let released = try write(operation) { db -> (boot: Int64, clock: BootClock) in
            let id = try Int64.fetchOne(
                db, sql: "SELECT id FROM boot WHERE boot_id = ?", arguments: [bootID])
            guard let id, var clock = try BootClock(db, boot: id) else {
                throw QueueError(.unknownReference, operation, "no such boot")
            }
            let uptimes = try Self.uptimes(db, boot: id)
            guard !clock.isKnown || uptimes != nil else {
                throw QueueError(.alreadySet, operation, "its clock is known")
            }
            if let uptimes {
                guard let first = offset.utc(uptimes.lowerBound), first >= credible.lowerBound
                else {
                    throw QueueError(
                        .invalidArgument, operation, "its frames would be older than this program")
                }
                guard let last = offset.utc(uptimes.upperBound), last <= now else {
                    throw QueueError(
                        .invalidArgument, operation, "its frames would be in the future")
                }
            }
            let last = uptimes?.upperBound ?? .zero
            let step = clock.set(offset, at: last)
            try clock.write(
                [step.map { .stepped($0) } ?? .found], boot: id, source: "technician", db)
            return (id, clock)
        }
        if released.boot == run.boot { run.adopt(released.clock) }
    }

    /// The boots with samples whose clock is not trusted, oldest first: what
    /// ``release(bootID:wallOffset:)`` is for.
    public func untrustedBoots() throws(QueueError) -> [UntrustedBoot] {
        let now = presentTime
        return try read("list boots") { [running = run.boot] db in
            let rows = try Row.fetchAll(
                db,
                sql: """
                    SELECT b.id, b.boot_id, sum(s.stored - s.delivered - s.dead - s.dropped)
                    FROM boot b JOIN run r ON r.boot = b.id JOIN segment s ON s.run = r.id
                    WHERE s.wall_offset_us IS NULL
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

    /// Uptimes of the first and last frame of a boot in segments without a time; nil if it has none.
    private static func uptimes(_ db: Database, boot: Int64) throws -> ClosedRange<Uptime>? {
        let row = try Row.fetchOne(
            db,
            sql: """
                SELECT min(s.first_uptime_us), max(s.last_uptime_us)
                FROM segment s JOIN run r ON r.id = s.run
                WHERE r.boot = ? AND s.wall_offset_us IS NULL
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
                SELECT max(s.last_uptime_us + s.wall_offset_us)
                FROM segment s JOIN run r ON r.id = s.run WHERE r.boot < ?
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
