import Basics
import GRDB

/// Sensors, enrollments, assignments.
extension SampleQueue {
    /// Makes a sensor known, or a forgotten one known again; its details are replaced either way.
    ///
    /// `address` is a Bluetooth address in any case; it is the sensor's identity here.
    @discardableResult
    public func addSensor(
        address: String, details: SensorDetails = SensorDetails()
    ) throws(QueueError) -> Sensor {
        try write("add sensor") { db in try db.addSensor(address, details) }
    }

    /// Notes that a sensor is known by another address from now on: bluetoothd uses the identity address
    /// of one whose address changed before it was bonded. Throws if the store has another sensor of that
    /// address.
    public func readdress(sensor id: Int64, to address: String) throws(QueueError) {
        let address = address.uppercased()
        guard (1...Self.textCharactersMax).contains(address.count) else {
            throw QueueError(
                .invalidArgument, "readdress sensor", "the address is empty or too long")
        }
        try write("readdress sensor") { db in
            try db.execute(
                sql: "UPDATE sensor SET address = ? WHERE id = ?", arguments: [address, id])
        }
    }

    /// All sensors, in the order in which they were added; the forgotten only if asked for.
    public func sensors(includingForgotten: Bool = false) throws(QueueError) -> [Sensor] {
        try read("list sensors") { db in
            try Row.fetchAll(
                db.cachedStatement(
                    sql: "SELECT * FROM sensor WHERE is_forgotten <= ? ORDER BY id"),
                arguments: [includingForgotten]
            ).map(Sensor.init(row:))
        }
    }

    /// Ends the sensor's assignment and takes it off the list; its samples are delivered as before. Frames that it has
    /// sent by now are the assignment's, whenever they come.
    public func forgetSensor(_ id: Int64) throws(QueueError) {
        let now = clock.read()
        try changeAssignment("forget sensor") { [run] db, ledgers in
            _ = try db.sensor(id)
            try Self.endAssignment(db, of: id, now, run, &ledgers)
            try db.execute(
                sql: "UPDATE sensor SET is_forgotten = 1 WHERE id = ?", arguments: [id])
        }
    }

    /// Ends a sensor's open assignment with its ledger. Returns its number, and the end.
    @discardableResult
    static func endAssignment(
        _ db: Database, of sensor: Int64, _ now: ClockReading, _ run: CurrentRun,
        _ ledgers: inout GapLedgers
    ) throws -> (id: Int64, end: ClockReading)? {
        guard let ended = try db.endAssignment(of: sensor, boot: run.boot, now: now) else {
            return nil
        }
        ledgers.end(ended.id, at: ended.end.uptime)
        // The run lived as long as the assignment: the next start must not think that it ended before.
        try db.setAlive(run: run.id, uptime: ended.end.uptime)
        return ended
    }

    /// The number that the next enrollment may have: its tokens are stored under it before the enrollment
    /// is.
    public func nextEnrollmentID() throws(QueueError) -> Int64 {
        try read("number enrollment") { db in try db.nextNumber(of: "enrollment") }
    }

    /// Records an authorization, under the number `id` if one is given, held for `hold` if a reason is.
    /// Throws `already-set` if the name is taken.
    @discardableResult
    public func enroll(
        _ terms: EnrollmentTerms, as id: Int64? = nil, hold: String? = nil
    ) throws(QueueError) -> Enrollment {
        try flush(toBegin: terms)
        return try write("enroll") { [present] db in
            let taken = try Int64.fetchOne(
                db, sql: "SELECT id FROM enrollment WHERE name = ?",
                arguments: [terms.name.bounded])
            guard taken == nil else {
                throw QueueError(.alreadySet, "enroll", "the name is taken")
            }
            let id = try id ?? db.nextNumber(of: "enrollment")
            let columns = terms.columns.map(\.key).joined(separator: ", ")
            let marks = terms.columns.map { _ in "?" }.joined(separator: ", ")
            try db.execute(
                sql: """
                    INSERT INTO enrollment (\(columns), state, id, hold_reason)
                    VALUES (\(marks), 'active', ?, ?)
                    """,
                arguments: StatementArguments(terms.columns.map(\.value)) + [id, hold?.bounded])
            let added = db.lastInsertedRowID
            if terms.takesEveryStrap {
                try db.addToOpenAssignments(added, present)
            }
            return try db.enrollment(added)
        }
    }

