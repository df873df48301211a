import Basics
import Foundation
import GRDB

/// The registry for a fresh store, if the one before it broke: who wears which strap, where samples go, and the numbers
/// that are taken. Two files beside the store, of which one at least is whole at any time.
///
/// Written after the commit of a change of the registry, which `registry_change` counts. An intact store always wins.
struct Sidecar: Codable, Sendable {
    static let contradiction = "who wears what is not as it was written down"
    private static let magic = "edge-gateway-registry 1"
    /// How often the totals are written while nothing else changes: status says from when they are.
    static let pause = Duration.seconds(600)
    /// In the order in which one refers to the other.
    private static let tables = [
        "boot", "clock_step", "run", "board", "sensor", "enrollment", "assignment",
        "further_destination",
        "erased_number", "erased_until", "salvage",
    ]
    /// Assignments that may have begun since the last one was written: a fresh store gives none of their numbers again,
    /// so that it takes no sample for another patient's.
    private static let assignmentsUnknownMax: Int64 = 1_000

    private struct Table: Codable, Sendable, Equatable {
        var columns: [String]
        var rows: [[Value]]

        func columns(_ names: Set<String>?) -> [[Value]] {
            guard let names else { return rows }
            let kept = columns.indices.filter { names.contains(columns[$0]) }
            return rows.map { row in kept.compactMap { row.indices.contains($0) ? row[$0] : nil } }
        }
    }

    /// Of which each change is counted: all columns, or these.
    private static let counted: [(table: String, columns: Set<String>?)] = [
        ("boot", nil), ("run", ["id", "boot", "nonce", "is_imported"]), ("board", nil),
        ("sensor", nil), ("enrollment", nil), ("assignment", nil), ("further_destination", nil),
        ("erased_number", nil),
    ]

    /// A number, a text or nothing.
    private struct Value: Codable, Sendable, Equatable {
        var number: Int64?
        var text: String?

        init(_ value: DatabaseValue) {
            number = Int64.fromDatabaseValue(value)
            text = String.fromDatabaseValue(value)
        }

        var stored: DatabaseValue { number?.databaseValue ?? text?.databaseValue ?? .null }

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

    /// Of what `db` has now.
    init(_ db: Database, at wall: UTC) throws {
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
        for name in Self.tables {
            let rows = try Row.fetchCursor(db, sql: "SELECT * FROM \(name)")
            var table = Table(columns: try db.columns(in: name).map(\.name), rows: [])
            while let row = try rows.next() {
                table.rows.append(row.databaseValues.map(Value.init))
            }
            contents[name] = table
        }
        self.contents = contents
    }

    /// Whether it says something else of the same store, although that has not changed.
    func contradicts(_ other: Sidecar) -> Bool {
        store == other.store && change == other.change
            && Self.counted.contains { name, columns in
                contents[name].map { $0.columns(columns) }
                    != other.contents[name].map { $0.columns(columns) }
            }
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
            db, sql: "SELECT nonce FROM run WHERE is_imported = 0 ORDER BY id LIMIT 1")
        return String(UInt64(bitPattern: nonce ?? 0), radix: 16)
    }

    /// Fills a store that has nothing yet.
    func fill(_ db: Database) throws {
        for name in Self.tables {
            guard let table = contents[name] else { continue }
            // Not a column of an earlier version of this program.
            let known = Set(try db.columns(in: name).map(\.name))
            let columns = table.columns.indices.filter { known.contains(table.columns[$0]) }
            let names = columns.map { "\"\(table.columns[$0])\"" }.joined(separator: ", ")
            let marks = columns.map { _ in "?" }.joined(separator: ", ")
            for row in table.rows where row.count == table.columns.count {
                try db.execute(
                    sql: "INSERT OR REPLACE INTO \(name) (\(names)) VALUES (\(marks))",
                    arguments: StatementArguments(columns.map { row[$0].stored }))
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
    }

    /// The rows of a table, by their numbers.
    func rows(of name: String) -> [Int64: SalvageSource.Values] {
        guard let table = contents[name] else { return [:] }
        return table.rows.reduce(into: [:]) { rows, row in
            let values = Dictionary(
                zip(table.columns, row.map(\.stored)), uniquingKeysWith: { first, _ in first })
            if let id = values["id"].flatMap(Int64.fromDatabaseValue) { rows[id] = values }
        }
    }

    /// The numbers of assignments whose patient was erased.
    var erasedAssignments: Set<Int64> {
        guard let table = contents["erased_number"] else { return [] }
        let rows = table.rows.map { Array(zip(table.columns, $0.map(\.stored))) }
        return SalvageSource.erasedAssignments(
            rows.map { Dictionary($0, uniquingKeysWith: { first, _ in first }) })
    }

    // MARK: - Files

    /// Several stores may share a directory. A broken one has the sidecar of the one whose place it had.
    private static func path(_ generation: Int64, besides store: String) -> String {
        "\(Evidence.origin(of: store)).registry-\(generation & 1)"
    }

    /// Writes it over the older one of the two files.
    mutating func write(besides store: String) throws(QueueError) {
        // To read what is there takes as long as to write it.
        if generation == 0 { generation = (try? Self.newest(besides: store))?.generation ?? 0 }
        generation += 1
        do {
            let payload = try JSONEncoder().encode(self)
            try PrivateFile.replace(
                Self.path(generation, besides: store),
                with: PrivateFile.sealed(Self.magic, payload))
        } catch {
            throw QueueError("write registry", error)
        }
    }

    /// The newest there is; nil without one that is whole.
    ///
    /// - Throws: ``QueueError`` if one is there and cannot be read: the other may be from before a strap changed hands.
    static func newest(besides store: String) throws(QueueError) -> Sidecar? {
        var newest: Sidecar?
        for generation in [Int64(0), 1] {
            guard let data = try PrivateFile.contents(path(generation, besides: store), magic),
                let one = try? JSONDecoder().decode(Sidecar.self, from: data),
                newest.map({ one.generation > $0.generation }) ?? true
            else { continue }
            newest = one
        }
        return newest
    }
}

extension SampleQueue {
    /// Writes the sidecar if the registry has changed since, or the totals are old. What fails is tried again with the
    /// next commit.
    ///
    /// - Parameters:
    ///   - isDue: writes the totals now.
    ///   - isFinal: the store is about to be closed.
    ///   - isErasure: writes both files, so that neither has what was erased.
    func keepSidecar(isDue: Bool = false, isFinal: Bool = false, isErasure: Bool = false) {
        guard store.absence == nil, !store.isClosed, !store.isAside, repair.damage == nil else {
            return
        }
        let reading = clock.read()
        let isDue = isDue || isFinal || isErasure || reading.uptime - sidecarUptime >= Sidecar.pause
        let next: Sidecar?
        do {
            next = try store.database.unsafeRead { [sidecar] db -> Sidecar? in
                guard try isDue || Sidecar.change(db) != sidecar?.change else { return nil }
                let next = try Sidecar(db, at: reading.wall)
                if let sidecar, next.contradicts(sidecar) {
                    throw QueueError(.corrupt, "read registry", Sidecar.contradiction)
                }
                return isFinal ? next.counting(through: next.lastSample, at: reading.wall) : next
            }
        } catch { return note(QueueError("read registry", error)) }
        if var next {
            next.generation = sidecar?.generation ?? 0
            (sidecar, sidecarWrites) = (next, max(sidecarWrites, isErasure ? 2 : 1))
        }
        while sidecarWrites > 0, (try? sidecar?.write(besides: store.path)) != nil {
            sidecarWrites -= 1
            sidecarUptime = reading.uptime
        }
    }
}
