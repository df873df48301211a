import Basics
import Foundation
import GRDB
import Synchronization
import Testing

@testable import OfflineQueue

@Suite("A store that does not do as it should")
struct StoreFaultTests {
    let store: TestStore
    let clock = ManualClock()

    init() throws { store = try TestStore() }

    /// SQLite quotes the names of a broken schema, and a file's names are anybody's: the log had a line as long as
    /// the name.
    @Test func whatSQLiteSaysOfABrokenSchemaIsOneShortPrintableLine() async throws {
        try await store.open(clock).close()
        let database = try DatabaseQueue(path: store.path)
        try await database.writeWithoutTransaction { db in
            try db.execute(sql: "PRAGMA writable_schema = ON")
            try db.execute(
                sql:
                    "UPDATE sqlite_master SET name = ?, sql = 'CREATE nonsense' WHERE name = 'gap'",
                arguments: ["\u{1B}[2J\n\u{202E}" + String(repeating: "x", count: 5_000)])
        }
        try database.close()
        let met = #expect(throws: DatabaseError.self) {
            try DatabaseQueue(path: store.path).read { try $0.execute(sql: "SELECT * FROM gap") }
        }
        let cause = QueueError("open store", try #require(met)).cause
        #expect(cause.contains("malformed database schema"))
        #expect(cause.count < 250 && cause.hasSuffix("…"))
        #expect(!cause.unicodeScalars.contains { $0.value < 0x20 || $0 == "\u{202E}" })
    }

    @Test func theFilesAreForTheirOwnerOnly() async throws {
        let isMade = FileManager.default.createFile(
            atPath: store.path, contents: nil, attributes: [.posixPermissions: 0o644])
        #expect(isMade)
        let queue = try await store.open(clock)
        _ = try await Worn(queue)
        let files = try FileManager.default.contentsOfDirectory(atPath: store.directory.path)
        #expect(files.count == 6)
        for file in files {
            let path = store.directory.appendingPathComponent(file).path
            let attributes = try FileManager.default.attributesOfItem(atPath: path)
            #expect((attributes[.posixPermissions] as? NSNumber)?.intValue == 0o600, "\(file)")
        }
    }

