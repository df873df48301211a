import Basics
import Foundation
import GRDB

/// The registry for a fresh store, if the one before it broke: who wears which strap, where samples go, and the numbers
/// that are taken. Two files beside the store, of which one at least is whole at any time.
///
/// Each transaction that changes the registry, which `registry_change` counts, seals it with a checksum
/// (``sealing(_:after:at:)``), and the files are written after its commit. So a registry proves by itself that it is
/// whole: an opening looks at the seal, and the registry of a broken store that is whole and newer than the files counts.
struct Sidecar: Codable, Sendable {
    private static let magic = "edge-gateway-registry 1"
    /// In the order in which one refers to the other. Of a run, what no commit changes.
    private static let tables = [
        ("boot", "*"), ("clock_step", "*"),
        ("run", "id, boot, nonce, is_imported, started_uptime_us, started_wall_us"),
        ("board", "*"), ("sensor", "*"), ("enrollment", "*"), ("assignment", "*"),
        ("further_destination", "*"), ("ledger_delivery", "*"), ("erased_number", "*"),
        ("erased_until", "*"), ("salvage", "*"),
    ]
    /// Assignments that may have begun since the last one was written: a fresh store gives none of their numbers again,
    /// so that it takes no sample for another patient's.
    private static let assignmentsUnknownMax: Int64 = 1_000

    private struct Table: Codable, Sendable {
        var columns: [String]
        var rows: [[Value]]
    }

    /// A number, a text or nothing.
    private struct Value: Codable, Sendable {
        var number: Int64?
        var text: String?

        init(_ value: DatabaseValue) {
            number = Int64.fromDatabaseValue(value)
            text = String.fromDatabaseValue(value)
        }

        var stored: DatabaseValue { number?.databaseValue ?? text?.databaseValue ?? .null }
        /// No two values that follow each other give the octets of two others.
        var sealed: String {
            number.map { "\($0)," } ?? text.map { "\($0.utf8.count):\($0)," } ?? ","
        }

        enum CodingKeys: String, CodingKey { case number = "n", text = "t" }
    }

    /// Grows with each file; 0 for one that knows of none before it.
    fileprivate var generation: Int64 = 0
    /// How often the registry had changed.
    let change: Int64
    /// Of which store (``storeID(_:)``).
    let store: String
    /// Rows of samples in the store, and when that was.
    private(set) var samples: Int
    private(set) var at: UTC
    /// Whether the store got none afterwards: it was closed in order.
    private(set) var isFinal = false
    /// The highest numbers given, by table.
    private var numbers: [String: Int64]
    private let contents: [String: Table]

    /// Of what `db` has, if that is as its last change left it. Without a seal, which a new version of the tables takes
    /// away, nothing says that it is not.
    ///
    /// - Throws: ``QueueError`` `corrupt` if it is not.
    init(proved db: Database, at wall: UTC) throws {
        try self.init(reading: db, at: wall)
        let sealed = try Int64.fetchOne(db, sql: "SELECT seal FROM registry_change")
        guard sealed ?? seal == seal else {
            throw QueueError(
                .corrupt, "read registry", "who wears what is not as it was written down")
        }
    }

    /// Seals what the transaction has changed of the registry. Returns what the files are to say; nil if nothing has
    /// changed since `known`.
    static func sealing(
        _ db: Database, after known: Sidecar?, at wall: UTC
    ) throws -> Sidecar? {
        guard try change(db) != known?.change else { return nil }
        let next = try Sidecar(reading: db, at: wall)
        try db.cachedStatement(sql: "UPDATE registry_change SET seal = ?")
            .execute(arguments: [next.seal])
        return next
    }

    private init(reading db: Database, at wall: UTC) throws {
        change = try Self.change(db)
        store = try Self.storeID(db)
        samples =
            try Int.fetchOne(
                db.cachedStatement(sql: "SELECT sum(stored - pruned) FROM segment")) ?? 0
        at = wall
        var numbers = ["sample": try RunStart.lastGiven(db)]
        for table in ["segment", "enrollment", "assignment"] {
            numbers[table] = try db.nextNumber(of: table) - 1
        }
        self.numbers = numbers
        var contents: [String: Table] = [:]
        for (name, columns) in Self.tables {
            let statement = try db.cachedStatement(sql: "SELECT \(columns) FROM \(name)")
            let rows = try Row.fetchCursor(statement)
            var table = Table(columns: statement.columnNames, rows: [])
            while let row = try rows.next() {
                table.rows.append(row.databaseValues.map(Value.init))
            }
            contents[name] = table
        }
        self.contents = contents
    }

