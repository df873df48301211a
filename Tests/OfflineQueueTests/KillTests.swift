import Foundation
import Testing

@testable import OfflineQueue

@Suite("A writer killed with kill -9")
struct KillTests {
    /// A child process appends, settles and prunes as fast as it can, and after each step notes in a
    /// second file what it was told is durable; a thread of its own kills it in the middle.
    @Test func whatWasAcknowledgedIsThere() async throws {
        let store = try TestStore()
        let clock = ManualClock()
        let first = try await store.open(clock)
        let lane = try await Worn(first).enrollment.id
        try await first.close()
        var stored = 0
        var delivered = 0

        for round in 0..<6 {
            await #expect(processExitsWith: .signal(SIGKILL)) {
                [path = store.path as String, round = round as Int] in
                try await KillTests.writeUntilKilled(path, round: round)
            }
            let acknowledged = try Acknowledged.read(store.path)
            clock.advance(seconds: Self.roundSeconds)
            let queue = try await store.open(clock, bootID: "parent-\(round)")
            let balance = try await queue.balance()
            // Committed by chance just before the note of it: at most one step more.
            #expect(acknowledged.stored >= 0 && acknowledged.delivered >= 0)
            #expect(balance.stored >= stored + acknowledged.stored)
            #expect(balance.stored <= stored + acknowledged.stored + Self.stepSamples)
            #expect(balance.delivered >= delivered + acknowledged.delivered)
            #expect(balance.delivered <= delivered + acknowledged.delivered + Self.stepSamples)
            #expect(balance.isBalanced)
            #expect(try await queue.audit().isClean)
            try await Self.expectTiles(queue, store, steps: balance.stored - stored)
            stored = balance.stored
            delivered = balance.delivered
            let next = try await queue.nextBatch(enrollment: lane, limit: 1000)
            #expect(next.map(\.id) == next.map(\.id).sorted())
            try await queue.close()
        }
        #expect(stored > 0 && delivered > 0)
    }

    static let stepSamples = 20
    /// From one round to the next; the child writes in the middle.
    static let roundSeconds = 86_400.0

    /// Gaps follow one another, hold no sample, and what the last run left is explained.
    static func expectTiles(_ queue: SampleQueue, _ store: TestStore, steps samples: Int)
        async throws
    {
        let gaps = try await queue.gaps(limit: 1_000_000)
        for (gap, next) in zip(gaps, gaps.dropFirst()) where gap.untilBootID == next.fromBootID {
            #expect(gap.untilUptimeMicroseconds <= next.fromUptimeMicroseconds)
        }
        #expect(gaps.last?.cause == .gatewayOff && gaps.last?.isOpen == false)
        #expect(
            try store.number(
                """
                SELECT count(*) FROM sample p JOIN segment s ON s.id = p.segment
                JOIN run r ON r.id = s.run
                JOIN gap g ON g.assignment = s.assignment AND g.from_boot = r.boot
                WHERE p.uptime_us > g.from_uptime_us
                    AND p.uptime_us < iif(g.until_boot = r.boot, g.until_uptime_us, 1 << 62)
                    AND r.id = (SELECT max(id) - 1 FROM run)
                """) == 0)
        // A pause before each step; its gap is stored with the samples after it.
        let pauses = try store.number(
            """
            SELECT count(*) FROM gap WHERE cause = 'link-lost'
                AND from_boot = (SELECT boot FROM run ORDER BY id DESC LIMIT 1 OFFSET 1)
            """)
        #expect(pauses == samples / stepSamples)
    }

    /// Runs in the child.
    static func writeUntilKilled(_ path: String, round: Int) async throws {
        let clock = ManualClock()
        clock.advance(seconds: (Double(round) + 0.5) * roundSeconds)
        var settings = QueueSettings()
        settings.keepDeliveredMicroseconds = 1_000_000
        let queue = try SampleQueue(
            path: path, settings: settings, clock: clock,
            bootID: "child-\(round)")
        guard let assignment = try await queue.openAssignments().first,
            let lane = assignment.enrollmentID
        else { return }
        var acknowledged = Acknowledged(stored: 0, delivered: 0)
        try acknowledged.write(path)
        while true {
            // From the second round of the loop on, so that on any machine something was done.
            if acknowledged.stored == stepSamples {
                Thread.detachNewThread {
                    usleep(UInt32(5 + round * 20) * 1_000)
                    kill(getpid(), SIGKILL)
                }
            }
            await queue.note(.linkLost, of: assignment.id, at: clock.read().uptimeMicroseconds)
            clock.advance(seconds: 5)
            for bpm in 0..<UInt8(stepSamples) {
                try await queue.beat(assignment, bpm: bpm, clock)
                clock.advance(seconds: 0.1)
            }
            try await queue.flush()
            acknowledged.stored += stepSamples
            try acknowledged.write(path)
            let batch = try await queue.nextBatch(enrollment: lane, limit: stepSamples / 2)
            try await queue.settle(
                enrollment: lane, batch.map { SettledSample($0, .delivered) },
                upload: UploadRecord(batch, outcome: "delivered"))
            acknowledged.delivered += batch.count
            try acknowledged.write(path)
            try await queue.prune()
        }
    }
}

/// What the child was told is durable. Two numbers in sixteen bytes, written by one pwrite(2): a
/// killed process leaves the old or the new ones.
private struct Acknowledged {
    var stored: Int
    var delivered: Int

    func write(_ path: String) throws {
        let descriptor = open(path + ".acknowledged", O_RDWR | O_CREAT, 0o600)
        defer { close(descriptor) }
        var numbers = (stored, delivered)
        let count = withUnsafeBytes(of: &numbers) {
            pwrite(descriptor, $0.baseAddress, $0.count, 0)
        }
        guard count == 16 else { throw POSIXError(.EIO) }
    }

    static func read(_ path: String) throws -> Acknowledged {
        let data = try Data(contentsOf: URL(fileURLWithPath: path + ".acknowledged"))
        let numbers = data.withUnsafeBytes {
            ($0.loadUnaligned(as: Int.self), $0.loadUnaligned(fromByteOffset: 8, as: Int.self))
        }
        return Acknowledged(stored: numbers.0, delivered: numbers.1)
    }
}
