import GRDB
import Testing

@testable import OfflineQueue

@Suite("A long backlog")
struct BacklogTests {
    let store: TestStore
    let clock = ManualClock()

    init() throws { store = try TestStore() }

    private func fastSettings() -> QueueSettings {
        var settings = QueueSettings()
        settings.commitSamplesMax = 500
        settings.commitAgeMax = .microseconds(Int64.max)
        return settings
    }

    @Test(arguments: [
        SampleQueue.walkSQL, SampleColumn.rowsOfSegment, Settlement.pendingSQL, Pruning.deleteSQL,
    ])
    func everyWalkIsARangeOfThePrimaryKey(sql: String) async throws {
        try await store.open(clock).close()
        let plan = try await DatabaseQueue(path: store.path).read { db in
            let statement = try db.makeStatement(sql: "EXPLAIN QUERY PLAN " + sql)
            return try Row.fetchAll(
                statement,
                arguments: StatementArguments(Array(1...7).prefix(sql.count { $0 == "?" }))
            ).map { $0["detail"] as String }
        }
        #expect(
            plan.first == "SEARCH sample USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)", "\(plan)"
        )
        #expect(!plan.contains { $0.contains("SCAN") || $0.contains("TEMP B-TREE") }, "\(plan)")
    }

    @Test func samplesHaveNoIndexButTheirKey() async throws {
        try await store.open(clock).close()
        let indexes = try store.number(
            "SELECT count(*) FROM sqlite_master WHERE type = 'index' AND tbl_name = 'sample'")
        #expect(indexes == 0)
        #expect(
            try store.number("SELECT count(*) FROM sqlite_master WHERE name LIKE '%sequence'") == 0)
    }

    @Test func aRareSensorDoesNotMakeItsDeliveryWalkOverTheOthers() async throws {
        let queue = try await store.open(clock, settings: fastSettings())
        let rare = try await Worn(queue, 1)
        let busy = try await Worn(queue, 2)
        for hour in UInt8(0)..<3 {
            try await queue.beat(rare.assignment, bpm: hour, clock)
            let reading = clock.read()
            let arrival = Arrival(sensorID: busy.assignment.sensorID, at: reading, frame: [0, 60])
            try await queue.append(contentsOf: (0..<5_000).map { _ in arrival })
        }
        try await queue.flush()
        // Each rare sample has a segment of its own; the busy sensor needs but one.
        #expect(try store.number("SELECT count(*) FROM segment WHERE assignment = 1") == 3)
        #expect(try store.number("SELECT count(*) FROM segment WHERE assignment = 2") == 1)
        let widest = try store.number(
            "SELECT max(last_sample - first_sample) FROM segment WHERE assignment = 1")
        #expect(widest == 0)
        let sent = try await queue.deliverAll(rare.enrollment.id)
        #expect(sent.map { $0.frame[1] } == [0, 1, 2])
        #expect(try await queue.audit().isClean)
    }

    @Test func reopeningContinuesWhereItWas() async throws {
        var queue = try await store.open(clock, settings: fastSettings())
        let worn = try await Worn(queue)
        let delivery = worn.enrollment.id
        for bpm in UInt8(0)..<100 { try await queue.beat(worn.assignment, bpm: bpm, clock) }
        try await queue.flush()
        var batch = try await queue.nextBatch(enrollment: delivery, limit: 30)
        try await queue.settle(enrollment: delivery, batch.map { SettledSample($0, .delivered) })
        let before = try await queue.balance()
        try await queue.close()

        queue = try await store.open(clock, settings: fastSettings())
        #expect(try await queue.balance() == before)
        batch = try await queue.nextBatch(enrollment: delivery, limit: 1)
        #expect(batch.map { $0.frame[1] } == [30])
        for bpm in UInt8(100)..<120 { try await queue.beat(worn.assignment, bpm: bpm, clock) }
        try await queue.flush()
        let rest = try await queue.deliverAll(delivery)
        #expect(rest.map { $0.frame[1] } == Array(30..<120))
        #expect(Set(rest.map(\.runNonce)).count == 2)
        #expect(try await queue.audit().isClean)
    }

    @Test func whatWasNotCommittedIsGoneAndNothingElse() async throws {
        var queue = try await store.open(clock)
        let worn = try await Worn(queue)
        for bpm in UInt8(0)..<60 { try await queue.beat(worn.assignment, bpm: bpm, clock) }
        try await queue.abandon()
        queue = try await store.open(clock)
        let balance = try await queue.balance()
        #expect(balance.received == 50 && balance.isBalanced)
        try await queue.beat(worn.assignment, bpm: 99, clock)
        try await queue.flush()
        let sent = try await queue.deliverAll(worn.enrollment.id)
        #expect(sent.map { $0.frame[1] } == Array(0..<50) + [99])
    }
}
