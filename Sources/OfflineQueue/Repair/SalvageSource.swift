import Foundation
import GRDB

/// A table as the schema has it.
struct TableShape: Sendable {
    struct Column: Sendable {
        var name: String
        var type: String
        var isRequired: Bool
        /// The column that is the row's own number, and is stored as null.
        var isRowID: Bool
    }

    var name: String
    var columns: [Column]
    var hasRowID: Bool

    /// The tables of a store but `sample`, whose rows have a checksum and are found by it.
    static let all = Result<[TableShape], any Error> {
        let empty = try DatabaseQueue()
        try Schema.migrator.migrate(empty)
        return try empty.read(shapes)
    }

    private static func shapes(_ db: Database) throws -> [TableShape] {
        let tables = try Row.fetchAll(
            db,
            sql: """
                SELECT name, wr FROM pragma_table_list WHERE schema = 'main' AND type = 'table'
                    AND name NOT LIKE 'sqlite_%' AND name NOT IN ('grdb_migrations', 'sample')
                """)
        return try tables.map { table in
            let name: String = table[0] ?? ""
            let hasRowID = table[1] as Int64? == 0
            let columns = try Row.fetchAll(
                db, sql: "SELECT name, type, \"notnull\", pk FROM pragma_table_info(?)",
                arguments: [name])
            let keys = columns.count { ($0[3] as Int64? ?? 0) > 0 }
            return TableShape(
                name: name,
                columns: columns.map { row in
                    let type: String = row[1] ?? ""
                    let isKey = (row[3] as Int64? ?? 0) > 0
                    return Column(
                        name: row[0] ?? "", type: type, isRequired: row[2] as Int64? == 1,
                        isRowID: hasRowID && isKey && keys == 1 && type == "INTEGER")
                }, hasRowID: hasRowID)
        }
    }

    /// No table comes near this many rows in a century; a damaged number does.
    static let rowIDMax: Int64 = 1 << 48

    /// Whether a row could be one of this table. SQLite reads one of another table as well, where a page of that one
    /// took the place of one of this.
    ///
    /// `run` and `further_delivery` are both numbers throughout; the third is the run's nonce
    /// (``SampleIdentity/newNonce(seed:)``), or the small number of a destination.
    func fits(_ row: CarvedRow) -> Bool {
        guard hasRowID, row.values.count == columns.count, row.rowID <= Self.rowIDMax else {
            return false
        }
        if name == "run" || name == "further_delivery",
            case .int64(let third) = row.values[2].storage,
            SampleIdentity.isNonce(third) != (name == "run")
        {
            return false
        }
        return zip(columns, row.values).allSatisfy { column, value in
            switch value.storage {
            case .null: column.isRowID || !column.isRequired
            case .int64: column.type == "INTEGER" && !column.isRowID
            case .string: column.type == "TEXT"
            case .blob: column.type == "BLOB"
            case .double: false
            }
        }
    }

    /// A carved row by the names of its columns.
    func values(_ row: CarvedRow) -> [String: DatabaseValue] {
        var values: [String: DatabaseValue] = [:]
        for (column, value) in zip(columns, row.values) {
            values[column.name] = column.isRowID ? row.rowID.databaseValue : value
        }
        return values
    }
}

extension CarvedRow {
    /// A row of a table that SQLite has read, with its number in the first column.
    fileprivate init(_ row: Row, of shape: TableShape) {
        rowID = row[0] as Int64? ?? .max
        values = shape.columns.map { column in
            column.isRowID ? .null : row[column.name] as DatabaseValue? ?? .null
        }
    }
}

/// The readable rows of the small tables of a broken store: through SQLite where its trees hold, out of
/// the bytes of the pages where not. Who wears what is taken from the sidecar instead, if there is one.
struct SalvageSource: Sendable {
    typealias Values = [String: DatabaseValue]

    /// Tables whose rows are kept in memory; of the others it only matters whether they are sound.
    private static let kept: Set = [
        "boot", "run", "sensor", "enrollment", "assignment", "further_destination", "segment",
        "gap",
        "undecodable", "loss", "dropped_range", "further_delivery", "erased_number", "erased_until",
    ]
    private static let fromSidecar = [
        "boot", "run", "sensor", "enrollment", "assignment", "further_destination",
    ]

    /// As the files have them, whatever stores these are of.
    private(set) var rows: [String: [Int64: Values]] = [:]
    /// Rows of tables without a number of their own.
    private(set) var unnumbered: [String: [Values]] = [:]
    private(set) var letters = SalvagedLetters()
    /// Of each segment, its rows in `dropped_range` and in `further_delivery`.
    private(set) var droppedRanges: [Int64: [Values]] = [:]
    private(set) var furtherDeliveries: [Int64: [Values]] = [:]

