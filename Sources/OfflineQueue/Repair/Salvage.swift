import Basics
import Foundation
import GRDB

// How a broken store is replaced
// ==============================
//
//   1. "<store>.salvaged-tmp" is filled with what can be read, its books are made to balance, and it is
//      closed and synced. The broken file is only read.
//   2. It is renamed to "<store>.salvaged-<UTC>": from here on the decision is made.
//   3. The broken file and its log become "<store>.broken-<UTC>" and "…-wal".
//   4. "<store>.salvaged-<UTC>" becomes the store.
//
// A power cut before 2 leaves the broken store, which is salvaged again; one after it is made up for
// by `finish`, which every opening begins with.
//
// SQLite never opens the broken file, nor its log: it reads a second name of the file beside a log
// made of the frames that are sound (SalvageView).
//
// Samples are found by their checksum in the bytes of the pages, so that it does not matter what
// became of the tree above them. They are never changed after they were written, so any version of a
// row is the right one. Ids and nonces are carried over, hence identities are too: a sample whose
// delivery is not known any more is sent again, and the exchange says that it has it.

/// Replaces a broken store by a new one with all that can be read of it.
struct Salvage: Sendable {
    let path: String
    /// By the wall clock, trusted or not: for the names of files and the report.
    let wall: UTC
    /// What the run knows that goes on, and where it is; nil where it does not know.
    var remembered: (assignments: RememberedAssignments, now: Instant)?
    /// Called at each page of the broken store.
    var onPage: @Sendable () -> Void = {}

    /// Replaces the store. Throws, and leaves the broken one in place, if the disk cannot take it.
    func run(cause: QueueError) throws(QueueError) {
        do {
            do {
                try fill(cause, keepsSettled: true)
            } catch {
                guard QueueError("salvage store", error).code == .diskFull else { throw error }
                // What still waits matters more than what has been delivered.
                try fill(cause, keepsSettled: false)
            }
            try StoreSwap(path: path).adopt(temporary, stamp: stamp)
        } catch {
            StoreSwap.remove(temporary)
            throw QueueError("salvage store", error)
        }
    }

    private var temporary: String { path + ".salvaged-tmp" }

    /// `20261122T001500Z`.
    var stamp: String {
        let date = Date(timeIntervalSince1970: Double(wall.microseconds) / 1_000_000)
        let style = Date.ISO8601FormatStyle(
            dateSeparator: .omitted, timeSeparator: .omitted, timeZone: .gmt)
        return date.formatted(style)
    }

    private func fill(_ cause: QueueError, keepsSettled: Bool) throws {
        StoreSwap.remove(temporary)
        let database = try StoreFile.create(temporary)
        let shapes = try database.read { try TableShape.all($0) }
        let log = WriteAheadLog(of: path, readsIndex: true)
        var source = try SalvageSource(path: path, log: log, shapes: shapes)
        if let (assignments, now) = remembered { assignments.correct(&source.rows, at: now) }
        try database.write { [source] db in
            var writer = SalvageWriter(source, shapes: shapes)
            try writer.insertRegistry(db)
            let pages = StorePages(path: path, log)
            let overflow = pages.overflow(log)
            try pages.forEach(log) { page in
                onPage()
                // A sample's checksum says whether what it goes on with is still its own.
                let rows = PageCarver.rows(of: page.bytes, isFirst: page.isFirst, overflow)
                try writer.insertSamples(rows, of: page.bytes, keepsSettled: keepsSettled, db)
            }
            try writer.finish(db)
            try SampleQueue.forgetErasedLosses(db)
            try db.execute(
                sql: """
                    INSERT INTO salvage (at_wall_us, broken_file, cause, carried, damaged, orphaned,
                        lost)
                    VALUES (?, ?, ?, ?, ?, ?, ?)
                    """,
                arguments: [
                    wall,
                    URL(fileURLWithPath: StoreSwap.broken(path, stamp))
                        .lastPathComponent,
                    cause.cause.bounded, writer.carried, writer.damaged, writer.orphaned,
                    writer.lost,
                ])
        }
        try database.close()
    }
}

