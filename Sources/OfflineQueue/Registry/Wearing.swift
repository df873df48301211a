import Basics
import GRDB

/// Who wears which strap, and from when until when: the assignments that the store has at one transaction.
///
/// A frame carries its strap and its time, never a patient. This alone says whose it is, at the commit, in the
/// transaction that stores it: whatever became of an assignment while a frame was under way, it goes to the one whose
/// time it was sent in.
struct Wearing {
    /// Whose a frame is.
    enum Owner: Hashable {
        /// This assignment's.
        case assignment(Int64)
        /// This assignment began within the uncertainty of the frame's time, and somebody else may have worn the strap
        /// before: that is a person's to decide.
        case uncertain(Int64)
        /// Nobody wore the strap, as far as the store knows.
        case nobody
    }

    private struct Interval {
        let assignment: Int64
        /// The least possible one if it began before this boot.
        let begin: Uptime
        /// Nil while it is open.
        let end: Uptime?

        /// Frames that may be of either one of two are kept in an assignment that lasts no time.
        var isEmpty: Bool { end.map { $0 <= begin } ?? false }

        func contains(_ uptime: Uptime) -> Bool {
            begin <= uptime && end.map { uptime < $0 } ?? true
        }

        func overlaps(_ times: ClosedRange<Uptime>) -> Bool {
            begin <= times.upperBound && end.map { times.lowerBound < $0 } ?? true
        }
    }

    private let db: Database
    private let boot: Int64
    /// By sensor, in the order of the assignments.
    private var intervals: [Int64: [Interval]] = [:]

    /// Those of the boot with this row; `db` must be in one transaction as long as this value is used.
    init(_ db: Database, boot: Int64) {
        self.db = db
        self.boot = boot
    }

    /// Whose a frame of this sensor is that was sent at `uptime`, or if that is not certain at any of the times `sent`.
    mutating func owner(
        of sensor: Int64, at uptime: Uptime, sent: ClosedRange<Uptime>? = nil
    ) throws -> Owner {
        let known = try intervals(of: sensor)
        guard let sent else {
            // An import may have given times of this boot to assignments of its own, which come after.
            let owner = known.first { $0.contains(uptime) }
            return owner.map { .assignment($0.assignment) } ?? .nobody
        }
        let possible = known.filter { $0.overlaps(sent) }
        guard let last = possible.last else { return .nobody }
        if possible.count > 1 || sent.lowerBound < last.begin { return .uncertain(last.assignment) }
        return last.contains(uptime) ? .assignment(last.assignment) : .nobody
    }

    /// The assignment that stores a frame; nil if nobody wore its strap. Frames that may be of either of two get one
    /// without an enrollment, which a person gives to the right one.
    mutating func assignment(for arrival: Arrival) throws -> Int64? {
        switch try owner(of: arrival.sensorID, at: arrival.uptime, sent: arrival.sent) {
        case .assignment(let id): id
        case .uncertain(let id): try db.unsureAssignment(beside: id)
        case .nobody: nil
        }
    }

    /// The assignment of a sensor at an uptime.
    mutating func assignment(of sensor: Int64, at uptime: Uptime) throws -> Int64? {
        guard case .assignment(let id) = try owner(of: sensor, at: uptime) else { return nil }
        return id
    }

    private mutating func intervals(of sensor: Int64) throws -> [Interval] {
        if let known = intervals[sensor] { return known }
        let rows = try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT id, iif(began_boot = ?2, began_uptime_us, NULL), ended_uptime_us
                    FROM assignment
                    WHERE sensor = ?1 AND (ended_boot IS NULL OR ended_boot = ?2)
                    ORDER BY id
                    """), arguments: [sensor, boot])
        let found = rows.map { row in
            Interval(
                assignment: row[0] ?? 0, begin: row[1] ?? Uptime(microseconds: .min),
                end: row[2])
        }.filter { !$0.isEmpty }
        intervals[sensor] = found
        return found
    }
}

extension Database {
    /// The assignment of frames that were sent about when this one began, nobody knows on which side; made with the first
    /// of them. They go nowhere before it is bound (``addDestinations(ofUnsure:_:)``).
    fileprivate func unsureAssignment(beside next: Int64) throws -> Int64 {
        let known = try Int64.fetchOne(
            cachedStatement(
                sql: """
                    SELECT a.id FROM assignment a JOIN assignment n USING (sensor, began_boot, began_uptime_us)
                    WHERE n.id = ? AND a.ended_boot = a.began_boot AND a.ended_uptime_us = a.began_uptime_us
                    """), arguments: [next])
        if let known { return known }
        let id = try nextNumber(of: "assignment")
        try execute(
            sql: """
                INSERT INTO assignment (id, sensor, began_boot, began_uptime_us, began_wall_us,
                    ended_boot, ended_uptime_us, ended_wall_us)
                SELECT ?, sensor, began_boot, began_uptime_us, began_wall_us, began_boot,
                    began_uptime_us, began_wall_us
                FROM assignment WHERE id = ?
                """, arguments: [id, next])
        return id
    }
}
