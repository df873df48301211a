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
        let broken = try #require(
            names.first {
                $0.contains(".broken-") && !$0.hasSuffix("-wal") && !$0.hasSuffix("-shm")
            })
        let kept = store.directory.appendingPathComponent(broken).path
        #expect(FileManager.default.contents(atPath: kept) == stranger)
    }
}