    /// Fills in or corrects the terms. Throws `already-set` if it would change a known patient: that
    /// would attribute stored samples anew.
    public func updateEnrollment(_ id: Int64, terms: EnrollmentTerms) throws(QueueError) {
        try flush(toBegin: terms)
        try write("update enrollment") { [present] db in
            try Self.update(db, id, terms, present)
        }
    }

    /// Puts a new authorization in the place of an earlier one, whole or not at all: its terms, and that it
    /// is in force, held for `hold` if a reason is given. Throws as ``updateEnrollment(_:terms:)`` does.
    public func renewEnrollment(
        _ id: Int64, terms: EnrollmentTerms, hold: String?
    ) throws(QueueError) {
        try flush(toBegin: terms)
        try write("renew enrollment") { [present] db in
            try Self.update(db, id, terms, present)
            try db.execute(
                sql: "UPDATE enrollment SET state = 'active', hold_reason = ? WHERE id = ?",
                arguments: [hold?.bounded, id])
        }
    }

    /// Before a destination begins to take every strap: what has arrived goes where it went until now, and
    /// what comes begins segments of its own.
    private func flush(toBegin terms: EnrollmentTerms) throws(QueueError) {
        guard terms.takesEveryStrap else { return }
        try flush()
        segments.closeAll()
    }

    private static func update(
        _ db: Database, _ id: Int64, _ terms: EnrollmentTerms, _ present: Present
    ) throws {
        let known = try db.enrollment(id).terms
        guard known.patient == nil || known.patient == terms.patient, known.kind == terms.kind,
            known.system == terms.system
        else {
            throw QueueError(.alreadySet, "update enrollment", "its patient and its kind are fixed")
        }
        let columns = terms.columns.map { "\($0.key) = ?" }.joined(separator: ", ")
        try db.execute(
            sql: "UPDATE enrollment SET \(columns) WHERE id = ?",
            arguments: StatementArguments(terms.columns.map(\.value)) + [id])
        if terms.takesEveryStrap { try db.addToOpenAssignments(id, present) }
    }

    /// Says whether the authorization is in force.
    public func setState(
        enrollment id: Int64, _ state: Enrollment.State
    ) throws(QueueError) {
        try write("set enrollment state") { db in
            _ = try db.enrollment(id)
            try db.execute(
                sql: "UPDATE enrollment SET state = ? WHERE id = ?",
                arguments: [state.rawValue, id])
        }
    }

    /// Holds a whole delivery for a reason a person can mend, or with nil releases it.
    ///
    /// A hold is the books' word for the delivery's backlog. ``nextPending(enrollment:limit:of:)`` still
    /// answers, so that the delivery can probe whether the reason is gone.
    ///
    /// - Parameter state: what the hold or its end says of the authorization; nil: nothing.
    public func setHold(
        enrollment id: Int64, reason: String?, state: Enrollment.State? = nil
    ) throws(QueueError) {
        try write("set hold") { db in
            _ = try db.enrollment(id)
            try db.execute(
                sql: """
                    UPDATE enrollment SET hold_reason = ?, state = coalesce(?, state) WHERE id = ?
                    """,
                arguments: [reason?.bounded, state?.rawValue, id])
        }
    }

    /// All enrollments, in the order in which they were made.
    public func enrollments() throws(QueueError) -> [Enrollment] {
        try read("list enrollments") { db in
            try Row.fetchAll(db.cachedStatement(sql: "SELECT * FROM enrollment ORDER BY id"))
                .map(Enrollment.init(row:))
        }
    }

