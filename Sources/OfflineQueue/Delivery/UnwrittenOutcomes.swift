import Basics
import GRDB

/// The outcome of samples of one delivery, and of the requests that brought it about, on its way into the
/// books.
struct UnwrittenOutcomes: Sendable {
    private(set) var samples: [SettledSample] = []
    private(set) var uploads: [UploadRecord] = []
    /// When the first of them came.
    private(set) var since: Uptime?

    init(samples: [SettledSample] = [], uploads: [UploadRecord] = []) {
        self.samples = samples
        self.uploads = uploads
    }

    mutating func add(_ samples: [SettledSample], _ upload: UploadRecord?, at uptime: Uptime) {
        since = since ?? uptime
        self.samples += samples
        if let upload { uploads.append(upload) }
    }

    /// Writes it in the transaction of `db`; throws if it does not fit the books.
    func settle(
        _ db: Database, _ enrollment: Int64, _ lent: LentSamples, wall: UTC?
    ) throws {
        let lent = lent.of(enrollment)
        for sample in samples where lent.reason(sample.id) != nil {
            try lent.settleLate(db, sample)
        }
        let bySegment = Dictionary(
            grouping: samples.filter { lent.reason($0.id) == nil }, by: \.segmentID)
        for (segment, outcomes) in bySegment.sorted(by: { $0.key < $1.key }) {
            let settlement = try Settlement(
                db, segment: segment, enrollment: enrollment, outcomes: outcomes)
            try settlement.write(db, wall: wall)
            FaultPoint.settleSegment.reach()
        }
        for upload in uploads {
            try db.record(upload, enrollment: enrollment, wall: wall)
            FaultPoint.settleUpload.reach()
        }
    }

    /// The same in a transaction that writes something else: all of it or, returning false, nothing, if it does not
    /// fit the books. Throws when the transaction cannot go on.
    func fits(
        _ db: Database, _ enrollment: Int64, _ lent: LentSamples, wall: UTC?
    ) throws -> Bool {
        do {
            try db.inSavepoint {
                try settle(db, enrollment, lent, wall: wall)
                return .commit
            }
            return true
        } catch is QueueError {
            return false
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
            return false
        }
    }
}

extension Database {
    fileprivate func record(_ upload: UploadRecord, enrollment: Int64, wall: UTC?) throws {
        try cachedStatement(
            sql: """
                INSERT INTO upload (enrollment, at_wall_us, first_sample, last_sample,
                    first_time_us, last_time_us, count, outcome)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?)
                """
        ).execute(arguments: [
            enrollment, wall, upload.samples?.lowerBound, upload.samples?.upperBound,
            upload.times?.lowerBound, upload.times?.upperBound, upload.count,
            upload.outcome.bounded,
        ])
    }
}