    /// The checksum of all rows, and of how often they have changed.
    private var seal: Int64 {
        let rows = Self.tables.flatMap { name, _ in contents[name]?.rows ?? [] }
        let lines = rows.map { $0.map(\.sealed).joined() }
        return Int64(RowChecksum.crc32(Array("\(change)\n\(lines.joined(separator: "\n"))".utf8)))
    }

    /// The highest number of a sample when it had so many.
    var lastSample: Int64 { numbers["sample"] ?? 0 }

    /// The same of a store that had given numbers up to `last` when it ended.
    func counting(through last: Int64, at wall: UTC) -> Sidecar {
        var counted = self
        counted.samples += Int(max(0, last - lastSample))
        counted.numbers["sample"] = max(last, lastSample)
        counted.at = wall
        counted.isFinal = true
        return counted
    }

    /// How often the registry has changed.
    static func change(_ db: Database) throws -> Int64 {
        try Int64.fetchOne(db.cachedStatement(sql: "SELECT number FROM registry_change")) ?? 0
    }

    /// A store is known by the nonce of its first run.
    static func storeID(_ db: Database) throws -> String {
        let nonce = try Int64.fetchOne(
            db.cachedStatement(
                sql: "SELECT nonce FROM run WHERE is_imported = 0 ORDER BY id LIMIT 1"))
        return String(UInt64(bitPattern: nonce ?? 0), radix: 16)
    }

    /// Fills a store that has nothing yet. Returns how many rows it refuses: one that was damaged before it was written
    /// down keeps no other out.
    func fill(_ db: Database) throws -> Int {
        var refused = 0
        for (name, _) in Self.tables {
            guard let table = contents[name] else { continue }
            // Not a column of an earlier version of this program.
            let known = Set(try db.columns(in: name).map(\.name))
            let columns = table.columns.indices.filter { known.contains(table.columns[$0]) }
            let names = columns.map { "\"\(table.columns[$0])\"" }.joined(separator: ", ")
            let marks = columns.map { _ in "?" }.joined(separator: ", ")
            for row in table.rows {
                do {
                    let values = columns.map { row.indices.contains($0) ? row[$0].stored : .null }
                    try db.execute(
                        sql: "INSERT INTO \(name) (\(names)) VALUES (\(marks))",
                        arguments: StatementArguments(values))
                } catch let error as DatabaseError
                    where QueueError.Code(error.resultCode) == .internalFault
                {
                    refused += 1
                }
            }
        }
        for (kind, number) in numbers {
            try db.execute(
                sql: "INSERT OR REPLACE INTO erased_until VALUES (?, ?)",
                arguments: [
                    kind, number + (kind == "assignment" ? Self.assignmentsUnknownMax : 0),
                ])
        }
        try db.execute(
            sql: "UPDATE registry_change SET number = max(number, ?)", arguments: [change])
        try db.markStore()
        return refused
    }

    /// The rows of a table, by their numbers.
    func rows(of name: String) -> [Int64: SalvageSource.Values] {
        values(of: name).reduce(into: [:]) { rows, values in
            if let id = values.number("id") { rows[id] = values }
        }
    }

    /// The numbers of assignments whose patient was erased.
    var erasedAssignments: Set<Int64> {
        SalvageSource.erasedAssignments(values(of: "erased_number"))
    }

    private func values(of name: String) -> [SalvageSource.Values] {
        (contents[name]?.rows ?? []).map { row in
            Dictionary(
                zip(contents[name]?.columns ?? [], row.map(\.stored)),
                uniquingKeysWith: { first, _ in first })
        }
    }

    // MARK: - Files