    @Test func theFileIsSetUpForACard() async throws {
        let queue = try await store.open(clock)
        _ = try await Worn(queue)
        #expect(try store.number("PRAGMA page_size") == 512)
        let settings = try await queue.pragmas()
        #expect(
            settings == ["journal_mode": "wal", "synchronous": "2", "wal_autocheckpoint": "2048"])
    }

    /// A full disk refuses the last bytes of the commit, and it counts when the store is opened again: each further
    /// attempt failed by the run's nonce until the gateway was started anew.
    @Test func aRunThatBeganThoughItsCommitFailedGoesOn() async throws {
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        try await queue.beat(worn.assignment, clock)
        try await queue.close()
        clock.advance(seconds: 60)
        let reading = clock.read()
        let nonce = SampleIdentity.newNonce()
        let database = try DatabaseQueue(path: store.path)
        func begin() throws -> (start: RunStart, gaps: Int) {
            try database.write { db in
                let start = try RunStart(db, bootID: "boot-2", nonce: nonce, reading: reading)
                return (start, try Int.fetchOne(db, sql: "SELECT count(*) FROM gap") ?? 0)
            }
        }
        let first = try begin()
        let second = try begin()
        #expect(second.start.run == first.start.run)
        #expect(second.start.nextSample == first.start.nextSample)
        #expect(Set(second.start.ledgers.keys) == [worn.assignment.id])
        #expect(second.gaps == first.gaps && first.gaps == 1, "the gateway was off")
        try database.close()
        #expect(try await store.open(clock, bootID: "boot-2").audit().isClean)
    }

    @Test func aSecondOpenerIsRefusedUntilTheFirstLetsGo() async throws {
        let first = try await store.open(clock)
        await #expect { try await store.open(clock, patience: .zero) } throws: {
            ($0 as? QueueError)?.code == .inUse
        }
        try await first.close()
        let second = try await store.open(clock)
        await #expect { try await first.balance() } throws: {
            ($0 as? QueueError)?.code == .closed
        }
        try await second.close()
    }

    /// A refused opener closed its lock file twice; the second time, the number could be that of another
    /// thread's file, as of a database.
    @Test func aRefusedOpenerClosesNoFileOfAnother() async throws {
        let first = try StoreLock(store.path)
        let lost = Mutex(0)
        let isEnded = Mutex(false)
        let opener = Thread {
            while !isEnded.withLock({ $0 }) {
                let file = open("/dev/null", O_RDONLY | O_CLOEXEC)
                if fcntl(file, F_GETFD) < 0 { lost.withLock { $0 += 1 } }
                close(file)
            }
        }
        opener.start()
        for _ in 0..<20_000 {
            #expect(throws: QueueError.self) { try StoreLock(store.path) }
        }
        isEnded.withLock { $0 = true }
        withExtendedLifetime(first) {}
        #expect(lost.withLock { $0 } == 0)
    }

    @Test func aMissingDirectoryIsSaidPlainly() {
        #expect {
            try SampleQueue(path: store.path + "/none/queue", clock: clock, bootID: "b")
        } throws: {
            ($0 as? QueueError)?.code == .cannotOpen
        }
    }

    @Test func everyErrorSaysWhatItMeansAndWhatToDo() {
        for code in QueueError.Code.allCases {
            let text = QueueError(code, "commit samples", "cause").description
            #expect(text.hasPrefix("commit samples: cause (\(code.rawValue)). "))
            #expect(code.advice.split(separator: ".").count >= 2, "effect on the data, and remedy")
        }
    }

    @Test func aFullStoreKeepsTheBufferAndCountsWhatItCannotTake() async throws {
        var settings = QueueSettings()
        settings.pageCountMax = 140
        settings.bufferedSamplesMax = 300
        let queue = try await store.open(clock, settings: settings)
        let worn = try await Worn(queue)
        var sent = 0
        while await queue.health().refused < 100 {
            try await queue.beat(worn.assignment, bpm: UInt8(sent % 200), clock)
            sent += 1
            clock.advance(seconds: 1)
            try #require(sent < 10_000)
        }
        var health = await queue.health()
        #expect(health.fault?.code == .diskFull && health.buffered == 300)
        await #expect { try await queue.flush() } throws: {
            ($0 as? QueueError)?.code == .diskFull
        }
        let stored = try await queue.balance().stored
        #expect(stored == sent - 400 && stored > 0)
        #expect(try await queue.audit().isClean)

        // Delivering and pruning makes room inside the file; nothing but the refused is missing. The row of one
        // upload finds room.
        let first = try await queue.deliverAll(worn.enrollment.id, limit: sent)
        clock.advance(seconds: 3 * 86_400)
        try await queue.prune()
        try await queue.flush()
        health = await queue.health()
        #expect(health.fault == nil && health.buffered == 0 && health.refused == 100)
        let balance = try await queue.balance()
        #expect(balance.received == sent && balance.stored == sent - 100 && balance.isBalanced)
        #expect(balance.refused == [LossReason.storeUnwritable.rawValue: 100])
        #expect(try await queue.audit().isClean)
        let second = try await queue.deliverAll(worn.enrollment.id)
        let frames: [UInt8] = (first + second).map { $0.frame[1] }
        let expected: [UInt8] = (0..<(sent - 100)).map { UInt8($0 % 200) }
        #expect(frames == expected)
    }

    @Test(.enabled(if: SmallDisk.isPossible, "needs the right to mount a tmpfs"))
    func aFullFileSystemLosesNothingThatIsInMemory() async throws {
        let disk = try SmallDisk(at: store.directory, kibibytes: 400)
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        try await queue.beat(worn.assignment, bpm: 1, clock)
        try await queue.flush()
        try disk.fill()
        var sent = 1
        while await queue.health().fault == nil {
            sent += 1
            try await queue.beat(worn.assignment, bpm: UInt8(sent % 200), clock)
            clock.advance(seconds: 1)
            try #require(sent < 20_000)
        }
        #expect(await queue.health().fault?.code == .diskFull)
        for _ in 0..<1_000 {
            sent += 1
            try await queue.beat(worn.assignment, bpm: UInt8(sent % 200), clock)
        }
        #expect(try await queue.audit().isClean)
        // What is stored can still be read; a delivery that cannot write its progress gets an error.
        let batch = try await queue.nextBatch(enrollment: worn.enrollment.id, limit: 1)
        #expect(batch.count == 1)
        disk.makeRoom()
        clock.advance(seconds: 5)
        await queue.commitIfDue()
        #expect(await queue.health().fault == nil)
        let balance = try await queue.balance()
        #expect(balance.stored == sent && balance.refused.isEmpty && balance.isBalanced)
        let frames: [UInt8] = try await queue.deliverAll(worn.enrollment.id).map { $0.frame[1] }
        let expected: [UInt8] = (1...sent).map { UInt8($0 % 200) }
        #expect(frames == expected)
        #expect(try await queue.audit().isClean)
        try await queue.close()
    }

    @Test(.enabled(if: SmallDisk.isPossible, "needs the right to mount a tmpfs"))
    func aCardThatTurnsReadOnlyIsReported() async throws {
        let disk = try SmallDisk(at: store.directory, kibibytes: 2_000)
        try await store.open(clock).close()
        try disk.remountReadOnly()
        await #expect { try await store.open(clock) } throws: {
            ($0 as? QueueError)?.code == .readOnly
        }
    }

    @Test func damageInThePagesIsAnErrorAndNoTrap() async throws {
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        for _ in 0..<600 { try await queue.beat(worn.assignment, clock) }
        try await queue.close()
        var generator = SeededRandom(seed: 7)
        let good = try Data(contentsOf: URL(fileURLWithPath: store.path))
        for _ in 0..<40 {
            var bad = good
            let page = Int.random(in: 1..<(good.count / 512), using: &generator) * 512
            for offset in page..<(page + 512) {
                bad[offset] = .random(in: 0...255, using: &generator)
            }
            try bad.write(to: URL(fileURLWithPath: store.path))
            do {
                let queue = try await store.open(clock)
                _ = try await queue.audit()
                try await queue.deliverAll(worn.enrollment.id)
                try await queue.abandon()
            } catch let error as QueueError {
                #expect(error.code == .corrupt || error.code == .internalFault, "\(error)")
            }
            for suffix in ["-wal", "-shm"] {
                try? FileManager.default.removeItem(atPath: store.path + suffix)
            }
        }
    }
}