    /// The same of the tables that the sidecar holds, by what it knows.
    private(set) var known: [String: [Int64: Values]] = [:]
    /// Which store it is (``Sidecar/storeID(_:)``), as far as can be read.
    private(set) var storeID: String?
    /// Whether all of it is of the store of the sidecar, as far as can be read.
    private(set) var isPure = true
    /// Whether SQLite read every table to its end, from a log in order.
    private(set) var isComplete: Bool
    /// Segments of runs that the sidecar does not know, which are another store's; among ``rows``.
    static let strangers = "segment of another store"
    /// Those that it knows; nil without a sidecar.
    private let runs: [Int64: Values]?
    var hasSidecar: Bool { runs != nil }

    /// - Parameter database: of the view (``SalvageView``); nil if there can be none.
    init(
        _ pages: StorePages, _ database: DatabaseQueue?, _ sidecar: Sidecar?
    ) throws(QueueError) {
        runs = sidecar?.rows(of: "run")
        let shapes: [TableShape]
        do {
            shapes = try TableShape.all.get()
        } catch {
            throw QueueError("salvage store", error)
        }
        isComplete = database != nil
        if let database {
            for shape in shapes where !read(shape, database) { isComplete = false }
        }
        isPure = Set(pages.marks).count <= 1 && !hasStrangers
        if !isComplete || !isPure {
            carve(pages, shapes, from: nil)
        } else if pages.log.damage != nil {
            // Rows of a damaged frame may be missing, or older than they were.
            carve(pages, shapes, from: pages.log.prefix)
            isComplete = false
        }
        isPure = isPure && !hasStrangers
        func bySegment(_ rows: some Sequence<Values>) -> [Int64: [Values]] {
            isPure ? Dictionary(grouping: rows) { $0.number("segment") ?? 0 } : [:]
        }
        droppedRanges = bySegment(unnumbered["dropped_range"] ?? [])
        furtherDeliveries = bySegment((rows["further_delivery"] ?? [:]).values)
        storeID = ownRuns.min { $0.key < $1.key }.flatMap { $0.value.number("nonce") }
            .map { String(UInt64(bitPattern: $0), radix: 16) }
        guard let sidecar else { return }
        for name in Self.fromSidecar {
            known[name] = (rows[name] ?? [:]).merging(sidecar.rows(of: name)) { _, known in known }
        }
        // Rows of another store are its own matter.
        for name in ["run", "boot"] { known[name] = sidecar.rows(of: name) }
    }

    var ownRuns: [Int64: Values] {
        (rows["run"] ?? [:]).filter { $0.value.number("is_imported") == 0 }
    }

    private var hasStrangers: Bool {
        runs.map { runs in !ownRuns.keys.allSatisfy { runs[$0] != nil } } ?? false
    }

    /// Among which rows this one is to be found.
    private func place(of values: Values, _ shape: TableShape) -> String {
        guard shape.name == "segment", let runs, let run = values.number("run"),
            runs[run] == nil
        else { return shape.name }
        return Self.strangers
    }

    /// Those of these rows of `erased_number`.
    static func erasedAssignments(_ rows: [Values]) -> Set<Int64> {
        Set(
            rows.filter { $0.value("kind") == "assignment" }.compactMap { $0.number("number") })
    }

    /// Reads a table from its beginning and from its end, each as far as it goes. It is complete if all its rows are
    /// of this table, and SQLite has passed over none.
    private mutating func read(_ shape: TableShape, _ database: DatabaseQueue) -> Bool {
        var isSound = false
        // SQLite compares the count of a page's rows with the page only when it is asked.
        _ = Self.fetch(database, "PRAGMA quick_check('\(shape.name)')") { isSound = $0[0] == "ok" }
        guard shape.hasRowID else {
            var found: [Values] = []
            let isComplete = Self.fetch(database, "SELECT * FROM \(shape.name)") { row in
                if Self.kept.contains(shape.name) { found.append(Self.values(row)) }
            }
            unnumbered[shape.name] = found
            return isComplete && isSound
        }
        var found: [String: [Int64: Values]] = [:]
        var foundLetters = SalvagedLetters()
        var hasOthers = false
        func take(_ order: String) -> Bool {
            let sql = "SELECT rowid, * FROM \(shape.name) ORDER BY rowid \(order)"
            return Self.fetch(database, sql) { row in
                let row = CarvedRow(row, of: shape)
                guard shape.fits(row) else { return hasOthers = true }
                let values = shape.values(row)
                if foundLetters.add(values, of: shape.name) || !Self.kept.contains(shape.name) {
                    return
                }
                found[place(of: values, shape), default: [:]][row.rowID] = values
            }
        }
        let isComplete = take("ASC") || (take("DESC") && false)
        rows.merge(found) { _, found in found }
        letters.add(foundLetters)
        return isComplete && isSound && !hasOthers
    }

