import Basics
import Foundation
import GRDB

/// Which samples of an import are in the store, by the identities that they have everywhere.
struct ImportIdentities: Sendable {
    /// Whether it was this store's, or that of a broken one before it.
    let isHome: Bool
    private var seen: ImportedNumbers?
    /// The runs of which this store has samples; read anew in each transaction.
    private var stored: [Int64: StoredRun] = [:]
    /// The samples of this slice that were taken.
    private var taken: [SampleIdentity: ImportLine] = [:]
    /// The run that goes on giving numbers.
    private var currentRun: Int64 = 0

    init(isHome: Bool) { self.isHome = isHome }

    /// A transaction begins.
    mutating func begin(during currentRun: Int64) {
        (stored, taken) = ([:], [:])
        self.currentRun = currentRun
    }

    /// It is about to end.
    mutating func write(_ db: Database) throws { try seen?.write(db) }

    /// Whether a sample is here. Marks what is new as imported.
    mutating func standing(
        of sample: ImportLine, _ run: ImportedRun, _ db: Database
    ) throws -> ImportStanding {
        if seen?.run != run.id {
            try seen?.write(db)
            seen = ImportedNumbers(run: run.id)
        }
        if let same = taken[sample.identity] {
            return same.isSame(as: sample) ? .known : .unsure(.numberTaken)
        }
        let stored = try stored[run.id] ?? StoredRun(run: run.id, db)
        self.stored[run.id] = stored
        if let isSame = try stored.isSame(as: sample, db) {
            return isSame ? .known : .unsure(.numberTaken)
        }
        // It was here, and is done with.
        if try seen?.has(sample.number, db) ?? false { return .known }
        if run.isOwn {
            if try Self.isErased(sample, of: run.id, db) { return .known }
            // A store before this one gave the lower ones.
            if !isHome || sample.number >= stored.firstGiven, sample.number <= stored.lastGiven {
                return stored.isSettled(sample) ? .known : .unsure(.lost)
            }
            // It would give the same number to another sample.
            if !isHome, run.id == currentRun { return .unsure(.runGoesOn) }
        }
        try seen?.insert(sample.number, db)
        taken[sample.identity] = sample
        return .new
    }
}

