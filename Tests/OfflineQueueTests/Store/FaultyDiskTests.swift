import Basics
import FaultyDisk
import Foundation
import Testing

@testable import OfflineQueue

/// A disk that fails on purpose below one directory, through SQLite's own interface to files.
final class BadDisk: Sendable {
    private static let isRegistered = faulty_disk_register() == 0
    private let handle: Int32

    init(_ directory: URL, seed: UInt64) throws {
        try #require(Self.isRegistered)
        handle = faulty_disk_arm(directory.path, seed)
        try #require(handle >= 0)
    }

    deinit { faulty_disk_disarm(handle) }

    func fail(_ faults: Int, perThousand: Int32 = 0) {
        faulty_disk_set(handle, Int32(faults), perThousand)
    }

    /// After so many changes every one fails.
    func fail(_ fault: Int, after changes: Int) {
        faulty_disk_fail_after(handle, Int32(fault), Int64(changes))
    }

    /// Only new databases can be opened.
    func refuseOpening(_ isRefused: Bool) { faulty_disk_refuse_opening(handle, isRefused ? 1 : 0) }

    var failures: Int64 { faulty_disk_failures(handle) }
}

@Suite("A disk that fails now and then")
struct FaultyDiskTests {
    /// Seeds that always run; one that ever failed is added here. `OFFLINE_QUEUE_DISK=n` replays one,
    /// `OFFLINE_QUEUE_DISK_COUNT=n` tries n of them.
    static let seeds: [UInt64] = {
        let environment = ProcessInfo.processInfo.environment
        if let seed = environment["OFFLINE_QUEUE_DISK"].flatMap(UInt64.init) { return [seed] }
        if let count = environment["OFFLINE_QUEUE_DISK_COUNT"].flatMap(Int.init) {
            return (0..<count).map { _ in .random(in: 0 ... .max) }
        }
        // In the third and fourth, frames of a change that was refused lie behind those of the next one, which was refused
        // too; in the fifth, an outcome counts though its commit failed.
        let failed: [UInt64] = [
            288_722_214_770_459_169, 3_954_638_480_211_288_314, 16_881_638_037_768_494_511,
            2_297_986_641_928_205_769, 7_381_007_969_273_508_340,
        ]
        return failed + [1, 2, 3, .random(in: 0 ... .max)]
    }()

    /// Whatever fails: no crash, no broken store, what was acknowledged stays, and once the disk does
    /// again everything that was taken is there, each frame once.
    @Test(arguments: seeds)
    func losesNothingThatWasTaken(seed: UInt64) async throws {
        print("faulty disk: OFFLINE_QUEUE_DISK=\(seed)")
        let store = try TestStore()
        let clock = ManualClock()
        let disk = try BadDisk(store.directory, seed: seed)
        var random = SeededRandom(seed: seed)
        var queue = try await store.open(clock)
        let worn = try await Worn(queue)
        let delivery = worn.enrollment.id
        var counter = 0
        var taken: [Int] = []
        var delivered: [Int] = []
        // Outcomes that the disk refused; they count if it refused the last bytes of their commit alone.
        var unsure: Set<Int> = []
        func number(_ sample: PendingSample) -> Int {
            Int(sample.frame[1]) | Int(sample.frame[2]) << 8
        }

        for step in 0..<120 {
            let faults = [0, FAULTY_DISK_FULL, FAULTY_DISK_IO, FAULTY_DISK_FULL | FAULTY_DISK_IO]
            let chance = Int32([0, 5, 30, 300].randomElement(using: &random) ?? 0)
            if step % 10 == 9 {
                disk.fail(FAULTY_DISK_READ_ONLY)
            } else {
                disk.fail(faults.randomElement(using: &random) ?? 0, perThousand: chance)
            }
            for _ in 0..<Int.random(in: 1...80, using: &random) {
                let bytes = [0, UInt8(counter & 0xFF), UInt8(counter >> 8)]
                try await queue.append(
                    Arrival(sensorID: worn.assignment.sensorID, at: clock.read(), frame: bytes))
                taken.append(counter)
                counter += 1
                clock.advance(seconds: 0.2)
            }
            await queue.commitIfDue()
            if Bool.random(using: &random),
                let batch = try? await queue.nextBatch(
                    enrollment: delivery, limit: 50)
            {
                do {
                    try await queue.settle(
                        enrollment: delivery, batch.map { SettledSample($0, .delivered) })
                    delivered += batch.map(number)
                } catch {
                    unsure.formUnion(batch.map(number))
                }
            }
            if Int.random(in: 0..<8, using: &random) == 0 { _ = try? await queue.prune() }
            if Int.random(in: 0..<15, using: &random) == 0 {
                // A restart, orderly if the disk allows it.
                disk.fail(0)
                let isAcknowledged = (try? await queue.flush()) != nil
                #expect(isAcknowledged, "seed \(seed), step \(step)")
                disk.fail(FAULTY_DISK_IO, perThousand: chance)
                try? await queue.close()
                try await queue.abandon()
                if (try? SampleQueue(path: store.path, clock: clock, bootID: "boot-1")) == nil {
                    disk.fail(0)
                }
                disk.fail(0)
                queue = try await store.open(clock)
            }
        }
        disk.fail(0)
        clock.advance(seconds: 10)
        await queue.commitIfDue()
        let health = await queue.health()
        #expect(health.fault == nil && health.buffered == 0 && health.refused == 0)
        #expect(health.salvage == nil, "a fault of the disk is no damage")
        delivered += try await queue.deliverAll(delivery).map(number)
        let missing = Set(taken).subtracting(delivered)
        #expect(missing.isSubset(of: unsure), "seed \(seed)")
        #expect(delivered == taken.filter { !missing.contains($0) }, "seed \(seed)")
        #expect(disk.failures > 50)
        let balance = try await queue.balance()
        #expect(balance.stored == taken.count && balance.isBalanced)
        #expect(try await queue.audit().isClean)
        #expect(try SampleQueue.verify(path: store.path).isClean)
    }

    @Test func aDiskThatFailsForLongIsToldOfByName() async throws {
        let store = try TestStore()
        let clock = ManualClock()
        let disk = try BadDisk(store.directory, seed: 1)
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        for (faults, codes) in [
            (FAULTY_DISK_FULL, [QueueError.Code.diskFull]), (FAULTY_DISK_IO, [.inputOutput]),
            (FAULTY_DISK_READ_ONLY, [.readOnly, .inputOutput]),
        ] {
            disk.fail(faults, perThousand: 1_000)
            try await queue.beat(worn.assignment, clock)
            clock.advance(seconds: 6)
            await queue.commitIfDue()
            let code = try #require(await queue.health().fault?.code)
            #expect(codes.contains(code))
            disk.fail(0)
            clock.advance(seconds: 6)
            await queue.commitIfDue()
            #expect(await queue.health().fault == nil)
        }
        #expect(try await queue.balance().stored == 3)
    }
}