    /// Makes a sensor known as ``addSensor(address:details:)`` does, and assigns it as
    /// ``assign(sensor:enrollment:patient:also:since:)`` does: both, or neither.
    ///
    /// `known`: the sensor's open assignment as the caller knows it, nil if it has none. Throws `strap-changed` if it has
    /// another one; then nothing has changed.
    public func pair(
        address: String, details: SensorDetails, enrollment: Int64?, patient: String? = nil,
        also further: [Int64] = [], since: Uptime? = nil, insteadOf known: Int64? = nil
    ) throws(QueueError) -> (Sensor, Assignment) {
        try assign("pair sensor", enrollment, patient, also: further, since: since) { db in
            let open = try Int64.fetchOne(
                db,
                sql: """
                    SELECT a.id FROM assignment a JOIN sensor n ON n.id = a.sensor
                    WHERE n.address = ? AND a.ended_boot IS NULL
                    """, arguments: [address.uppercased()])
            guard open == known else {
                throw QueueError(
                    .strapChanged, "pair sensor", "the strap was paired or forgotten meanwhile")
            }
            return try db.addSensor(address, details)
        }
    }

    /// From now on the sensor is worn by this patient and goes through this enrollment.
    ///
    /// An open assignment without an enrollment is bound to this one, with the samples it already
    /// has, as ``bind(assignment:enrollment:patient:)`` does; an equal one is returned as it is; any other
    /// is ended and a new one begins.
    ///
    /// - Parameters:
    ///   - sensor: the store's number of the sensor.
    ///   - enrollment: the delivery its samples take; nil: they are held as `not-enrolled`.
    ///   - patient: needed with a practitioner's enrollment, and only then.
    ///   - further: destinations that the samples go to as well, from now on
    ///     (``add(destination:to:from:)``).
    ///   - since: uptime of this boot at which the assignment begins of a sensor that nobody wears, not later than now:
    ///     the link by which it was first heard while it was being paired. Nil for now. One that is worn changes hands now.
    @discardableResult
    public func assign(
        sensor: Int64, enrollment: Int64?, patient: String? = nil, also further: [Int64] = [],
        since: Uptime? = nil
    ) throws(QueueError) -> Assignment {
        try assign("assign sensor", enrollment, patient, also: further, since: since) { db in
            let known = try db.sensor(sensor)
            guard !known.isForgotten else {
                throw QueueError(.unknownReference, "assign sensor", "the sensor is forgotten")
            }
            return known
        }.1
    }

    private func assign(
        _ operation: String, _ enrollment: Int64?, _ patient: String?, also further: [Int64],
        since: Uptime?, _ sensor: (Database) throws -> Sensor
    ) throws(QueueError) -> (Sensor, Assignment) {
        // Frames that have arrived go where they went until now.
        if !further.isEmpty { try flush() }
        let now = clock.read()
        let (sensor, assignment) = try changeAssignment(operation) {
            [run, present] db, ledgers -> (Sensor, Assignment) in
            let sensor = try sensor(db)
            if let enrollment { try db.check(patient: patient, for: enrollment) }
            func also(_ assignment: Assignment) throws -> (Sensor, Assignment) {
                for destination in further {
                    try db.add(destination, to: assignment.id, from: .now, present)
                }
                return (sensor, assignment)
            }
            let open = try db.assignments(
                where: "a.sensor = ? AND a.ended_boot IS NULL", [sensor.id])
            if let open = open.first {
                if open.enrollmentID == enrollment, open.patient == patient {
                    return try also(open)
                }
                if open.enrollmentID == nil, let enrollment,
                    open.patient == nil || open.patient == patient
                {
                    return try also(db.bind(open.id, to: enrollment, patient, present))
                }
            }
            let ended = try Self.endAssignment(db, of: sensor.id, now, run, &ledgers)
            let begin =
                try ended?.end
                ?? now.at(
                    max(
                        min(since ?? now.uptime, now.uptime),
                        db.lastEnd(of: sensor.id, boot: run.boot) ?? .zero))
            let id = try Self.beginAssignment(
                db, of: sensor.id, enrollment, patient, at: begin, run, &ledgers,
                after: ended?.id)
            return try also(db.assignment(id))
        }
        if let enrollment { deliveries.lent.makeOwn(enrollment, of: assignment.id) }
        if !further.isEmpty { segments.close(assignment.id) }
        return (sensor, assignment)
    }

