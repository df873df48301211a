import Basics
import GRDB

// Erasing keeps the books at every step, so that one that is interrupted is taken up by the next call:
// first everything is given up and its rows are pruned, then its counters and the rows behind them go.

extension SampleQueue {
    /// The reason under which samples are counted while their patient is being erased.
    public static let erased = "erased"

    /// Takes a patient out of the store: samples, undecodable frames, dead letters, gaps, assignments and
    /// counters; with ``Erasure/patient`` nil the enrollment and its requests too. Of a sensor that is
    /// forgotten and was worn by no other patient, its name and what the sensor says of itself go, and its address
    /// stays. What waits is given up: ``balance(of:)`` says beforehand how much that is.
    ///
    /// Deletes at most ``pruneRowsMax`` samples a call. Returns whether all is gone; call again until it
    /// is. The delivery must not run meanwhile. SQLite overwrites what is deleted; pages that an earlier
    /// pruning freed hold heart rates without a name until they are used again.
    ///
    /// Throws `unknown-reference` if there is no such enrollment or nothing of that patient, `strap-records`
    /// while a sensor still records for it, and what the erasure itself rules out: `own-destination`, `samples-wait`,
    /// `samples-may-come`.
    /// It is looked at in the transaction that erases, so that nothing can come in between; then nothing has changed.
    public func erase(_ erasure: Erasure) throws(QueueError) -> Bool {
        try flush()
        let (condition, arguments) = Self.assignments(of: erasure.scope)
        let (assignments, isEmpty, dropped) = try write(erasure.operation) { [run] db in
            let assignments = try erasure.assignments(db, boot: run.boot)
            let (isEmpty, dropped) = try Self.overwritingFreedPages(db) {
                try Self.empty(db, condition, arguments)
            }
            return (assignments, isEmpty, dropped)
        }
        deliveries.lent.drop(dropped)
        guard isEmpty else { return false }
        if erasure.patient == nil { try removeEverywhere(destination: erasure.enrollment) }
        keepSidecar(try eraseRegistry(erasure, condition, arguments), copies: 2)
        FaultPoint.erased.reach()
        for id in assignments.map(\.id) {
            segments.close(id)
        }
        deliveries.release(erasure.patient, of: erasure.enrollment)
        return true
    }

    /// Throws what ``erase(_:)`` would throw now.
    public func check(_ erasure: Erasure) throws(QueueError) {
        try flush()
        _ = try read(erasure.operation) { [run] db in try erasure.assignments(db, boot: run.boot) }
    }

    /// Empties the write-ahead log, in which older states of changed pages stand. Throws `in-use` while
    /// another program reads the store; then the log empties itself later.
    public func emptyLog() throws(QueueError) {
        try mustBeSound("empty the log")
        try store.writeOutside("empty the log") { database in
            try database.writeWithoutTransaction { db in _ = try db.checkpoint(.truncate) }
        }
    }

    /// Gives everything up that the assignments have and deletes its rows, dead letters first; at most
    /// ``pruneRowsMax``. Returns whether there was nothing left to delete.
    private static func empty(
        _ db: Database, _ condition: String, _ arguments: StatementArguments
    ) throws -> (isEmpty: Bool, dropped: [DroppedRange]) {
        let letters = try db.giveUpLetters(
            where: condition, arguments, limit: pruneRowsMax, reason: erased)
        guard letters.count == 0 else { return (false, letters.dropped) }
        let dropped = try db.dropWaiting(where: condition, arguments, reason: erased)
        let settled = try Row.fetchAll(
            db,
            sql: """
                SELECT s.id, s.pruned_through, \(Pruning.floorSQL) AS floor, s.wall_offset_us
                \(BooksView.own.sql) WHERE s.pruned_through < floor AND \(condition)
                """, arguments: arguments)
        var pruned = 0
        for segment in settled where pruned < pruneRowsMax {
            pruned += try Pruning.prune(
                db, segment, before: nil, limit: pruneRowsMax - pruned
            ).passed
        }
        return (pruned == 0, dropped)
    }

    /// Deletes the samples' counters and the rows behind them, in one transaction.
    ///
    /// Without SQLite's own look at references: for each segment it would walk over every sample there is,
    /// in search of one that names it. ``audit()`` looks at all of them at once. Returns what the registry is now.
    private func eraseRegistry(
        _ erasure: Erasure, _ condition: String, _ arguments: StatementArguments
    ) throws(QueueError) -> Sidecar? {
        try mustBeSound("erase patient")
        let wall = clock.read().wall
        do throws(QueueError) {
            return try store.writeOutside("erase patient") { database in
                try database.writeWithoutTransaction { db in
                    var changed: Sidecar?
                    try db.execute(sql: "PRAGMA foreign_keys = OFF")
                    defer { try? db.execute(sql: "PRAGMA foreign_keys = ON") }
                    try db.inTransaction {
                        try Self.overwritingFreedPages(db) {
                            try Self.deleteRegistry(db, erasure, condition, arguments)
                            FaultPoint.eraseRegistry.reach()
                        }
                        changed = try Sidecar.sealing(db, after: nil, at: wall)
                        return .commit
                    }
                    return changed
                }
            }
        } catch {
            note(error)
            throw error
        }
    }

