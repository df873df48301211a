import Basics
import Foundation
import GRDB

extension SampleQueue {
    /// The oldest committed samples of a delivery that are to be sent, `limit` (1…1,000) at most, of
    /// these `patients`, in order of arrival; those put back from the dead letters come first.
    ///
    /// Only samples whose time is trusted. Asking again gives the same samples until they
    /// are settled. A row that fails its checksum is settled here, as a dead letter "damaged".
    /// Says as well whether more may wait behind them: `limit` was reached, or a damaged row comes next.
    public func nextPending(
        enrollment: Int64, limit: Int, of patients: PatientFilter = .all
    ) throws(QueueError) -> (samples: [PendingSample], hasMore: Bool) {
        try settleUnwritten(enrollment)
        let limit = min(max(limit, 1), Self.batchSamplesMax)
        // Each turn settles one damaged row, so the turns are bounded by the rows there are; the
        // bound here only keeps one call short on a store that is damaged all over.
        for _ in 0..<Self.batchSamplesMax {
            let walk = try read("read batch") { db in
                try Self.walk(db, enrollment: enrollment, limit: limit, patients)
            }
            guard walk.samples.isEmpty, let damaged = walk.damaged else {
                deliveries.lent.lend(walk.samples, to: enrollment)
                return (walk.samples, walk.samples.count >= limit || walk.damaged != nil)
            }
            try settle(enrollment: enrollment, [damaged], upload: nil)
        }
        return ([], true)
    }

    /// Records what became of samples of one delivery, and the request that brought it about, in one
    /// transaction: all of it or nothing.
    ///
    /// In each segment the outcomes must be for its oldest pending samples, without a hole, else
    /// `not-contiguous`. Requeued dead letters are outside that order.
    public func settle(
        enrollment: Int64, _ outcomes: [SettledSample], upload: UploadRecord? = nil
    ) throws(QueueError) {
        try settleUnwritten(enrollment)
        try write(
            UnwrittenOutcomes(samples: outcomes, uploads: upload.map { [$0] } ?? []), of: enrollment
        )
    }

    private func write(
        _ outcomes: UnwrittenOutcomes, of enrollment: Int64
    ) throws(QueueError) {
        let wall = clock.read().trustedWall
        try write("settle samples") { [deliveries] db in
            try outcomes.settle(db, enrollment, deliveries.lent, wall: wall)
        }
        deliveries.written(outcomes, of: enrollment)
    }

    /// The same with the next transaction, before the delivery is given other samples, or when a group
    /// commit would be due. Until then the samples count as pending, and after a crash they are delivered
    /// again: the destination must know a repetition, at once or after the rest that ``beginRequest(enrollment:)``
    /// provides for. `isAnswered` says that the request begun last was answered for certain.
    public func settleSoon(
        enrollment: Int64, _ outcomes: [SettledSample], upload: UploadRecord? = nil,
        isAnswered: Bool = false
    ) throws(QueueError) {
        try store.mustBeWritable("settle samples")
        deliveries.add(outcomes, upload, of: enrollment, at: clock.read().uptime)
        if isAnswered { deliveries.noteRequest(.answered, of: enrollment) }
    }

    /// Writes what waits to be written of a delivery. What does not fit its books is given up, and its
    /// samples are delivered again.
    func settleUnwritten(_ enrollment: Int64) throws(QueueError) {
        guard let outcomes = deliveries.takeUnwritten(of: enrollment) else { return }
        do throws(QueueError) {
            try write(outcomes, of: enrollment)
        } catch {
            if [.diskFull, .inputOutput, .readOnly].contains(error.code) {
                deliveries.putBack(outcomes, of: enrollment)
            }
            throw error
        }
    }

    /// Notes, durably, that this delivery sends requests.
    ///
    /// The note stays until the store is closed after a request that was answered for certain, so that only the
    /// first request costs a commit. After a crash the samples rest once, whether or not a request was under way.
    public func beginRequest(enrollment: Int64) throws(QueueError) {
        let hasNote = try read("read request") { db in try Self.hasNote(db, enrollment) }
        if !hasNote {
            try write("begin request") { db in
                try db.cachedStatement(sql: "INSERT INTO request VALUES (?)")
                    .execute(arguments: [enrollment])
            }
        }
        let before =
            deliveries.lastRequest(of: enrollment) ?? (hasNote ? .unanswered : .answered)
        deliveries.beginRequest(of: enrollment, before: before)
    }

    /// Notes that nothing of the request begun last has been sent: nobody can be working on it. What became of the
    /// one before it is as unknown as it was.
    public func cancelRequest(enrollment: Int64) { deliveries.cancelRequest(of: enrollment) }

    /// The present uptime if the outcome of this delivery's last request is unknown; nil if it is known. The request may
    /// have been sent just now: a renewal of the token can delay it after it was noted, and the note of an earlier run
    /// does not say when.
    public func unansweredRequest(enrollment: Int64) throws(QueueError) -> Uptime? {
        let now = clock.read().uptime
        switch deliveries.lastRequest(of: enrollment) {
        case .answered: return nil
        case .unanswered: return now
        case nil:
            return try read("read request") { db in try Self.hasNote(db, enrollment) } ? now : nil
        }
    }

