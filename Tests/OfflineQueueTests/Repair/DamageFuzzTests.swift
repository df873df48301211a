import Basics
import Foundation
import GRDB
import Testing

@testable import OfflineQueue

@Suite("Any damage to a store")
struct DamageFuzzTests {
    /// Seeds that always run; one that ever failed is added here. `OFFLINE_QUEUE_DAMAGE=n` replays one,
    /// `OFFLINE_QUEUE_DAMAGE_COUNT=n` tries n of them.
    static let seeds: [UInt64] = {
        let environment = ProcessInfo.processInfo.environment
        if let seed = environment["OFFLINE_QUEUE_DAMAGE"].flatMap(UInt64.init) { return [seed] }
        let count = environment["OFFLINE_QUEUE_DAMAGE_COUNT"].flatMap(Int.init) ?? 30
        return Array(1...30) + (0..<max(0, count - 30)).map { _ in .random(in: 100 ... .max) }
    }()

    /// The damaged store opens, whatever comes out of it went in, and it takes new samples.
    @Test func neverTrapsNorInventsASample() async throws {
        let store = try TestStore()
        let clock = ManualClock()
        let world = try await SalvageWorld(store, clock)
        let base = try await Copy(store, world, clock)
        for seed in Self.seeds {
            do {
                try await Self.tryOne(seed, base, world)
            } catch {
                Issue.record("OFFLINE_QUEUE_DAMAGE=\(seed): \(error)")
            }
        }
    }

    /// A page of rows that is noise otherwise, or a piece of one, with noise where longer rows go on.
    @Test func noPageAndNoPieceOfOneTraps() {
        var random = SeededRandom(seed: 5)
        let noise = (0..<8_192).map { _ in UInt8.random(in: 0...255, using: &random) }
        var followed = 0
        for round in 0..<20_000 {
            let size = round % 2 == 0 ? 512 : Int.random(in: 0...600, using: &random)
            let start = Int.random(in: 0..<(noise.count - size), using: &random)
            var page = Array(noise[start..<(start + size)])
            // Pointers into the page.
            let high = (0..<7).map { (8 + 2 * $0, $0 % 2) }
            for (at, byte) in [(0, 0x0D), (3, 0), (4, round % 7)] + high where at < page.count {
                page[at] = UInt8(byte)
            }
            _ = PageCarver.rows(of: page, isFirst: false) { number, count in
                followed += 1
                return number % 5 == 0 ? nil : Array(noise.prefix(count))
            }
            if round % 50 == 0 {
                for count in 1...20 { _ = PageCarver.candidates(in: page, values: count) }
            }
        }
        #expect(followed > 0)
    }

    /// The bytes of a store as a power cut leaves it: file and log.
    struct Copy {
        let file: [UInt8]
        let log: [UInt8]
        let known: [String: PendingSample]

        init(_ store: TestStore, _ world: SalvageWorld, _ clock: ManualClock) async throws {
            // A seed repeats the damage; nonces and checksums are others each time.
            let queue = try await store.open(clock, bootID: "boot-1")
            try await queue.emptyLog()
            for bpm in UInt8(0)..<60 {
                for worn in world.worn { try await queue.beat(worn.assignment, bpm: bpm, clock) }
            }
            try await queue.flush()
            file = [UInt8](try Data(contentsOf: URL(fileURLWithPath: store.path)))
            // Not the zeros behind it, which damage would mostly hit.
            let bytes = [UInt8](try Data(contentsOf: URL(fileURLWithPath: store.path + "-wal")))
            log = Array(bytes[...(bytes.lastIndex { $0 != 0 } ?? 0)])
            var known: [String: PendingSample] = [:]
            for worn in world.worn {
                for sample in try await queue.nextBatch(
                    enrollment: worn.enrollment.id, limit: 1_000)
                {
                    known[sample.uuid] = sample
                }
            }
            self.known = known
            try await queue.abandon()
        }
    }