    private static func deleteRegistry(
        _ db: Database, _ erasure: Erasure, _ condition: String, _ arguments: StatementArguments
    ) throws {
        let assignments = "(SELECT a.id FROM assignment a WHERE \(condition))"
        let segments = "(SELECT id FROM segment WHERE assignment IN \(assignments))"
        // An import must not bring them back.
        try db.execute(
            sql: """
                INSERT OR IGNORE INTO erased_range
                SELECT s.run, a.sensor, s.first_sample, s.last_sample
                FROM segment s JOIN assignment a ON a.id = s.assignment
                WHERE s.assignment IN \(assignments) AND s.identity_shift = 0
                    AND s.first_sample <= s.last_sample
                    AND s.run IN (SELECT id FROM run WHERE is_imported = 0)
                """, arguments: arguments)
        for (kind, highest) in [
            ("sample", try RunStart.lastSample(db)),
            ("segment", try db.nextNumber(of: "segment") - 1),
        ] {
            try db.execute(
                sql: "INSERT OR REPLACE INTO erased_until VALUES (?, ?)",
                arguments: [kind, highest])
        }
        for statement in [
            "DELETE FROM undecodable WHERE segment IN \(segments)",
            "DELETE FROM further_delivery WHERE segment IN \(segments)",
            "DELETE FROM further_destination WHERE assignment IN \(assignments)",
            "DELETE FROM ledger_delivery WHERE assignment IN \(assignments)",
            "DELETE FROM loss WHERE segment IN \(segments)",
            "DELETE FROM dropped_range WHERE segment IN \(segments)",
            "DELETE FROM segment WHERE assignment IN \(assignments)",
            "DELETE FROM gap WHERE assignment IN \(assignments)",
        ] {
            try db.execute(sql: statement, arguments: arguments)
        }
        let sensors = try Int64.fetchAll(
            db, sql: "SELECT DISTINCT a.sensor FROM assignment a WHERE \(condition)",
            arguments: arguments)
        try db.execute(
            sql: """
                INSERT OR IGNORE INTO erased_number
                SELECT 'assignment', a.id FROM assignment a WHERE \(condition)
                """, arguments: arguments)
        try withoutTrigger(db, "assignment_is_never_deleted") {
            try db.execute(
                sql: "DELETE FROM assignment WHERE id IN \(assignments)", arguments: arguments)
        }
        for sensor in sensors {
            try db.execute(
                sql: """
                    UPDATE sensor SET name = NULL, body_location = NULL, serial = NULL
                    WHERE id = ?1 AND is_forgotten = 1
                        AND NOT EXISTS (SELECT 1 FROM assignment WHERE sensor = ?1)
                    """, arguments: [sensor])
        }
        if let patient = erasure.patient {
            try db.execute(
                sql: """
                    UPDATE enrollment
                    SET patient_fingerprints = json_remove(patient_fingerprints, '$."' || ? || '"')
                    WHERE id = ?
                    """, arguments: [patient, erasure.enrollment])
            return
        }
        for table in [
            "further_destination", "further_delivery", "ledger_delivery", "loss", "dropped_range",
        ] {
            try db.execute(
                sql: "DELETE FROM \(table) WHERE destination = ?", arguments: [erasure.enrollment])
        }
        for table in ["upload", "request"] {
            try db.execute(
                sql: "DELETE FROM \(table) WHERE enrollment = ?", arguments: [erasure.enrollment])
        }
        try db.execute(
            sql: "INSERT OR IGNORE INTO erased_number VALUES ('enrollment', ?)",
            arguments: [erasure.enrollment])
        try db.execute(
            sql: "DELETE FROM enrollment WHERE id = ?", arguments: [erasure.enrollment])
    }

    /// Lifts a trigger for one deletion: the trigger guards against mistakes, and this deletion is intended. A
    /// rollback restores it.
    private static func withoutTrigger(
        _ db: Database, _ name: String, _ body: () throws -> Void
    ) throws {
        let sql = try String.fetchOne(
            db, sql: "SELECT sql FROM sqlite_master WHERE type = 'trigger' AND name = ?",
            arguments: [name])
        try db.execute(sql: "DROP TRIGGER IF EXISTS \(name)")
        try body()
        if let sql { try db.execute(sql: sql) }
    }

