import Basics
import Foundation
import GRDB
import Testing

@testable import OfflineQueue

/// A store with one strap that two patients wear in turn, whose samples all go to a third destination as well,
/// and a process that writes to it until it is killed; beside the store it notes what it was told is durable.
enum KilledWriter {
    static let stepSamples = 20
    /// The enrollment of the further destination.
    static let elsewhere: Int64 = 3
    /// From one round to the next; the child writes in the middle.
    static let roundSeconds = 864_000.0

    static func prepare(path: String, _ clock: ManualClock) async throws {
        let queue = try SampleQueue(path: path, clock: clock, bootID: "parent")
        let worn = try await Worn(queue, 1)
        try await queue.enroll(.example("ward-2", patient: "p-2"))
        try await queue.enroll(.elsewhere())
        #expect(worn.enrollment.id == 1)
        try await queue.close()
    }

    /// Runs in the child: records, delivers, prunes, hands over, stops and starts again; in each round on.
    /// `first` is the number of the first frame, `notes` the path beside which it says what is durable.
    /// Returns if it is not killed.
    static func run(
        _ path: String, noting notes: String? = nil, round: Int, first: Int, steps: Int = .max,
        synchronous: String? = nil,
        _ afterStep: (Int) -> Void = { _ in }
    ) async throws {
        let clock = ManualClock()
        clock.advance(seconds: (Double(round) + 0.5) * roundSeconds)
        var settings = QueueSettings()
        settings.keepDelivered = .seconds(1)
        let notes = notes ?? path
        func open() async throws -> SampleQueue {
            let queue = try SampleQueue(
                path: path, settings: settings, clock: clock, bootID: "child-\(round)")
            // Every few commits, so that some end in the middle of it.
            try await queue.set("wal_autocheckpoint", "32")
            if let synchronous { try await queue.set("synchronous", synchronous) }
            return queue
        }
        var acknowledged = Acknowledged(stored: 0, delivered: 0)
        try acknowledged.write(notes)
        var queue = try await open()
        guard var assignment = try await queue.openAssignments().first else { return }
        // The last process may have been killed between the two.
        try await queue.add(destination: elsewhere, to: assignment.id, from: .kept)
        var number = UInt32(first)
        for step in 0..<steps {
            let uptime = clock.read().uptime.microseconds
            await queue.note(.linkLost, of: assignment.sensorID, at: Uptime(microseconds: uptime))
            clock.advance(seconds: 5)
            for _ in 0..<stepSamples {
                let frame = [UInt8(assignment.enrollmentID ?? 0)] + bytes(number)
                try await queue.append(
                    Arrival(sensorID: assignment.sensorID, at: clock.read(), frame: frame))
                number += 1
                clock.advance(seconds: 0.1)
            }
            try await queue.flush()
            acknowledged.stored += stepSamples
            try acknowledged.write(notes)
            for delivery in [1, 2] as [Int64] {
                let batch = try await queue.nextBatch(enrollment: delivery, limit: stepSamples / 2)
                try await queue.settle(
                    enrollment: delivery, batch.map { SettledSample($0, .delivered) },
                    upload: UploadRecord(batch, outcome: "delivered"))
                acknowledged.delivered += batch.count
                try acknowledged.write(notes)
            }
            // It keeps up.
            let batch = try await queue.nextBatch(enrollment: elsewhere, limit: stepSamples)
            try await queue.settleSoon(
                enrollment: elsewhere,
                batch.map {
                    SettledSample($0, $0.id % 7 == 0 ? .dropped(reason: "r") : .delivered)
                })
            try await queue.prune()
            if step % 3 == 2 {
                assignment = try await queue.assign(
                    sensor: assignment.sensorID, enrollment: assignment.enrollmentID == 1 ? 2 : 1)
                try await queue.add(destination: elsewhere, to: assignment.id, from: .now)
            }
            clock.advance(seconds: 61)
            await queue.commitIfDue()
            if step % 4 == 3 {
                try await queue.close()
                clock.advance(seconds: 30)
                queue = try await open()
            }
            afterStep(step)
        }
    }