    /// Several stores may share a directory. A broken one has the sidecar of the one whose place it had.
    private static func path(_ generation: Int64, besides store: String) -> String {
        "\(Evidence.origin(of: store)).registry-\(generation & 1)"
    }

    /// Writes it over the older one of the two files.
    mutating func write(besides store: String) throws(QueueError) {
        // To read what is there takes as long as to write it.
        var next = self
        if generation == 0 { next.generation = Self.find(besides: store).newest?.generation ?? 0 }
        next.generation += 1
        do {
            let payload = try JSONEncoder().encode(next)
            try PrivateFile.replace(
                Self.path(next.generation, besides: store),
                with: PrivateFile.sealed(Self.magic, payload))
        } catch {
            throw QueueError("write registry", error)
        }
        // A file that could not be written is tried again in the same place.
        self = next
    }

    /// The newest there is; nil without one that is whole.
    ///
    /// - Throws: ``QueueError`` if one is there and cannot be read: the other may be from before a strap changed hands.
    static func newest(besides store: String) throws(QueueError) -> Sidecar? {
        let (newest, unread) = find(besides: store)
        if let unread { throw unread }
        return newest
    }

    /// The newest that can be read, and why another one that is there cannot.
    static func find(besides store: String) -> (newest: Sidecar?, unread: QueueError?) {
        var (newest, unread) = (Sidecar?.none, QueueError?.none)
        for generation in [Int64(0), 1] {
            do throws(QueueError) {
                guard let data = try PrivateFile.contents(path(generation, besides: store), magic),
                    let one = try? JSONDecoder().decode(Sidecar.self, from: data),
                    newest.map({ one.generation > $0.generation }) ?? true
                else { continue }
                newest = one
            } catch { unread = error }
        }
        return (newest, unread)
    }
}

/// The newest sidecar of a store, and what of it is not on the disk yet.
struct KeptSidecar: Sendable {
    /// How often the totals are written while nothing else changes: status says from when they are.
    private static let pause = Duration.seconds(600)

    private(set) var newest: Sidecar?
    /// Why the files are older; nil if they are not.
    private(set) var fault: QueueError?
    private var unwritten = 0
    private var writtenUptime: Uptime

    init(_ newest: Sidecar? = nil, uptime: Uptime) {
        self.newest = newest
        writtenUptime = uptime
    }

    func isOld(uptime: Uptime) -> Bool { uptime - writtenUptime >= Self.pause }

    /// Writes `next`, or what could not be written before.
    ///
    /// - Parameter copies: how many of the two files must not be older.
    mutating func keep(
        _ next: Sidecar?, copies: Int = 1, besides store: String, uptime: Uptime
    ) {
        if var next {
            next.generation = newest?.generation ?? 0
            (newest, unwritten) = (next, max(unwritten, copies))
        }
        while unwritten > 0 {
            do throws(QueueError) {
                try newest?.write(besides: store)
            } catch { return fault = error }
            (unwritten, fault, writtenUptime) = (unwritten - 1, nil, uptime)
        }
    }
}

extension SampleQueue {
    /// Writes the sidecar if the registry has changed, or the totals are old. What fails is tried again with the next
    /// commit.
    ///
    /// - Parameters:
    ///   - changed: what a transaction has made of the registry.
    ///   - isDue: writes the totals now.
    ///   - isFinal: the store is about to be closed.
    ///   - copies: both, where neither may have what was erased.
    func keepSidecar(
        _ changed: Sidecar? = nil, isDue: Bool = false, isFinal: Bool = false, copies: Int = 1
    ) {
        guard store.absence == nil, !store.isClosed, !store.isAside, repair.damage == nil else {
            return
        }
        let reading = clock.read()
        var next = changed
        if isDue || isFinal || sidecar.isOld(uptime: reading.uptime) {
            do {
                next = try store.database.unsafeRead { try Sidecar(proved: $0, at: reading.wall) }
            } catch { return note(QueueError("read registry", error)) }
        }
        if isFinal { next = next.map { $0.counting(through: $0.lastSample, at: reading.wall) } }
        sidecar.keep(next, copies: copies, besides: store.path, uptime: reading.uptime)
    }
}