    private static func beginAssignment(
        _ db: Database, of sensor: Int64, _ enrollment: Int64?, _ patient: String?,
        at begin: ClockReading, _ run: CurrentRun, _ ledgers: inout GapLedgers,
        after ended: Int64? = nil
    ) throws -> Int64 {
        let id = try db.nextNumber(of: "assignment")
        try db.execute(
            sql: """
                INSERT INTO assignment (id, sensor, enrollment, patient, began_boot,
                    began_uptime_us, began_wall_us)
                VALUES (?, ?, ?, ?, ?, ?, ?)
                """,
            arguments: [
                id, sensor, enrollment, patient, run.boot, begin.uptime, begin.trustedWall,
            ])
        try db.addDestinations(ofEveryStrapTo: id)
        ledgers.begin(id, at: begin.uptime, after: ended)
        return id
    }

    /// Begins an assignment without an enrollment for each paired sensor that has none. Returns these sensors.
    public func assignUnworn() throws(QueueError) -> [Sensor] {
        let now = clock.read()
        return try changeAssignment("assign sensors") { [run] db, ledgers in
            let sensors = try Row.fetchAll(
                db,
                sql: """
                    SELECT * FROM sensor n WHERE NOT is_forgotten AND NOT EXISTS
                        (SELECT 1 FROM assignment WHERE sensor = n.id AND ended_boot IS NULL)
                    ORDER BY id
                    """
            ).map(Sensor.init(row:))
            for sensor in sensors {
                _ = try Self.beginAssignment(db, of: sensor.id, nil, nil, at: now, run, &ledgers)
            }
            return sensors
        }
    }

    /// Whether somebody wears a sensor now.
    public func isWorn(_ sensor: Int64) throws(QueueError) -> Bool {
        try read("find assignment") { db in
            try Bool.fetchOne(
                db.cachedStatement(
                    sql: """
                        SELECT EXISTS
                            (SELECT 1 FROM assignment WHERE sensor = ? AND ended_boot IS NULL)
                        """), arguments: [sensor]) ?? false
        }
    }

    /// Binds an assignment, open or ended, that began without an enrollment. If nobody knew whose its samples are, they now
    /// go to the destinations that take every strap as well. Samples that went there before, as to a
    /// further destination, do not go there again. Returns how many samples now wait for their delivery. Throws
    /// `already-set` if it has another one.
    @discardableResult
    public func bind(
        assignment id: Int64, enrollment: Int64, patient: String? = nil
    ) throws(QueueError) -> Int {
        let samples = try write("bind assignment") { [present] db in
            let known = try db.assignment(id)
            if known.enrollmentID == enrollment, known.patient == patient {
                return try Self.unsent(db, of: id)
            }
            guard known.enrollmentID == nil, known.patient == nil || known.patient == patient else {
                throw QueueError(.alreadySet, "bind assignment", "it is bound to another")
            }
            try db.check(patient: patient, for: enrollment)
            _ = try db.bind(id, to: enrollment, patient, present)
            return try Self.unsent(db, of: id)
        }
        deliveries.lent.makeOwn(enrollment, of: id)
        // Where it goes may have changed, and a segment goes to the same ones for ever.
        segments.close(id)
        return samples
    }

    /// The assignments in force, one a sensor at most.
    public func openAssignments() throws(QueueError) -> [Assignment] {
        try read("list assignments") { db in try db.assignments(where: "a.ended_boot IS NULL") }
    }

    /// Every assignment there ever was, oldest first.
    public func assignments() throws(QueueError) -> [Assignment] {
        try read("list assignments") { db in try db.assignments(where: "TRUE") }
    }
}
