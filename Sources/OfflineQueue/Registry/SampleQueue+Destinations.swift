import Basics
import GRDB

/// Where a further destination begins.
public enum DestinationBeginning: Sendable, Hashable {
    /// With the next frame.
    case now
    /// With the oldest sample that is still kept.
    case kept
}

/// The state of the store at the moment at which something begins.
struct Present: Sendable {
    /// The number of the next sample.
    var nextSample: Int64
    /// ``SampleQueue/presentTime``; by the wall clock, trusted or not, where that is not known.
    var wall: UTC
    /// The same in days since 1970-01-01.
    var today: Int64 { wall.day }
}

// An assignment's own destination is its enrollment, for ever. Further ones come and go: a segment that is
// begun goes to those that the assignment has at that moment, so that what is added or removed "now" begins
// or ends with a segment.

extension SampleQueue {
    /// The reason under which samples are counted that waited for a further destination when it was removed.
    public static let destinationRemoved = "destination-removed"

    /// Has the samples of an assignment delivered to a further destination as well. One that they go to
    /// already changes nothing, but that with ``DestinationBeginning/kept`` what is kept goes there too.
    ///
    /// Throws `unknown-reference` if there is no such assignment or enrollment, and `invalid-argument` if it
    /// is the assignment's own destination, or an exchange, which knows its own patients only.
    public func add(
        destination: Int64, to assignment: Int64, from beginning: DestinationBeginning
    ) throws(QueueError) {
        // Frames that have arrived go where they went until now.
        try flush()
        try write("add destination") { [present] db in
            try db.add(destination, to: assignment, from: beginning, present)
        }
        segments.close(assignment)
    }

    /// Where begins what begins now.
    var present: Present {
        Present(nextSample: segments.nextSample, wall: presentTime ?? clock.read().wall)
    }

    /// Ends the delivery of an assignment's samples to a further destination: what waits for it is dropped
    /// for it, and its dead letters are given up. One that they do not go to changes nothing.
    public func remove(destination: Int64, from assignment: Int64) throws(QueueError) {
        try flush()
        let dropped = try write("remove destination") { db in
            _ = try db.assignment(assignment)
            let condition = "d.further = ? AND s.assignment = ?"
            let reason = Self.destinationRemoved
            let letters = try db.giveUpLetters(
                where: condition, [destination, assignment], reason: reason)
            let dropped = try db.dropWaiting(
                where: condition, [destination, assignment], reason: reason)
            try db.execute(
                sql: """
                    UPDATE further_destination SET state = 'removed'
                    WHERE assignment = ? AND destination = ?
                    """, arguments: [assignment, destination])
            return letters.dropped + dropped
        }
        deliveries.lent.drop(dropped)
        segments.close(assignment)
    }

    /// The same for every assignment.
    func removeEverywhere(destination: Int64) throws(QueueError) {
        let assignments = try read("remove destination") { db in
            try db.assignments(further: destination)
        }
        for assignment in assignments.sorted() {
            try remove(destination: destination, from: assignment)
        }
    }

    /// The further destinations of an assignment, in the order of their numbers.
    public func furtherDestinations(of assignment: Int64) throws(QueueError) -> [Int64] {
        try read("list destinations") { db in
            try Int64.fetchAll(
                db,
                sql: """
                    SELECT destination FROM further_destination
                    WHERE assignment = ? AND state = 'active' ORDER BY destination
                    """, arguments: [assignment])
        }
    }
}