    /// Has SQLite overwrite whole pages that are freed, which otherwise costs more writing than it is worth.
    private static func overwritingFreedPages<Value>(
        _ db: Database, _ body: () throws -> Value
    ) throws -> Value {
        try db.execute(sql: "PRAGMA secure_delete = ON")
        defer { try? db.execute(sql: "PRAGMA secure_delete = FAST") }
        return try body()
    }
}

/// Whose data ``SampleQueue/erase(_:)`` takes out of the store.
public struct Erasure: Sendable, Hashable {
    /// The enrollment through which it was recorded.
    public let enrollment: Int64
    /// Only what was recorded for this patient of an enrollment for many; the enrollment stays. Nil:
    /// everything that went through the enrollment, and the enrollment.
    public let patient: String?

    /// Samples that are not delivered.
    public enum Undelivered: Sendable, Hashable {
        /// They are given up, and so are those that a sensor has sent and that are still under way.
        case givenUp
        /// There must be none, and none may come: all that the sensors sent until `taken`, an uptime of this boot, is in
        /// the queue.
        case none(taken: Uptime)
    }

    /// What becomes of samples that are not delivered.
    public let undelivered: Undelivered
    /// Whether it is a destination beside others, which no sensor's samples are owned by.
    public let isFurther: Bool

    /// Names whose data it is.
    public init(
        enrollment: Int64, patient: String? = nil, undelivered: Undelivered = .givenUp
    ) {
        self.enrollment = enrollment
        self.patient = patient
        self.undelivered = undelivered
        isFurther = false
    }

    /// Names a destination that takes samples beside their own one. Samples that come later go to their own.
    public init(further destination: Int64, givesUp: Bool) {
        enrollment = destination
        patient = nil
        undelivered = givesUp ? .givenUp : .none(taken: .zero)
        isFurther = true
    }

    /// The same for ``SampleQueue/balance(of:)``.
    public var scope: BalanceScope {
        patient.map { .patient($0, enrollment: enrollment) } ?? .enrollment(enrollment)
    }

    fileprivate var operation: String { isFurther ? "remove destination" : "erase patient" }

    /// The assignments whose data goes; throws if it may not.
    fileprivate func assignments(_ db: Database, boot: Int64) throws -> [Assignment] {
        _ = try db.enrollment(enrollment)
        let (condition, arguments) = SampleQueue.assignments(of: scope)
        let assignments = try db.assignments(where: condition, arguments)
        guard assignments.isEmpty || !isFurther else {
            throw QueueError(
                .ownDestination, operation, "it is the own destination of a strap, now or earlier")
        }
        guard !assignments.contains(where: \.isOpen) else {
            throw QueueError(.strapRecords, operation, "a sensor still records for it")
        }
        guard !assignments.isEmpty || patient == nil else {
            throw QueueError(.unknownReference, operation, "nothing was recorded for it")
        }
        guard case .none(let taken) = undelivered else { return assignments }
        let last = try Uptime.fetchOne(
            db,
            sql: """
                SELECT max(a.ended_uptime_us) FROM assignment a
                JOIN sensor n ON n.id = a.sensor AND NOT n.is_forgotten
                WHERE a.ended_boot = ? AND \(condition)
                """, arguments: [boot] + arguments)
        // A frame that came after its assignment was erased would be nobody's, and lost. None comes from a strap that is
        // forgotten.
        guard last.map({ $0 <= taken }) ?? true else {
            throw QueueError(
                .samplesMayCome, operation,
                "samples that a strap sent for it may still come")
        }
        let own = try waiting(db, .own, condition, arguments)
        let further = try waiting(db, .further, condition, arguments)
        let here =
            patient == nil ? try waiting(db, .further, "f.destination = ?", [enrollment]) : 0
        let counts = [(own + here, ""), (further, " to further destinations")]
            .filter { $0.0 > 0 }.map { "\($0.0) not delivered\($0.1) yet" }
        guard counts.isEmpty else {
            throw QueueError(
                .samplesWait, operation, "samples wait: \(counts.joined(separator: ", "))")
        }
        return assignments
    }

    /// Samples that are not done with; where a destination alone goes also its dead letters, which a person may put
    /// back.
    private func waiting(
        _ db: Database, _ view: SampleQueue.BooksView, _ condition: String,
        _ arguments: StatementArguments
    ) throws -> Int {
        let dead = isFurther ? "\(view.books).dead" : "0"
        return try Int.fetchOne(
            db, sql: "SELECT sum(\(view.unsent) + \(dead)) \(view.sql) WHERE \(condition)",
            arguments: arguments) ?? 0
    }
}