    private static func hasNote(_ db: Database, _ enrollment: Int64) throws -> Bool {
        try Int64.fetchOne(
            db.cachedStatement(sql: "SELECT 1 FROM request WHERE enrollment = ?"),
            arguments: [enrollment]) != nil
    }

    /// Removes the notes of deliveries whose last request was answered.
    func removeNotes(_ db: Database, of deliveries: OpenDeliveries) throws {
        for enrollment in deliveries.answered {
            try db.execute(sql: "DELETE FROM request WHERE enrollment = ?", arguments: [enrollment])
        }
    }

    /// The findings of a walk over the pending rows of a delivery.
    struct Walk: Sendable {
        let key: StoreKey
        var samples: [PendingSample] = []
        /// The row at which the walk stopped because its checksum does not match.
        var damaged: SettledSample?
    }

    private static func walk(
        _ db: Database, enrollment: Int64, limit: Int, _ patients: PatientFilter
    ) throws -> Walk {
        let segments = try PendingSegment.all(db, enrollment: enrollment, of: patients)
        let byID = Dictionary(segments.map { ($0.id, $0) }, uniquingKeysWith: { first, _ in first })
        var walk = Walk(key: try db.storeKey())
        var clocks = BootClocks(db)
        let putBack = try PendingSegment.putBack(db, enrollment: enrollment, of: patients)
        for isFurther in [false, true] {
            let oldest = try oldestPutBack(
                db, of: putBack.filter { $0.isFurther == isFurther }, enrollment: enrollment,
                limit: limit - walk.samples.count)
            for (row, segment) in oldest {
                walk.add(row, of: segment, try clocks.of(segment.boot))
                if walk.damaged != nil { return walk }
            }
        }
        for range in ClosedRange<Int64>.joined(segments.map(\.pending)) {
            guard walk.samples.count < limit else { break }
            let rows = try Row.fetchCursor(
                db.cachedStatement(sql: walkSQL), arguments: [range.lowerBound, range.upperBound])
            while walk.samples.count < limit, let row = try rows.next() {
                // Rows of other deliveries, or settled ones of a segment that is further along.
                guard let segment = byID[row[SampleColumn.segment.rawValue] ?? 0],
                    segment.pending.contains(row[SampleColumn.id.rawValue] ?? 0)
                else { continue }
                walk.add(SampleRow(row), of: segment, try clocks.of(segment.boot))
                if walk.damaged != nil { return walk }
            }
        }
        return walk
    }

    /// One walk along the primary key; no index, no sort.
    static let walkSQL = """
        SELECT \(SampleColumn.list) FROM sample
        WHERE id BETWEEN ? AND ? ORDER BY id
        """

    /// The oldest samples of these segments that were put back, in order of arrival. The samples of straps alternate,
    /// and of each segment only those are read that are older than the newest one found.
    private static func oldestPutBack(
        _ db: Database, of segments: [PendingSegment], enrollment: Int64, limit: Int
    ) throws -> [(row: SampleRow, segment: PendingSegment)] {
        var oldest: [(row: SampleRow, segment: PendingSegment)] = []
        for segment in segments {
            let newest = oldest.count < limit ? .max : oldest.last?.row.id ?? 0
            guard segment.pending.lowerBound < newest else { continue }
            let rows = try segment.books(of: enrollment).putBack(db, through: newest, limit: limit)
            oldest += try Array(rows.map { (SampleRow($0), segment) })
            oldest.sort { $0.row.id < $1.row.id }
            oldest.removeLast(max(0, oldest.count - limit))
        }
        return oldest
    }
}

extension SampleQueue.Walk {
    mutating func add(_ row: SampleRow, of segment: PendingSegment, _ clock: BootClock?) {
        guard row.isIntact(key), let time = row.time(segment.wallOffset) else {
            damaged = SettledSample(
                id: row.id, segmentID: segment.id,
                outcome: .dead(
                    reason: "damaged", diagnostics: "the stored row fails its checksum"))
            return
        }
        samples.append(
            PendingSample(
                id: row.id, segmentID: segment.id, sensorID: segment.sensorID,
                assignmentID: segment.assignmentID, patient: segment.patient,
                runNonce: segment.runNonce, time: time, timeUncertainty: row.timeUncertainty(clock),
                frame: row.frame,
                flags: UInt32(truncatingIfNeeded: row.flags),
                identityNumber: row.id &- segment.identityShift, isFurther: segment.isFurther))
    }
}

/// A segment of a delivery, and what its samples have in common.
struct PendingSegment: Sendable {
    var id: Int64
    /// Sample ids: from the cursor's next to the last, of what is done with, or all.
    var pending: ClosedRange<Int64>
    var assignmentID: Int64
    var runNonce: UInt64
    var wallOffset: WallOffset
    var sensorID: Int64
    var patient: String?
    var identityShift: Int64
    /// Whether the delivery is a further one of the segment's assignment.
    var isFurther: Bool
    var boot: Int64

