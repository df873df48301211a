import Foundation
import Testing

@testable import OfflineQueue

@Suite("A store that is not where it was")
struct MissingStoreTests {
    let store: TestStore
    let clock = ManualClock()

    init() throws { store = try TestStore() }

    private func remove(_ companions: String...) throws {
        for companion in companions { _ = unlink(store.path + companion) }
    }

    @Test func aStoreThatVanishedIsReportedUntilItIsAcknowledged() async throws {
        try await store.open(clock).close()
        try remove("", "-wal", "-shm", ".lock")
        var queue = try await store.open(clock)
        var missing = try #require(await queue.health().missing)
        #expect(missing.detail == "its files are gone" && !missing.isCarried)
        try await queue.close()
        // Not only at the start that met it.
        queue = try await store.open(clock)
        missing = try #require(await queue.health().missing)
        try await queue.acknowledgeSalvages()
        #expect(await queue.health().missing == nil)
        try await queue.close()
        queue = try await store.open(clock)
        #expect(await queue.health().missing == nil)
    }

    @Test func aStoreInThePlaceOfAnotherIsReported() async throws {
        try await store.open(clock).close()
        let other = try TestStore()
        try await other.open(clock).close()
        try remove("")
        try FileManager.default.copyItem(atPath: other.path, toPath: store.path)
        let queue = try await store.open(clock)
        #expect(await queue.health().missing?.detail.contains("another") == true)
    }

    @Test func anOlderCopyOfTheSameStoreIsNotMissing() async throws {
        try await store.open(clock).close()
        let copy = try Data(contentsOf: URL(fileURLWithPath: store.path))
        try await store.open(clock).close()
        try copy.write(to: URL(fileURLWithPath: store.path))
        let queue = try await store.open(clock)
        #expect(await queue.health().missing == nil)
    }

    @Test func tokensWithoutAStoreTellThatOneWasThere() async throws {
        var settings = QueueSettings()
        settings.isStoreExpected = true
        let queue = try await store.open(clock, settings: settings)
        #expect(await queue.health().missing != nil)
    }

    @Test(arguments: [
        ["", "-wal", "-shm"], [""], ["-wal"], ["-shm"], ["", "-wal", "-shm", ".lock"],
    ])
    func whatIsRemovedWhileItRunsIsCarriedIntoNewFiles(companions: [String]) async throws {
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        for bpm in UInt8(0)..<50 { try await queue.beat(worn.assignment, bpm: bpm, clock) }
        try await queue.flush()
        for companion in companions { _ = unlink(store.path + companion) }
        try await queue.beat(worn.assignment, bpm: 99, clock)
        clock.advance(seconds: 6)
        await queue.commitIfDue()
        let missing = try #require(await queue.health().missing)
        #expect(missing.isCarried, "\(missing)")
        #expect(await queue.health().fault == nil)
        try await queue.beat(worn.assignment, bpm: 100, clock)
        // As after a kill: what is at its place has all of it.
        try await queue.flush()
        try await queue.abandon()
        let next = try await store.open(clock, bootID: "boot-2")
        #expect(try await next.balance().stored == 52)
        #expect(await next.health().missing?.isCarried == true)
        #expect(try await next.audit().isClean)
        #expect(try await next.deliverAll(worn.enrollment.id).count == 52)
    }

    @Test func aStoreThatIsReplacedWhileItRunsIsPutBack() async throws {
        let other = try TestStore()
        try await other.open(clock).close()
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        try await queue.beat(worn.assignment, clock)
        try await queue.flush()
        let stranger = try Data(contentsOf: URL(fileURLWithPath: other.path))
        try remove("")
        try stranger.write(to: URL(fileURLWithPath: store.path))
        await queue.commitIfDue()
        #expect(await queue.health().missing?.detail.contains("replaced") == true)
        #expect(try await queue.balance().stored == 1)
        let names = try FileManager.default.contentsOfDirectory(atPath: store.directory.path)
        let broken = try #require(names.first { $0.contains(".broken-") && !$0.hasSuffix("-wal") })
        let kept = store.directory.appendingPathComponent(broken).path
        #expect(FileManager.default.contents(atPath: kept) == stranger)
    }
}