extension SampleQueue {
    /// What SQLite says of this very connection.
    func pragmas() throws -> [String: String] {
        try store.database.read { db in
            var values: [String: String] = [:]
            for name in ["journal_mode", "synchronous", "wal_autocheckpoint"] {
                values[name] = try String.fetchOne(db, sql: "PRAGMA \(name)")
            }
            return values
        }
    }
}

/// A file system of a few hundred kilobytes, mounted over a directory.
final class SmallDisk: Sendable {
    private let directory: URL
    private var filler: URL { directory.appendingPathComponent("filler") }

    static let isPossible: Bool = {
        guard let store = try? TestStore() else { return false }
        return (try? SmallDisk(at: store.directory, kibibytes: 64)) != nil
    }()

    init(at directory: URL, kibibytes: Int, inodes: Int = 1_000) throws {
        self.directory = directory
        let options = "size=\(kibibytes)k,nr_inodes=\(inodes)"
        guard mount("tmpfs", directory.path, "tmpfs", 0, options) == 0 else {
            throw POSIXError(.EPERM)
        }
    }

    deinit { umount2(directory.path, Int32(MNT_DETACH)) }

    /// Leaves one page of 4 KiB free.
    func fill() throws {
        try Data().write(to: filler)
        let handle = try FileHandle(forWritingTo: filler)
        var size: UInt64 = 0
        while (try? handle.write(contentsOf: Data(count: 4096))) != nil { size += 4096 }
        try handle.truncate(atOffset: size - 4096)
        try handle.close()
    }

    /// Leaves nothing free.
    func fillWhole() throws {
        try fill()
        let handle = try FileHandle(forWritingTo: filler)
        try handle.seekToEnd()
        while (try? handle.write(contentsOf: Data(count: 512))) != nil {}
        try handle.close()
    }

    /// Leaves no inode free.
    func takeInodes() throws {
        var number = 0
        while FileManager.default.createFile(
            atPath: directory.appendingPathComponent("inode-\(number)").path, contents: nil)
        {
            number += 1
        }
    }

    func giveInodes() {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: directory.path)) ?? []
        for name in names where name.hasPrefix("inode-") {
            unlink(directory.appendingPathComponent(name).path)
        }
    }

    /// The filler is emptied first: a child that another test starts may have inherited it, and would keep
    /// its bytes.
    func makeRoom() {
        truncate(filler.path, 0)
        try? FileManager.default.removeItem(at: filler)
    }

    func remountReadOnly() throws { try remount(UInt(MS_REMOUNT | MS_RDONLY)) }

    func remountWritable() throws { try remount(UInt(MS_REMOUNT)) }

    private func remount(_ flags: UInt) throws {
        guard mount("tmpfs", directory.path, "tmpfs", flags, nil) == 0 else {
            throw POSIXError(.EPERM)
        }
    }
}