/// Fills the successor of a broken store.
private struct SalvageWriter {
    private let source: SalvageSource
    private let shapes: [TableShape]
    private var segments: [Int64: SalvagedSegment]
    private(set) var carried = 0
    private(set) var orphaned = 0
    private(set) var lost: Int64 = 0
    private var damagedIDs: Set<Int64> = []
    /// Samples that are dead letters somewhere.
    private let letters: Set<Int64>
    /// The cursor of the further destination that is furthest behind, by segment.
    private let furtherCursors: [Int64: Int64]
    /// Bounds the memory for the count of damaged rows, not the salvage.
    private static let damagedMax = 100_000
    /// In the order in which one refers to the other.
    private static let registry = ["boot", "run", "sensor", "enrollment", "assignment"]

    var damaged: Int { damagedIDs.count }

    init(_ source: SalvageSource, shapes: [TableShape]) {
        self.source = source
        self.shapes = shapes
        segments = [:]
        letters = Set(source.rows["dead_letter"]?.keys.map { $0 } ?? []).union(
            source.rows["further_dead_letter"]?.values.compactMap {
                $0["sample"].flatMap(Int64.fromDatabaseValue)
            } ?? [])
        furtherCursors = Dictionary(
            (source.rows["further_delivery"] ?? [:]).values.compactMap { row in
                guard let segment = row["segment"].flatMap(Int64.fromDatabaseValue),
                    let cursor = row["settled_through"].flatMap(Int64.fromDatabaseValue)
                else { return nil }
                return (segment, cursor)
            }, uniquingKeysWith: min)
        for (id, row) in source.rows["segment"] ?? [:] {
            // A column that must be a number and is not one is left behind.
            let row = row.filter { $0.value.isNull || Int64.fromDatabaseValue($0.value) != nil }
            segments[id] = SalvagedSegment(id: id, row: row)
        }
    }

    // MARK: - Who wears what

    /// Copies every table but the samples and segments, and makes up what others refer to, where
    /// nothing depends on its contents: a boot, a sensor.
    mutating func insertRegistry(_ db: Database) throws {
        for name in Self.registry {
            if name == "assignment" { try makeUpSensors(db) }
            for (_, row) in (source.rows[name] ?? [:]).sorted(by: { $0.key < $1.key }) {
                var row = row
                if name == "assignment", let enrollment = row["enrollment"], !enrollment.isNull,
                    try !exists(db, "enrollment", enrollment)
                {
                    // Held as "not-enrolled" until the gateway is enrolled again.
                    row["enrollment"] = .null
                }
                try insert(name, row, db)
            }
        }
        try makeUpBoots(db)
        let rest = shapes.map(\.name).filter {
            !Self.registry.contains($0) && $0 != "segment"
        }
        for name in rest {
            for (_, row) in (source.rows[name] ?? [:]).sorted(by: { $0.key < $1.key }) {
                try insert(name, row, db)
            }
            for row in source.unnumbered[name] ?? [] { try insert(name, row, db) }
        }
        let runs = try Int64.fetchSet(db, sql: "SELECT id FROM run")
        let assignments = try Int64.fetchSet(db, sql: "SELECT id FROM assignment")
        segments = segments.filter { _, segment in
            guard let run = segment.run, let assignment = segment.assignment else { return false }
            return runs.contains(run) && assignments.contains(assignment)
        }
    }

    private func insert(_ table: String, _ row: SalvageSource.Values, _ db: Database) throws {
        guard let shape = shapes.first(where: { $0.name == table }) else { return }
        let columns = shape.columns.map(\.name).filter { row[$0] != nil }
        guard !columns.isEmpty else { return }
        let names = columns.map { "\"\($0)\"" }.joined(separator: ", ")
        let marks = columns.map { _ in "?" }.joined(separator: ", ")
        do {
            try db.execute(
                sql: "INSERT OR IGNORE INTO \(table) (\(names)) VALUES (\(marks))",
                arguments: StatementArguments(columns.map { row[$0] ?? .null }))
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
            // A value of the wrong type: the row is damaged, and nothing can be done about it.
        } catch let error as DatabaseError where error.resultCode == .SQLITE_MISMATCH {
            // The same, in the row's number.
        }
    }

    private func exists(_ db: Database, _ table: String, _ id: DatabaseValue) throws -> Bool {
        try Int.fetchOne(db, sql: "SELECT 1 FROM \(table) WHERE id = ?", arguments: [id]) != nil
    }

    private func makeUpSensors(_ db: Database) throws {
        for row in (source.rows["assignment"] ?? [:]).values {
            guard let sensor = row["sensor"], Int64.fromDatabaseValue(sensor) != nil else {
                continue
            }
            try db.execute(
                sql: """
                    INSERT OR IGNORE INTO sensor (id, address, is_forgotten)
                    VALUES (?1, 'salvaged-' || ?1, 1)
                    """, arguments: [sensor])
        }
    }