    /// Those of these patients with samples to send.
    static func all(
        _ db: Database, enrollment: Int64, of patients: PatientFilter
    ) throws -> [PendingSegment] {
        try segments(db, pendingSQL, enrollment).filter { patients.admits($0.patient) }
    }

    /// Those of these patients with samples that were put back: of the assignments whose own destination it is, oldest
    /// first, then of the others.
    static func putBack(
        _ db: Database, enrollment: Int64, of patients: PatientFilter
    ) throws -> [PendingSegment] {
        try segments(db, putBackSQL, enrollment).filter { patients.admits($0.patient) }
            .sorted { ($0.isFurther ? 1 : 0, $0.id) < ($1.isFurther ? 1 : 0, $1.id) }
    }

    /// Those with kept samples that the delivery is done with, oldest first.
    static func settled(_ db: Database, enrollment: Int64) throws -> [PendingSegment] {
        try segments(db, settledSQL, enrollment)
            .sorted { $0.pending.lowerBound < $1.pending.lowerBound }
    }

    private static func segments(
        _ db: Database, _ statements: [String], _ enrollment: Int64
    ) throws -> [PendingSegment] {
        try statements.flatMap { sql in
            let rows = try Row.fetchCursor(
                db.cachedStatement(sql: sql), arguments: [enrollment])
            return try Array(rows.compactMap { try PendingSegment(row: $0) })
        }
    }

    /// The segment's books of this delivery.
    func books(of enrollment: Int64) -> DeliveryBooks {
        DeliveryBooks(segment: id, further: isFurther ? enrollment : nil)
    }

    /// The patient of the assignment `a`. A further destination has none of its own: the patient of an
    /// invitation is meant, where that is what the sensor's samples go through.
    static func patientSQL(isFurther: Bool) -> String {
        isFurther
            ? "coalesce(a.patient, (SELECT e.patient FROM enrollment e WHERE e.id = a.enrollment))"
            : "a.patient"
    }

    private static let pendingSQL = sql { ("\($0).settled_through", "s.last_sample") }
    private static let settledSQL = sql { ("s.pruned_through", "\($0).settled_through") }
    /// The index is asked for one segment after the other: what it costs grows with the segments that have such letters,
    /// neither with the letters nor with all the segments there are.
    static let putBackSQL = zip(
        sql { _ in ("s.first_sample - 1", "s.last_sample") },
        [
            "dead_letter WHERE is_requeued = 1",
            "further_dead_letter WHERE is_requeued = 1 AND destination = ?1",
        ]
    ).map { sql, letters in
        """
        \(sql) AND s.id IN (
            WITH RECURSIVE put_back(segment) AS (
                SELECT min(segment) FROM \(letters)
                UNION ALL SELECT (SELECT min(segment) FROM \(letters) AND segment > b.segment)
                FROM put_back b WHERE b.segment IS NOT NULL)
            SELECT segment FROM put_back)
        """
    }

    /// The statements for assignments whose own destination it is, and for the others; `ends` gives the columns after
    /// and through which the samples lie.
    private static func sql(_ ends: (String) -> (after: String, through: String)) -> [String] {
        [
            ("segment s", "s", "a.enrollment", false),
            ("further_delivery d JOIN segment s ON s.id = d.segment", "d", "d.destination", true),
        ].map { from, books, destination, isFurther in
            let (after, through) = ends(books)
            return """
                SELECT s.id, \(after) + 1, \(through), s.assignment, r.nonce,
                    s.wall_offset_us, a.sensor, \(patientSQL(isFurther: isFurther)),
                    s.identity_shift, \(isFurther),
                    r.boot
                FROM \(from)
                JOIN assignment a ON a.id = s.assignment
                JOIN run r ON r.id = s.run
                WHERE \(after) < \(through) AND \(destination) = ?1
                    AND s.wall_offset_us IS NOT NULL
                """
        }
    }

    /// By position: looking columns up by name costs more than reading them.
    private init?(row: Row) throws {
        guard let id = row[0] as Int64?, let first = row[1] as Int64?, let last = row[2] as Int64?,
            first <= last, let offset = row[5] as WallOffset?
        else { return nil }
        self.id = id
        pending = first...last
        assignmentID = row[3] ?? 0
        runNonce = try SampleIdentity.nonce(stored: row[4])
        wallOffset = offset
        sensorID = row[6] ?? 0
        patient = row[7]
        identityShift = row[8] ?? 0
        isFurther = row[9] ?? false
        boot = row[10] ?? 0
    }
}

extension ClosedRange<Int64> {
    /// The ranges, overlapping ones made one, in order.
    static func joined(_ ranges: some Sequence<Self>) -> [Self] {
        var joined: [Self] = []
        for range in ranges.sorted(by: { $0.lowerBound < $1.lowerBound }) {
            if let last = joined.last, range.lowerBound <= last.upperBound {
                joined[joined.count - 1] =
                    last.lowerBound...Swift.max(last.upperBound, range.upperBound)
            } else {
                joined.append(range)
            }
        }
        return joined
    }
}