    private static func bytes(_ number: UInt32) -> [UInt8] {
        withUnsafeBytes(of: number.bigEndian) { Array($0) }
    }

    /// What must hold of the store now: nothing acknowledged is lost, nothing is there twice, every frame is
    /// its patient's, and every moment is covered by a sample or by a gap. Returns the books.
    static func check(
        _ queue: SampleQueue, _ path: String, noting notes: String? = nil, since before: Balance,
        _ comment: String
    ) async throws -> Balance {
        func number(_ sql: String) throws -> Int {
            try DatabaseQueue(path: path).read { try Int.fetchOne($0, sql: sql) ?? 0 }
        }
        let acknowledged = try Acknowledged.read(notes ?? path)
        let balance = try await queue.balance()
        // Committed by chance just before the note of it: at most one step more.
        let stored = balance.stored - before.stored - acknowledged.stored
        let delivered = balance.delivered - before.delivered - acknowledged.delivered
        #expect((0...stepSamples).contains(stored), "\(comment)")
        #expect((0...stepSamples).contains(delivered), "\(comment)")
        #expect(balance.isBalanced, "\(comment)")
        let audit = try await queue.audit()
        #expect(audit.isClean, "\(comment): \(audit)")
        let elsewhere = try await queue.balance(of: .enrollment(elsewhere))
        #expect(elsewhere.isBalanced && elsewhere.stored == balance.stored, "\(comment)")
        // Frames are numbered without holes from the first on; what is left are the last of them.
        let rows = "count(*) = count(DISTINCT substr(frame, 2))"
        let last = "coalesce(max(substr(hex(frame), 3)) = printf('%08X', \(balance.stored - 1)), 1)"
        #expect(try number("SELECT \(rows) AND \(last) FROM sample") == 1, "\(comment)")
        #expect(
            try number(
                """
                SELECT count(*) FROM sample p JOIN segment s ON s.id = p.segment
                JOIN assignment a ON a.id = s.assignment
                WHERE substr(hex(p.frame), 1, 2) <> printf('%02X', a.enrollment)
                """) == 0, "\(comment)")
        try await checkTiles(queue, number, comment)
        return balance
    }

    private static func checkTiles(
        _ queue: SampleQueue, _ number: (String) throws -> Int, _ comment: String
    ) async throws {
        for assignment in try await queue.assignments() {
            let gaps = try await queue.gaps(assignment: assignment.id, limit: 1_000_000)
            for (gap, next) in zip(gaps, gaps.dropFirst())
            where gap.untilBootID == next.fromBootID {
                #expect(
                    gap.untilUptime <= next.fromUptime, "\(comment)")
            }
            guard assignment.isOpen else { continue }
            #expect(gaps.last?.cause == .gatewayOff && gaps.last?.isOpen == false, "\(comment)")
        }
        // Between two samples of a run: gaps from the one to the other, or none if they are near.
        let wrong = try number(
            """
            SELECT count(*) FROM (
                SELECT s.assignment, r.boot, p.uptime_us AS until,
                    lag(p.uptime_us) OVER (PARTITION BY s.assignment, r.id ORDER BY p.id) AS since
                FROM sample p JOIN segment s ON s.id = p.segment JOIN run r ON r.id = s.run) AS t
            WHERE since IS NOT NULL AND iif(until - since > 3000000, until - since, 0) <>
                (SELECT coalesce(sum(g.until_uptime_us - g.from_uptime_us), 0) FROM gap g
                WHERE g.assignment = t.assignment AND g.from_boot = t.boot
                    AND g.until_uptime_us > t.since AND g.from_uptime_us < t.until)
            """)
        #expect(wrong == 0, "\(comment)")
    }
}

extension SampleQueue {
    func set(_ pragma: String, _ value: String) throws {
        try store.writeOutside("test") { database in
            try database.writeWithoutTransaction { db in
                try db.execute(sql: "PRAGMA \(pragma) = \(value)")
            }
        }
    }
}

/// What the child was told is durable. Two numbers in sixteen bytes, written by one pwrite(2): a
/// killed process leaves the old or the new ones.
struct Acknowledged {
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