@Suite("Looking at every row")
struct ChecksumWalkTests {
    let store: TestStore
    let clock = ManualClock()

    init() throws { store = try TestStore() }

    private func worn(rows: Int) async throws -> (SampleQueue, Worn) {
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        for number in 0..<rows {
            try await queue.beat(worn.assignment, bpm: UInt8(number % 200), clock)
        }
        try await queue.flush()
        return (queue, worn)
    }

    private func step(_ queue: SampleQueue, _ count: Int) async {
        for _ in 0..<count {
            await queue.checkNextRows()
            clock.advance(seconds: 1)
        }
    }

    @Test func damageIsFoundInTheBackground() async throws {
        var (queue, worn) = try await worn(rows: 450)
        await step(queue, 10)
        #expect(await queue.health().damagedRows == 0)
        try store.execute("UPDATE sample SET frame = x'00FF' WHERE id IN (120, 333)")
        clock.advance(seconds: 61)
        await step(queue, 4)
        #expect(await queue.health().damagedRows == 2)
        // It stays until it is acknowledged; then the same rows are no news.
        try await queue.close()
        queue = try await store.open(clock)
        #expect(await queue.health().damagedRows == 2)
        try await queue.acknowledgeSalvages()
        clock.advance(seconds: 61)
        await step(queue, 10)
        #expect(await queue.health().damagedRows == 0)
        try store.execute("UPDATE sample SET frame = x'00FF' WHERE id = 10")
        clock.advance(seconds: 61)
        await step(queue, 10)
        #expect(await queue.health().damagedRows == 1)
        // Gone with the row.
        try await queue.deliverAll(worn.enrollment.id)
        try await queue.purge(deadLetters: try await queue.deadLetters().map(\.sampleID))
        _ = try await queue.purgeSettled()
        clock.advance(seconds: 61)
        await step(queue, 10)
        #expect(await queue.health().damagedRows == 0)
    }

    /// Under SQLite's feet, in a page that it holds in memory.
    @Test func aByteThatChangesOnTheDiskIsFound() async throws {
        let (queue, worn) = try await worn(rows: 450)
        let frame: [UInt8] = [0, 77, 0xDE, 0xAD, 0xBE, 0xEF]
        try await queue.append(
            Arrival(assignmentID: worn.assignment.id, at: clock.read(), frame: frame))
        try await queue.flush()
        try await queue.emptyLog()
        let file = try Data(contentsOf: URL(fileURLWithPath: store.path))
        let at = try #require(file.range(of: Data(frame)))
        let handle = try FileHandle(forUpdating: URL(fileURLWithPath: store.path))
        try handle.seek(toOffset: UInt64(at.lowerBound + 1))
        try handle.write(contentsOf: Data([78]))
        try handle.close()
        await step(queue, 10)
        #expect(await queue.health().damagedRows == 1)
    }

    @Test func theWalkGoesOnWhereTheLastRunLeftIt() async throws {
        var (queue, _) = try await worn(rows: 1200)
        await step(queue, 2)
        try await queue.close()
        queue = try await store.open(clock)
        try store.execute("UPDATE sample SET frame = x'00FF' WHERE id IN (100, 1100)")
        await step(queue, 2)
        #expect(await queue.health().damagedRows == 1, "1100, and not 100 yet")
    }

    @Test func aBrokenTreeThatTheWalkMeetsIsSalvaged() async throws {
        let (queue, worn) = try await worn(rows: 450)
        try await queue.emptyLog()
        let handle = try FileHandle(forUpdating: URL(fileURLWithPath: store.path))
        let pages = try store.number("PRAGMA page_count")
        // Leaves of samples are the most there is.
        for page in [pages / 2, pages / 2 + 1] {
            try handle.seek(toOffset: UInt64(page) * 1024)
            try handle.write(contentsOf: Data(repeating: 0xA5, count: 8))
        }
        try handle.close()
        await step(queue, 10)
        await queue.commitIfDue()
        #expect(await queue.health().salvage != nil)
        #expect(try await queue.audit().isClean)
        try await queue.beat(worn.assignment, clock)
        try await queue.flush()
    }
}