extension ImportIdentities {
    /// Whether the run gave it its number here, and its patient was erased since. Numbers of other straps lie between
    /// those of one; an address that no strap has any more may be a former one of the same.
    private static func isErased(
        _ sample: ImportLine, of run: Int64, _ db: Database
    ) throws -> Bool {
        try Bool.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT EXISTS (
                        SELECT 1 FROM erased_range e JOIN sensor n ON n.id = e.sensor
                        WHERE e.run = ?1 AND ?3 BETWEEN e.first_number AND e.last_number
                            AND (n.address = ?2
                                OR NOT EXISTS (SELECT 1 FROM sensor WHERE address = ?2)))
                    """), arguments: [run, sample.sensor, sample.number]) ?? false
    }
}

/// A run of an import as the store knows it.
struct ImportedRun: Sendable {
    var id: Int64
    /// Recorded by this very store: it has the samples up to some number, or had them.
    var isOwn: Bool
    var boot: Int64
    /// Whether the registry knows it: a store that was put in this one's place has runs of its own.
    var isKnown = true
}

/// Whether a sample of a file is in the store.
enum ImportStanding {
    case new
    /// It is here, or was and is done with.
    case known
    case unsure(UnsureSamples.Reason)
}

/// The samples that this store has of a run, recorded here or imported.
private struct StoredRun: Sendable {
    /// Samples whose numbers here lie as far from those of their run.
    private struct Shifted: Sendable {
        var shift: Int64
        /// In the run.
        var numbers: ClosedRange<Int64>
    }

    private let run: Int64
    private var shifted: [Shifted] = []
    /// The lowest and the highest number that the run gave here; none if that is 0.
    private(set) var firstGiven = Int64.max
    private(set) var lastGiven: Int64 = 0
    /// The samples that the run gave here and that every destination is done with, by the sensor's address.
    private var settled: [String: [ClosedRange<Int64>]] = [:]

    init(run: Int64, _ db: Database) throws {
        self.run = run
        // A segment that was imported may stand under its old numbers.
        let segments = try Row.fetchAll(
            db,
            sql: """
                SELECT n.address, s.first_sample, s.last_sample, \(Pruning.floorSQL) AS floor,
                    s.identity_shift, EXISTS (
                        SELECT 1 FROM imported i WHERE i.run = ?1
                        AND s.last_sample BETWEEN i.first_number AND i.last_number) AS is_imported
                FROM segment s JOIN assignment a ON a.id = s.assignment
                JOIN sensor n ON n.id = a.sensor
                WHERE s.run = ?1 AND s.first_sample <= s.last_sample
                """, arguments: [run])
        var bounds: [Int64: ClosedRange<Int64>] = [:]
        for segment in segments {
            let first: Int64 = segment["first_sample"] ?? 0
            let last: Int64 = segment["last_sample"] ?? 0
            let shift: Int64 = segment["identity_shift"] ?? 0
            guard first <= last else { continue }
            let known = bounds[shift]
            bounds[shift] =
                min(known?.lowerBound ?? first, first)...max(known?.upperBound ?? last, last)
            guard shift == 0, segment["is_imported"] as Bool? != true else { continue }
            firstGiven = min(firstGiven, first)
            lastGiven = max(lastGiven, last)
            let floor: Int64 = segment["floor"] ?? 0
            if first <= floor {
                settled[segment["address"] ?? "", default: []].append(first...floor)
            }
        }
        shifted = bounds.map { shift, ids in
            Shifted(shift: shift, numbers: (ids.lowerBound &- shift)...(ids.upperBound &- shift))
        }
    }

    /// Whether the sample that has this one's number here is the same; nil if there is none.
    func isSame(as sample: ImportLine, _ db: Database) throws -> Bool? {
        for part in shifted where part.numbers.contains(sample.number) {
            let row = try Row.fetchOne(
                db.cachedStatement(
                    sql: """
                        SELECT p.uptime_us, p.frame, n.address, s.wall_offset_us
                        FROM sample p JOIN segment s ON s.id = p.segment
                        JOIN assignment a ON a.id = s.assignment JOIN sensor n ON n.id = a.sensor
                        WHERE p.id = ? AND s.run = ? AND s.identity_shift = ?
                        """), arguments: [sample.number &+ part.shift, run, part.shift])
            guard let row else { continue }
            let uptime: Uptime = row[0] ?? .zero
            return sample.isSame(
                uptime: uptime, frame: (row[1] as Data?).map { [UInt8]($0) } ?? [],
                sensor: row[2] ?? "", time: (row[3] as WallOffset?)?.utc(uptime))
        }
        return nil
    }

    /// Whether every destination is done with a sample that the run gave its number here.
    func isSettled(_ sample: ImportLine) -> Bool {
        settled[sample.sensor]?.contains { $0.contains(sample.number) } ?? false
    }
}

extension ImportLine {
    fileprivate var identity: SampleIdentity { SampleIdentity(runNonce: nonce, sample: number) }

    fileprivate func isSame(as other: ImportLine) -> Bool {
        isSame(uptime: other.uptime, frame: other.frame, sensor: other.sensor, time: other.time)
    }

    /// Whether it is the sample of this content. A time that one of the two does not know tells nothing.
    fileprivate func isSame(uptime: Uptime, frame: [UInt8], sensor: String, time: UTC?) -> Bool {
        self.uptime == uptime && self.frame == frame && self.sensor == sensor
            && (self.time == nil || time == nil || self.time == time)
    }
}

/// Which numbers of a run were imported, as ranges.
struct ImportedNumbers: Sendable {
    let run: Int64
    /// The range that grows, not yet written.
    private var open: ClosedRange<Int64>?

    init(run: Int64) { self.run = run }

    func has(_ number: Int64, _ db: Database) throws -> Bool {
        if open?.contains(number) ?? false { return true }
        let last = try Int64.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT last_number FROM imported WHERE run = ? AND first_number <= ?
                    ORDER BY first_number DESC LIMIT 1
                    """), arguments: [run, number])
        return last.map { $0 >= number } ?? false
    }

    /// Adds a number that is not there.
    mutating func insert(_ number: Int64, _ db: Database) throws {
        if let open, number != open.upperBound + 1 { try write(db) }
        open = (open?.lowerBound ?? number)...number
    }

    /// Writes the open range, made one with the ones it touches.
    mutating func write(_ db: Database) throws {
        guard let range = open else { return }
        open = nil
        let before = try Row.fetchOne(
            db,
            sql: """
                SELECT first_number, last_number FROM imported WHERE run = ? AND first_number < ?
                ORDER BY first_number DESC LIMIT 1
                """, arguments: [run, range.lowerBound])
        let after = try Row.fetchOne(
            db,
            sql: "SELECT last_number FROM imported WHERE run = ? AND first_number = ? + 1",
            arguments: [run, range.upperBound])
        let touches = before?[1] == range.lowerBound - 1
        let first: Int64 = touches ? before?[0] ?? range.lowerBound : range.lowerBound
        let last: Int64 = after?[0] ?? range.upperBound
        try db.execute(
            sql: "DELETE FROM imported WHERE run = ? AND first_number BETWEEN ? AND ?",
            arguments: [run, first, last])
        try db.execute(sql: "INSERT INTO imported VALUES (?, ?, ?)", arguments: [run, first, last])
    }
}