extension Database {
    /// As ``SampleQueue/add(destination:to:from:)``, inside of another change: the caller flushes before and
    /// closes the assignment's segment after.
    func add(
        _ destination: Int64, to assignment: Int64,
        from beginning: DestinationBeginning, _ present: Present
    ) throws {
        let operation = "add destination"
        let known = try self.assignment(assignment)
        let kind = try self.enrollment(destination).terms.kind
        guard known.enrollmentID != destination else {
            throw QueueError(
                .invalidArgument, operation, "the sensor's samples go there in any case")
        }
        guard kind == .destination else {
            throw QueueError(
                .invalidArgument, operation, "an exchange gets samples by an assignment to it")
        }
        let isActive = try Bool.fetchOne(
            self,
            sql: """
                SELECT state = 'active' FROM further_destination
                WHERE assignment = ? AND destination = ?
                """, arguments: [assignment, destination])
        if isActive == true, beginning == .now { return }
        try execute(
            sql: """
                INSERT INTO further_destination (assignment, destination, first_sample, state,
                    added_wall_us)
                VALUES (?, ?, ?, 'active', ?)
                ON CONFLICT DO UPDATE SET first_sample = excluded.first_sample, state = 'active',
                    added_wall_us = excluded.added_wall_us
                """,
            arguments: [
                assignment, destination, beginning == .now ? present.nextSample : 0, present.wall,
            ])
        guard beginning == .kept else {
            try beginLedger(of: assignment, destination: destination, today: present.today)
            return
        }
        try execute(
            sql: "DELETE FROM ledger_delivery WHERE assignment = ? AND destination = ?",
            arguments: [assignment, destination])
        // Rows that pruning has passed are dead letters of other destinations: theirs alone.
        try execute(
            sql: """
                INSERT INTO further_delivery (segment, destination, settled_through, delivered,
                    dead, dropped, before)
                SELECT s.id, ?2, s.pruned_through, 0, 0, 0, s.pruned + (
                    SELECT count(*) FROM (
                        SELECT sample FROM dead_letter
                        WHERE segment = s.id AND sample <= s.pruned_through
                        UNION SELECT sample FROM further_dead_letter
                        WHERE segment = s.id AND sample <= s.pruned_through))
                FROM segment s WHERE s.assignment = ?1 AND s.pruned_through < s.last_sample
                ON CONFLICT DO NOTHING
                """, arguments: [assignment, destination])
    }

    /// Has the samples of every open assignment go to a destination that takes every strap, from now on.
    /// Where it was removed from an assignment it stays removed.
    func addToOpenAssignments(_ destination: Int64, _ present: Present) throws {
        let assignments = try Int64.fetchAll(
            self,
            sql: """
                SELECT id FROM assignment WHERE ended_boot IS NULL AND enrollment IS NOT ?1
                    AND id NOT IN (SELECT assignment FROM further_destination WHERE destination = ?1)
                """, arguments: [destination])
        for assignment in assignments {
            try add(destination, to: assignment, from: .now, present)
        }
    }

    /// Has the samples of an assignment that begins go to every destination that takes every strap.
    func addDestinations(ofEveryStrapTo assignment: Int64) throws {
        try execute(
            sql: """
                INSERT INTO further_destination (assignment, destination, first_sample, state)
                SELECT a.id, e.id, 0, 'active' FROM assignment a JOIN enrollment e
                WHERE a.id = ? AND e.takes_every_strap AND a.enrollment IS NOT e.id
                """, arguments: [assignment])
    }

    /// Gives an assignment that lasts no time, once a person has bound it, the further destinations of this patient's
    /// assignment before or after it. Until then it has none: a destination would keep its samples without a patient, or
    /// get them with another one.
    func addDestinations(ofUnsure assignment: Int64, _ present: Present) throws {
        let destinations = try Int64.fetchAll(
            self,
            sql: """
                SELECT f.destination FROM assignment a
                JOIN assignment n ON n.sensor = a.sensor AND n.id <> a.id
                    AND n.enrollment IS a.enrollment AND n.patient IS a.patient
                    AND ((n.began_boot, n.began_uptime_us) IS (a.began_boot, a.began_uptime_us)
                        OR (n.ended_boot, n.ended_uptime_us) IS (a.began_boot, a.began_uptime_us))
                JOIN further_destination f ON f.assignment = n.id AND f.state = 'active'
                WHERE a.id = ?1
                    AND (a.began_boot, a.began_uptime_us) IS (a.ended_boot, a.ended_uptime_us)
                EXCEPT SELECT destination FROM further_destination WHERE assignment = ?1
                """, arguments: [assignment])
        for destination in destinations {
            try add(destination, to: assignment, from: .kept, present)
        }
    }

