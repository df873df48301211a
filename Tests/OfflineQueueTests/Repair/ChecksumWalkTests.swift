import FaultyDisk
import Foundation
import Testing

@testable import OfflineQueue

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
            Arrival(sensorID: worn.assignment.sensorID, at: clock.read(), frame: frame))
        try await queue.flush()
        try await queue.emptyLog()
        let file = try Data(contentsOf: URL(fileURLWithPath: store.path))
        let at = try #require(file.range(of: Data(frame)))
        try store.unnoticed {
            let handle = try FileHandle(forUpdating: URL(fileURLWithPath: store.path))
            try handle.seek(toOffset: UInt64(at.lowerBound + 1))
            try handle.write(contentsOf: Data([78]))
            try handle.close()
        }
        await step(queue, 10)
        #expect(await queue.health().damagedRows == 1)
    }

    /// The next look came after a minute, and by then the fault counted as a new one: nobody was ever told.
    @Test func tablesThatTheDiskDoesNotLetBeReadAreDamageAfterFiveMinutes() async throws {
        let disk = try BadDisk(store.directory, seed: 1)
        let (queue, _) = try await worn(rows: 50)
        while await !queue.repair.walk.isAtEnd { await step(queue, 1) }
        disk.fail(FAULTY_DISK_IO, perThousand: 1_000)
        await step(queue, 290)
        #expect(await queue.repair.damage == nil, "it may recover")
        await step(queue, 20)
        #expect(await queue.repair.damage?.code == .inputOutput)
        disk.fail(0)
    }

    /// SQLite says nothing of rows behind the count of their page. They waited for ever, and no delivery got them.
    @Test func rowsThatSQLitePassesOverAreMissedAndSaved() async throws {
        let (queue, worn) = try await worn(rows: 450)
        try await queue.emptyLog()
        let rows = try store.number("SELECT count(*) FROM sample")
        let page = try store.number(
            "SELECT pageno FROM dbstat WHERE name = 'sample' AND pagetype = 'leaf' LIMIT 1 OFFSET 3"
        )
        let offset = UInt64((page - 1) * (try store.pageBytes()) + 4)
        try store.unnoticed {
            let handle = try FileHandle(forUpdating: URL(fileURLWithPath: store.path))
            try handle.seek(toOffset: offset)
            let count = try #require(try handle.read(upToCount: 1)?.first)
            try handle.seek(toOffset: offset)
            try handle.write(contentsOf: Data([count - 1]))
            try handle.close()
        }
        #expect(try store.number("SELECT count(*) FROM sample") == rows - 1)
        await step(queue, 10)
        #expect(await queue.health().damagedRows == 0)
        await queue.commitIfDue()
        await queue.saveIfDue(uptime: clock.read().uptime)
        let report = try #require(await queue.health().salvage)
        #expect(report.carried == rows && report.unknown == 0, "\(report)")
        #expect(try await queue.audit().isClean)
        #expect(try await queue.balance(of: .enrollment(worn.enrollment.id)).pending == rows)
    }

    /// Rows that go while the walk is under way are not missed.
    @Test func whatIsDeliveredAndPrunedBehindTheWalkIsNotMissed() async throws {
        let (queue, worn) = try await worn(rows: 1200)
        await step(queue, 2)
        try await queue.deliverAll(worn.enrollment.id)
        _ = try await queue.purgeSettled()
        for _ in 0..<20 { try await queue.beat(worn.assignment, clock) }
        try await queue.flush()
        await step(queue, 200)
        await queue.commitIfDue()
        #expect(await queue.health().salvage == nil)
        #expect(try await queue.audit().isClean)
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
        let pages = try store.number("PRAGMA page_count")
        let pageBytes = try store.pageBytes()
        try store.unnoticed {
            let handle = try FileHandle(forUpdating: URL(fileURLWithPath: store.path))
            // Leaves of samples are the most there is.
            for page in [pages / 2, pages / 2 + 1] {
                try handle.seek(toOffset: UInt64(page * pageBytes))
                try handle.write(contentsOf: Data(repeating: 0xA5, count: 8))
            }
            try handle.close()
        }
        await step(queue, 10)
        await queue.commitIfDue()
        #expect(await queue.health().salvage != nil)
        #expect(try await queue.audit().isClean)
        try await queue.beat(worn.assignment, clock)
        try await queue.flush()
    }
}
