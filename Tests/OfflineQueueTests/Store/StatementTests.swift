import Basics
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

    /// Each fetch read all that another delivery, or a held patient, was to get again, and recording waited for it.
    @Test func whatWasPutBackForOthersCostsAFetchNothing() async throws {
        let store = try TestStore()
        let clock = ManualClock()
        let queue = try await store.open(clock)
        let ward = try await queue.enroll(.example(patient: nil)).id
        let elsewhere = try await queue.enroll(.elsewhere()).id
        let other = try await Worn(queue, 2).enrollment.id
        let sensor = try await queue.addSensor(address: "A0:9E:1A:00:00:01")
        let assignment = try await queue.assign(
            sensor: sensor.id, enrollment: ward, patient: "p-1", also: [elsewhere])
        for _ in 0..<300 {
            try await queue.beat(assignment, clock)
            clock.advance(seconds: 1)
        }
        try await queue.flush()
        for id in [ward, elsewhere] { try await queue.deliverAll(id) }

        func steps(since seconds: Int64, putsBack count: Int) async throws -> [Int] {
            for id in [ward, elsewhere] {
                let redelivery = Redelivery(
                    destination: id, since: ManualClock.midnight + .seconds(seconds))
                #expect(try await queue.redeliver(redelivery) > count)
                #expect(try await queue.nextBatch(enrollment: id, limit: 10).count == 10)
            }
            var steps = [try await queue.fetchSteps(other, of: .all)]
            for id in [ward, elsewhere] {
                steps.append(try await queue.fetchSteps(id, of: .except(["p-1"])))
                steps.append(try await queue.fetchSteps(id, of: .all))
            }
            return steps
        }
        let few = try await steps(since: 280, putsBack: 10)
        let many = try await steps(since: 0, putsBack: 200)
        #expect(many == few)
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

    /// The steps that SQLite takes for the next ten samples of a delivery, as such and as ranges.
    fileprivate func fetchSteps(
        _ enrollment: Int64, of patients: PatientFilter
    ) throws -> Int {
        let before = try counts(SQLITE_STMTSTATUS_VM_STEP)
        _ = try nextPending(enrollment: enrollment, limit: 10, of: patients)
        _ = try nextRanges(enrollment: enrollment, perSegment: 10, limit: 10, of: patients)
        let after = try counts(SQLITE_STMTSTATUS_VM_STEP)
        return after.map(\.count).reduce(0, +) - before.map(\.count).reduce(0, +)
    }

    /// The statements of this connection that SQLite had to compile anew.
    fileprivate func compiledAgain() throws -> [String] {
        try counts(SQLITE_STMTSTATUS_REPREPARE).filter { $0.count > 0 }.map(\.sql)
    }

    /// A counter of each statement of this connection.
    private func counts(_ counter: Int32) throws -> [(sql: String, count: Int)] {
        try read("count") { db in
            var found: [(sql: String, count: Int)] = []
            var statement: OpaquePointer?
            while true {
                statement = sqlite3_next_stmt(db.sqliteConnection, statement)
                guard let statement else { return found }
                let sql = sqlite3_sql(statement).map { String(cString: $0) } ?? ""
                found.append((sql, Int(sqlite3_stmt_status(statement, counter, 0))))
            }
        }
    }
}