    private static func fetch(
        _ database: DatabaseQueue, _ sql: String, _ body: (Row) -> Void
    ) -> Bool {
        let isComplete = try? database.read { db in
            let rows = try Row.fetchCursor(db, sql: sql)
            while let row = try rows.next() { body(row) }
            return true
        }
        return isComplete ?? false
    }

    private static func values(_ row: Row) -> Values {
        Dictionary(row.map { ($0.0, $0.1) }, uniquingKeysWith: { first, _ in first })
    }

    /// Adds the rows SQLite could not reach: from the frame `first` of the log on, or all with the file's. Of several
    /// versions of one, that of the newest page of the log is the last to come.
    private mutating func carve(_ pages: StorePages, _ shapes: [TableShape], from first: Int?) {
        var carved: [String: [Int64: Values]] = [:]
        var carvedLetters = SalvagedLetters()
        let overflow: PageCarver.Overflow = pages.overflow
        var position = StorePages.Position()
        while let chunk = pages.next(&position) {
            for page in chunk {
                if let first {
                    guard let frame = page.frame, frame >= first, pages.log.frames[frame].isCurrent
                    else { continue }
                }
                // An older version may point to what is another row's by now.
                let (found, _) = PageCarver.rows(
                    of: page.bytes, isFirst: page.isFirst, page.isNewest ? overflow : nil)
                for row in found where row.rowID > 0 {
                    let fitting = shapes.filter { $0.fits(row) }
                    guard let shape = fitting.first, fitting.count == 1 else { continue }
                    let values = shape.values(row)
                    if shape.name == "segment", !SegmentRow.isSound(values) { continue }
                    if carvedLetters.add(values, of: shape.name) || !Self.kept.contains(shape.name)
                    {
                        continue
                    }
                    carved[place(of: values, shape), default: [:]][row.rowID] = values
                }
            }
        }
        letters.add(carvedLetters)
        for (name, found) in carved {
            rows[name, default: [:]].merge(found) { read, carved in
                name.hasPrefix("segment") && SegmentRow.isNewer(carved, than: read) ? carved : read
            }
        }
    }
}

/// The samples of a broken store that had died, and which of them were put back. A destination that refused a day may
/// have left a million.
struct SalvagedLetters: Sendable {
    private var dead: [ExportedLetters.Place: IndexSet] = [:]
    private var requeued: [ExportedLetters.Place: IndexSet] = [:]

    /// Takes a row of the tables of dead letters, instead of an earlier version of it. Returns whether it is of these
    /// tables.
    mutating func add(_ values: SalvageSource.Values, of table: String) -> Bool {
        guard ["dead_letter", "further_dead_letter"].contains(table) else { return false }
        guard let sample = values.number("sample"), (1...SampleIdentity.sampleMax).contains(sample)
        else { return true }
        let place = values.number("destination").map(ExportedLetters.Place.further) ?? .own
        let isRequeued = values.number("is_requeued") != 0
        if isRequeued {
            dead[place]?.remove(Int(sample))
            requeued[place, default: []].insert(Int(sample))
        } else {
            requeued[place]?.remove(Int(sample))
            dead[place, default: []].insert(Int(sample))
        }
        return true
    }

    /// Adds others, but for those of which there is one.
    mutating func add(_ others: SalvagedLetters) {
        let (dead, requeued) = (dead, requeued)
        for (place, samples) in others.dead {
            self.dead[place, default: []].formUnion(
                samples.subtracting(requeued[place] ?? []))
        }
        for (place, samples) in others.requeued {
            self.requeued[place, default: []].formUnion(samples.subtracting(dead[place] ?? []))
        }
    }

    /// Where a sample had died, and whether it was put back since; nil if nowhere.
    func of(_ sample: Int64) -> [ExportedLetters.Place: Bool]? {
        var found: [ExportedLetters.Place: Bool] = [:]
        for (place, samples) in dead where samples.contains(Int(sample)) { found[place] = false }
        for (place, samples) in requeued where samples.contains(Int(sample)) { found[place] = true }
        return found.isEmpty ? nil : found
    }
}

/// A broken store as SQLite may read it: a second name of the file, beside a log of sound frames only.
/// SQLite deletes the log of an empty file and empties one that it does not understand; here it may.
struct SalvageView {
    let path: String
    static let suffix = ".salvage-view"

    /// Nil if there can be none: then everything is found in the bytes of the pages.
    init?(_ pages: StorePages) {
        path = pages.path + Self.suffix
        remove()
        let (log, frames) = (pages.log, pages.log.usable)
        guard frames.isEmpty || pages.pageBytes == log.pageBytes, link(pages.path, path) == 0
        else { return nil }
        do {
            if !frames.isEmpty { try log.write(frames, of: pages.path, to: path + "-wal") }
        } catch {
            remove()
            return nil
        }
    }

    func remove() { Evidence.remove(path) }

    /// A connection that only reads.
    func open() -> DatabaseQueue? { try? StoreFile.openToRead(path) }
}