    private static func tryOne(_ seed: UInt64, _ base: Copy, _ world: SalvageWorld) async throws {
        var random = SeededRandom(seed: seed)
        let store = try TestStore()
        let clock = ManualClock()
        clock.advance(seconds: 100_000)
        var (file, log) = (base.file, base.log)
        var isSubtle = false
        for _ in 0..<Int.random(in: 1...3, using: &random) {
            let isLog = Int.random(in: 0..<4, using: &random) == 0
            let kind = Int.random(in: 0..<5, using: &random)
            if kind == 0 { isSubtle = true }
            let size = StoreFile.newPageBytes
            if isLog {
                damage(&log, kind, size, &random)
            } else {
                damage(&file, kind, size, &random)
            }
        }
        try Data(file).write(to: URL(fileURLWithPath: store.path))
        try Data(log).write(to: URL(fileURLWithPath: store.path + "-wal"))

        _ = try SampleQueue.verify(path: store.path)
        let queue = try await store.open(clock, bootID: "boot-2")
        var sent: [PendingSample] = []
        func pair() async throws -> Assignment {
            let sensor = try await queue.addSensor(address: "A0:9E:1A:00:00:0F")
            return try await queue.assign(sensor: sensor.id, enrollment: nil)
        }
        let assignment: Assignment
        do {
            assignment = try await pair()
        } catch let error as QueueError where error.code == .corrupt {
            await queue.commitIfDue()
            assignment = try await pair()
        }
        for round in 0..<4 {
            for worn in world.worn {
                sent += (try? await queue.deliverAll(worn.enrollment.id)) ?? []
            }
            try await queue.beat(assignment, bpm: UInt8(round), clock)
            try? await queue.flush()
            clock.advance(seconds: 700)
            await queue.commitIfDue()
        }
        for sample in sent {
            guard let original = base.known[sample.uuid] else {
                #expect(isSubtle, "seed \(seed): sample \(sample.uuid) was made up")
                continue
            }
            #expect(sample.frame == original.frame, "seed \(seed)")
            // Who and when stand in rows without a checksum: a single bit there can pass for true.
            if !isSubtle {
                #expect(
                    sample.patient == original.patient,
                    "seed \(seed): sample \(sample.uuid)")
                #expect(sample.time == original.time, "seed \(seed)")
            }
        }
        // A table that was not read yet.
        if (try? await queue.balance()) == nil {
            clock.advance(seconds: 700)
            await queue.commitIfDue()
        }
        let health = await queue.health()
        #expect(health.buffered == 0 && health.fault == nil, "seed \(seed): \(health)")
        let isBalanced = try await queue.balance().isBalanced
        #expect(isBalanced || isSubtle, "seed \(seed)")
        let stored = try await queue.balance(of: .assignment(assignment.id)).stored
        #expect(stored == 4 || isSubtle, "seed \(seed): \(stored)")
        if health.salvage != nil, !isSubtle {
            let audit = try await queue.audit()
            #expect(audit.isClean, "seed \(seed): \(audit)")
        }
    }

    private static func damage(
        _ bytes: inout [UInt8], _ kind: Int, _ size: Int, _ random: inout SeededRandom
    ) {
        guard bytes.count > 2_048 else { return }
        let page = Int.random(in: 0..<(bytes.count / size), using: &random) * size
        switch kind {
        case 0:
            for _ in 0..<Int.random(in: 1...8, using: &random) {
                let at = Int.random(in: 0..<bytes.count, using: &random)
                bytes[at] ^= 1 << UInt8.random(in: 0..<8, using: &random)
            }
        case 1: for at in page..<(page + size) { bytes[at] = 0 }
        case 2:
            for at in page..<(page + size / 2) { bytes[at] = .random(in: 0...255, using: &random) }
        case 3:
            let other = Int.random(in: 0..<(bytes.count / size), using: &random) * size
            bytes.replaceSubrange(page..<(page + size), with: Array(bytes[other..<(other + size)]))
        default: bytes.removeLast(Int.random(in: 1..<(bytes.count / 4), using: &random))
        }
    }
}
