import Foundation
import GRDB
import Testing

@testable import OfflineQueue

@Suite("A store of another version")
struct OtherVersionTests {
    let store: TestStore
    let clock = ManualClock()

    init() throws { store = try TestStore() }

    /// What another version did to a store.
    enum Other: CaseIterable {
        /// It has a step more.
        case laterStep
        /// Its step has another name.
        case otherName
        /// Its step has this name, and made other tables.
        case otherTables
        /// It knew no stamps.
        case unstamped

        func change(_ db: Database) throws {
            let novelty = "CREATE TABLE novelty (id INTEGER PRIMARY KEY) STRICT;"
            switch self {
            case .laterStep:
                try db.execute(sql: novelty)
                try Schema.stamp(db, after: "v2")
                try db.execute(sql: "INSERT INTO grdb_migrations VALUES ('v2')")
            case .otherName:
                try db.execute(sql: "DELETE FROM grdb_migrations")
                try Schema.stamp(db, after: "w1")
                try db.execute(sql: "INSERT INTO grdb_migrations VALUES ('w1')")
            case .otherTables:
                try db.execute(sql: novelty)
                try Schema.stamp(db, after: "v1")
            case .unstamped:
                try db.execute(sql: "PRAGMA user_version = 0")
            }
        }
    }

    /// Every file of the directory but the lock, with its bytes and its mode.
    private func files() throws -> [String: [String]] {
        let names = try FileManager.default.contentsOfDirectory(atPath: store.directory.path)
            .filter { !$0.hasSuffix(".lock") }
        return try Dictionary(
            uniqueKeysWithValues: names.map { name in
                let path = store.directory.appendingPathComponent(name).path
                let mode =
                    try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions]
                let bytes = FileManager.default.contents(atPath: path) ?? Data()
                return (name, ["\(mode ?? "")", "\(RowChecksum.crc32([UInt8](bytes)))"])
            })
    }

    /// Leaves a store of another version with samples, as a kill does: its last commits stand in the log alone.
    private func leave(_ other: Other, isKilled: Bool) async throws {
        _ = try await SalvageWorld(store, clock)
        let database = try DatabaseQueue(path: store.path)
        try await database.writeWithoutTransaction { db in
            try db.execute(sql: "PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0")
            try db.inTransaction {
                try other.change(db)
                return .commit
            }
        }
        let (file, log) = (
            try Data(contentsOf: URL(fileURLWithPath: store.path)),
            try Data(contentsOf: URL(fileURLWithPath: store.path + "-wal"))
        )
        try database.close()
        if isKilled {
            try file.write(to: URL(fileURLWithPath: store.path))
            try log.write(to: URL(fileURLWithPath: store.path + "-wal"))
        }
        try FileManager.default.setAttributes(
            [.posixPermissions: 0o640], ofItemAtPath: store.path)
    }

    @Test(arguments: Other.allCases, [false, true])
    func stopsTheStartAndStaysAsItIs(other: Other, isKilled: Bool) async throws {
        try await leave(other, isKilled: isKilled)
        let before = try files()
        #expect((before["queue.sqlite-wal"] != nil) == isKilled)
        for staysAvailable in [false, true] {
            var settings = QueueSettings()
            settings.staysAvailable = staysAvailable
            await #expect {
                try await store.open(clock, bootID: "boot-2", settings: settings)
            } throws: { error in
                guard let error = error as? QueueError else { return false }
                return error.code == .otherVersion && "\(error)".contains("queue export")
            }
            #expect(try files() == before)
        }
        // `doctor` says it also of a store that is too large to be verified.
        #expect {
            try SampleQueue.checkOpens(path: store.path)
        } throws: {
            ($0 as? QueueError)?.code == .otherVersion
        }
        for read in [
            { (path: String) in _ = try SampleQueue.verify(path: path) },
            { (path: String) in _ = try SampleQueue.export(path: path) { _ in } },
        ] {
            #expect {
                try read(store.path)
            } throws: {
                ($0 as? QueueError)?.code == .otherVersion
            }
        }
    }

    /// A log without a commit is deleted by SQLite when its last reader closes it.
    @Test func itsEmptyLogStaysToo() async throws {
        try await leave(.otherTables, isKilled: false)
        try Data(count: 4096).write(to: URL(fileURLWithPath: store.path + "-wal"))
        let before = try files()
        await #expect(throws: QueueError.self) { try await store.open(clock, bootID: "boot-2") }
        #expect(try files() == before)
    }

    /// Its tables are not as they were made: that is no version.
    @Test(arguments: [
        "UPDATE grdb_migrations SET identifier = 'v3'", "DELETE FROM grdb_migrations",
        "PRAGMA user_version = 7",
        """
        PRAGMA writable_schema = ON;
        UPDATE sqlite_master SET sql = replace(sql, 'is_forgotten', 'is_forgottem')
        """,
    ])
    func aDamagedStoreOfThisVersionIsSalvaged(damage: String) async throws {
        let world = try await SalvageWorld(store, clock)
        try await DatabaseQueue(path: store.path).writeWithoutTransaction { db in
            try db.execute(sql: "PRAGMA journal_mode = DELETE;" + damage)
        }
        let queue = try await store.open(clock, bootID: "boot-2")
        let report = try #require(await queue.health().salvage)
        #expect(report.carried == world.rows && report.unknown == 0, "\(report)")
        #expect(try await queue.sensors().count == 3)
        #expect(try await queue.audit().isClean)
    }
}