    /// Makes a further destination of an assignment without an enrollment its own one: of samples that went there
    /// its books say what became of them, and the others, which were held, wait for it.
    ///
    /// Throws `invalid-argument` while dead letters of an enrollment that a salvage has lost are in the way.
    func makeOwn(_ destination: Int64, of assignment: Int64) throws {
        let segments = try Row.fetchAll(
            self,
            sql: """
                SELECT s.id, f.settled_through, f.before, f.delivered, f.dead, f.dropped
                FROM further_delivery f JOIN segment s ON s.id = f.segment
                WHERE s.assignment = ?1 AND f.destination = ?2
                """, arguments: [assignment, destination])
        for row in segments { try makeOwn(destination, ofSegment: row) }
        for table in ["further_destination", "ledger_delivery"] {
            try execute(
                sql: "DELETE FROM \(table) WHERE assignment = ? AND destination = ?",
                arguments: [assignment, destination])
        }
    }

    /// The row has a segment, and the books that the destination has of it.
    private func makeOwn(_ destination: Int64, ofSegment row: Row) throws {
        let segment: Int64 = row[0] ?? 0
        let before: Int = row[2] ?? 0
        let died = try Int64.fetchOne(
            self, sql: "SELECT 1 FROM dead_letter WHERE segment = ?", arguments: [segment])
        guard died == nil else {
            throw QueueError(
                .invalidArgument, "assign sensor",
                "samples went there as to a further destination, and have dead letters")
        }
        // Samples that were gone before it came were dropped; for most samples there is one reason at most.
        let reason = try String.fetchOne(
            self,
            sql: """
                SELECT reason FROM loss WHERE segment = ? AND destination = 0 AND kind = 'dropped'
                ORDER BY count DESC LIMIT 1
                """, arguments: [segment])
        try execute(
            sql: "DELETE FROM loss WHERE segment = ? AND destination = 0 AND kind = 'dropped'",
            arguments: [segment])
        try execute(
            sql: "DELETE FROM dropped_range WHERE segment = ? AND destination = 0",
            arguments: [segment])
        for table in ["loss", "dropped_range"] {
            try execute(
                sql: "UPDATE \(table) SET destination = 0 WHERE segment = ? AND destination = ?",
                arguments: [segment, destination])
        }
        try execute(
            sql: """
                INSERT INTO dead_letter (sample, segment, reason, diagnostics, died_wall_us,
                    is_requeued, sent_as)
                SELECT sample, segment, reason, diagnostics, died_wall_us, is_requeued, sent_as
                FROM further_dead_letter WHERE segment = ? AND destination = ?
                """, arguments: [segment, destination])
        for table in ["further_dead_letter", "further_delivery"] {
            try execute(
                sql: "DELETE FROM \(table) WHERE segment = ? AND destination = ?",
                arguments: [segment, destination])
        }
        try execute(
            sql: """
                UPDATE segment SET settled_through = ?, delivered = ?, dead = ?, dropped = ?
                WHERE id = ?
                """,
            arguments: [
                row[1] as Int64?, row[3] as Int?, row[4] as Int?, before + (row[5] ?? 0), segment,
            ])
        if let reason { try DeliveryBooks(segment: segment).note(self, dropped: before, reason) }
    }

    /// The assignments whose samples go to a further destination, or went there.
    func assignments(further destination: Int64) throws -> Set<Int64> {
        try Int64.fetchSet(
            self, sql: "SELECT assignment FROM further_destination WHERE destination = ?",
            arguments: [destination])
    }
}