    private func makeUpBoots(_ db: Database) throws {
        try db.execute(
            sql: """
                INSERT OR IGNORE INTO boot (id, boot_id)
                SELECT id, 'salvaged-' || id FROM (
                    SELECT boot AS id FROM run UNION SELECT began_boot FROM assignment
                    UNION SELECT ended_boot FROM assignment)
                WHERE id IS NOT NULL
                """)
    }

    // MARK: - Samples

    mutating func insertSamples(
        _ carved: (rows: [CarvedRow], isWhole: Bool), of page: [UInt8], keepsSettled: Bool,
        _ db: Database
    ) throws {
        for row in carved.rows {
            guard let sample = SampleRow(row) else { continue }
            if sample.isIntact {
                try insert(sample, keepsSettled: keepsSettled, db)
            } else if damagedIDs.count < Self.damagedMax {
                damagedIDs.insert(sample.id)
            }
        }
        guard !carved.isWhole else { return }
        for row in PageCarver.candidates(in: page, values: SampleColumn.count) {
            guard let sample = SampleRow(row), sample.isIntact else { continue }
            try insert(sample, keepsSettled: keepsSettled, db)
        }
    }

    private mutating func insert(
        _ sample: SampleRow, keepsSettled: Bool, _ db: Database
    ) throws {
        damagedIDs.remove(sample.id)
        guard let segment = segments[sample.segment] else {
            if !source.erasedSegments.contains(sample.segment) { orphaned += 1 }
            return
        }
        // Its deletion was committed; the bytes only happen to be there still.
        guard sample.id > segment.prunedThrough else { return }
        guard keepsSettled || isWanted(sample, of: segment) else { return }
        try SampleInsertion(db, ifNew: true).insert(sample)
        guard db.changesCount > 0 else { return }
        carried += 1
        segments[sample.segment]?.add(sample)
    }

    /// Whether a destination has not settled it for good.
    private func isWanted(_ sample: SampleRow, of segment: SalvagedSegment) -> Bool {
        segment.isWaiting(sample.id) || letters.contains(sample.id)
            || furtherCursors[sample.segment].map { sample.id > $0 } == true
    }

    // MARK: - Books

    mutating func finish(_ db: Database) throws {
        // Their rows would have no samples, or no segment.
        for table in ["dead_letter", "further_dead_letter"] {
            try db.execute(
                sql: "DELETE FROM \(table) WHERE sample NOT IN (SELECT id FROM sample)")
        }
        for segment in segments.values.sorted(by: { $0.id < $1.id }) {
            lost += try segment.write(db)
        }
        try shareOffsets(db)
        for shape in shapes { try removeDangling(shape, db) }
        try SalvagedFurtherDelivery.balanceAll(db)
    }

    /// A boot whose row was lost has the time of its segments, and a segment that of its boot.
    private func shareOffsets(_ db: Database) throws {
        try db.execute(
            sql: """
                UPDATE boot SET (wall_offset_us, offset_source) = (
                    SELECT s.wall_offset_us, iif(s.wall_offset_us IS NULL, NULL, 'clock')
                    FROM run r JOIN segment s ON s.run = r.id
                    WHERE r.boot = boot.id ORDER BY s.wall_offset_us IS NULL, s.id DESC LIMIT 1)
                WHERE wall_offset_us IS NULL
                """)
        try db.execute(
            sql: """
                UPDATE segment SET wall_offset_us = (
                    SELECT b.wall_offset_us FROM run r JOIN boot b ON b.id = r.boot
                    WHERE r.id = segment.run AND b.jumped_after_us IS NULL)
                WHERE wall_offset_us IS NULL
                """)
    }

    /// Deletes rows that refer to what could not be read.
    private func removeDangling(_ shape: TableShape, _ db: Database) throws {
        guard !Self.registry.contains(shape.name), shape.name != "segment" else { return }
        let references = try Row.fetchAll(
            db, sql: "SELECT \"table\", \"from\" FROM pragma_foreign_key_list(?)",
            arguments: [shape.name])
        for reference in references {
            guard let parent = reference[0] as String?, let column = reference[1] as String? else {
                continue
            }
            try db.execute(
                sql: """
                    DELETE FROM \(shape.name)
                    WHERE \(column) IS NOT NULL AND \(column) NOT IN (SELECT id FROM \(parent))
                    """)
        }
    }
}
