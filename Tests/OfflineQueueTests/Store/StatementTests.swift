import GRDB
import GRDBSQLite
import Testing

@testable import OfflineQueue

/// What a delivery costs the processor lies in what SQLite compiles.
@Suite struct StatementTests {
    @Test func theStatementsOfADeliveryAreCompiledOnce() async throws {
        let store = try TestStore()
        let clock = ManualClock()
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        for _ in 0..<10 { try await queue.beat(worn.assignment, clock) }
        try await queue.flush()
        for _ in 0..<4 {
            try await queue.beginRequest(enrollment: worn.enrollment.id)
            let batch = try await queue.nextBatch(enrollment: worn.enrollment.id, limit: 2)
            _ = try await queue.sensors()
            try await queue.settleSoon(
                enrollment: worn.enrollment.id, batch.map { SettledSample($0, .delivered) },
                upload: UploadRecord(batch, outcome: "delivered"), isAnswered: true)
        }
        let again = try await queue.compiledAgain()
        #expect(again == [])
    }

    /// The first `status` after a start with 2,000 straps took a minute.
    @Test func whatAStatusCostsGrowsWithTheStrapsAndNotWithTheirSquare() async throws {
        func steps(straps: Int) async throws -> Int {
            let store = try TestStore()
            let clock = ManualClock()
            let queue = try await store.open(clock)
            let elsewhere = try await queue.enroll(.elsewhere())
            for number in 0..<straps {
                let (high, low) = (number / 100, number % 100)
                let sensor = try await queue.addSensor(
                    address: "A0:9E:1A:00:\(high / 10)\(high % 10):\(low / 10)\(low % 10)")
                let assignment = try await queue.assign(
                    sensor: sensor.id, enrollment: nil, also: [elsewhere.id])
                try await queue.beat(assignment, clock)
            }
            try await queue.flush()
            clock.advance(seconds: 3_600)
            // All of them were silent, and the gateway was off.
            try await queue.close()
            clock.advance(seconds: 60)
            let next = try await store.open(clock)
            return try await next.statusSteps()
        }
        let (few, many) = (try await steps(straps: 25), try await steps(straps: 100))
        // Four times as many, and a sort; the square would be sixteen.
        #expect(many < 6 * few, "\(few) and \(many)")
    }
}

extension SampleQueue {
    /// How many hundred steps SQLite takes for what a status is made of.
    fileprivate func statusSteps() throws -> Int {
        let count = UnsafeMutablePointer<Int>.allocate(capacity: 1)
        count.initialize(to: 0)
        defer { count.deallocate() }
        try read("count") { db in
            sqlite3_progress_handler(
                db.sqliteConnection, 100,
                { counter in
                    counter?.assumingMemoryBound(to: Int.self).pointee += 1
                    return 0
                }, count)
        }
        _ = try totals()
        _ = try balance()
        _ = try sensorCounts()
        _ = try coverages(dayStartingAt: ManualClock.midnight)
        _ = try sensorsOfDestinations()
        _ = try lastDeliveries()
        try read("count") { db in sqlite3_progress_handler(db.sqliteConnection, 0, nil, nil) }
        return count.pointee
    }

    /// The statements of this connection that SQLite had to compile anew.
    fileprivate func compiledAgain() throws -> [String] {
        try read("count") { db in
            var found: [String] = []
            var statement: OpaquePointer?
            while true {
                statement = sqlite3_next_stmt(db.sqliteConnection, statement)
                guard let statement else { return found }
                if sqlite3_stmt_status(statement, SQLITE_STMTSTATUS_REPREPARE, 0) > 0 {
                    found.append(sqlite3_sql(statement).map { String(cString: $0) } ?? "")
                }
            }
        }
    }
}
