import GRDB
import Testing

@testable import OfflineQueue

@Suite("Ranges of pending samples")
struct RangeTests {
    let store: TestStore
    let clock = ManualClock()

    init() throws { store = try TestStore() }

    private func ids(_ ranges: [PendingRange]) -> [[Int64]] {
        ranges.map { $0.samples.map(\.id) }
    }

    @Test func eachSegmentGivesItsOldestHoweverManyOthersHave() async throws {
        let queue = try await store.open(clock)
        let first = try await Worn(queue, 1)
        let sensor = try await queue.addSensor(address: "A0:9E:1A:00:00:02")
        let second = try await queue.assign(sensor: sensor.id, enrollment: first.enrollment.id)
        for number in UInt8(1)...6 { try await queue.beat(first.assignment, bpm: number, clock) }
        try await queue.beat(second, bpm: 7, clock)
        try await queue.flush()
        let found = try await queue.nextRanges(
            enrollment: first.enrollment.id, perSegment: 4, limit: 100)
        #expect(ids(found) == [[1, 2, 3, 4], [7]])
        #expect(found.allSatisfy { !$0.isEnded }, "more may come in this run")
        #expect(found.map(\.isCut) == [true, false], "two of the first were not read")
        let fewer = try await queue.nextRanges(
            enrollment: first.enrollment.id, perSegment: 4, limit: 4)
        #expect(ids(fewer) == [[1, 2, 3, 4]])
    }

    @Test func aSegmentOfAnEarlierRunHasItsEnd() async throws {
        var queue = try await store.open(clock)
        let worn = try await Worn(queue, 1)
        for number in UInt8(1)...3 { try await queue.beat(worn.assignment, bpm: number, clock) }
        try await queue.close()
        queue = try await store.open(clock)
        try await queue.beat(worn.assignment, bpm: 4, clock)
        try await queue.flush()
        let enrollment = worn.enrollment.id
        let found = try await queue.nextRanges(
            enrollment: enrollment, perSegment: 10, limit: 100)
        #expect(ids(found) == [[1, 2, 3], [4]])
        #expect(found.map(\.isEnded) == [true, false])
        let cut = try await queue.nextRanges(enrollment: enrollment, perSegment: 2, limit: 100)
        #expect(cut.first?.isEnded == false, "the third one was not read")
    }

    @Test func theSameSamplesAsTheNextBatchAndSettledInTheSameWay() async throws {
        let queue = try await store.open(clock)
        let worn = try await Worn(queue, 1)
        for number in UInt8(1)...5 { try await queue.beat(worn.assignment, bpm: number, clock) }
        try await queue.flush()
        let enrollment = worn.enrollment.id
        let range = try #require(
            try await queue.nextRanges(enrollment: enrollment, perSegment: 9, limit: 9).first)
        #expect(
            range.samples == (try await queue.nextBatch(enrollment: enrollment, limit: 100)))
        try await queue.settle(
            enrollment: enrollment, range.samples.prefix(3).map { SettledSample($0, .delivered) })
        let rest = try await queue.nextRanges(enrollment: enrollment, perSegment: 9, limit: 9)
        #expect(ids(rest) == [[4, 5]])
    }

    @Test func aDamagedRowEndsARangeAndIsSettledWhenItsTurnComes() async throws {
        let queue = try await store.open(clock)
        let worn = try await Worn(queue, 1)
        for number in UInt8(1)...4 { try await queue.beat(worn.assignment, bpm: number, clock) }
        try await queue.flush()
        try store.execute("UPDATE sample SET frame = x'0063' WHERE id = 3")
        let enrollment = worn.enrollment.id
        var found = try await queue.nextRanges(enrollment: enrollment, perSegment: 9, limit: 9)
        #expect(ids(found) == [[1, 2]])
        #expect(found.first?.isEnded == true)
        #expect(found.first?.isCut == true, "the fourth one waits as well")
        try await queue.settle(
            enrollment: enrollment, found[0].samples.map { SettledSample($0, .delivered) })
        found = try await queue.nextRanges(enrollment: enrollment, perSegment: 9, limit: 9)
        #expect(ids(found) == [[4]])
        #expect(try await queue.balance().dead == 1)
    }

    /// The samples of two straps alternate: each piece became an average of its own.
    @Test func whatWasPutBackOfTwoStrapsIsARangeOfEach() async throws {
        let queue = try await store.open(clock)
        let first = try await Worn(queue, 1)
        let sensor = try await queue.addSensor(address: "A0:9E:1A:00:00:02")
        let enrollment = first.enrollment.id
        let second = try await queue.assign(sensor: sensor.id, enrollment: enrollment)
        for number in UInt8(1)...4 {
            try await queue.beat(first.assignment, bpm: number, clock)
            try await queue.beat(second, bpm: number, clock)
            try await queue.flush()
        }
        try await queue.settle(
            enrollment: enrollment,
            try await queue.nextBatch(enrollment: enrollment, limit: 8).map {
                SettledSample($0, .dead(reason: "refused", diagnostics: ""))
            })
        try await queue.requeue(deadLetters: Array(1...8))
        let found = try await queue.nextRanges(enrollment: enrollment, perSegment: 9, limit: 9)
        #expect(ids(found) == [[1, 3, 5, 7], [2, 4, 6, 8]])
        let fewer = try await queue.nextRanges(enrollment: enrollment, perSegment: 9, limit: 4)
        #expect(ids(fewer) == [[1, 3, 5, 7]])
        let single = try await queue.nextBatch(enrollment: enrollment, limit: 5)
        #expect(single.map(\.id) == [1, 2, 3, 4, 5], "single samples go in order of arrival")
        try await queue.settle(
            enrollment: enrollment,
            found.flatMap(\.samples).map { SettledSample($0, .delivered) })
        #expect(try await queue.balance().isBalanced)
    }

    /// The whole backlog of what was put back was read, and sorted, for each batch.
    @Test func whatWasPutBackIsFoundAndReadThroughAnIndex() async throws {
        try await store.open(clock).close()
        func explain(_ sql: String, _ parameters: Int) async throws -> [String] {
            try await DatabaseQueue(path: store.path).read { db in
                try Row.fetchAll(
                    db, sql: "EXPLAIN QUERY PLAN " + sql,
                    arguments: StatementArguments(Array(repeating: 1, count: parameters))
                ).map { $0["detail"] as String }
            }
        }
        for sql in PendingSegment.putBackSQL {
            let plan = try await explain(sql, 1)
            let scans = plan.filter { $0.hasPrefix("SCAN") }
            #expect(scans == ["SCAN b", "SCAN put_back"], "of segments found: \(plan)")
            #expect(
                plan.contains {
                    $0.contains("dead_letter_requeued_segment (") && $0.hasSuffix("segment>?)")
                }, "\(plan)")
            #expect(!plan.contains { $0.contains("TEMP B-TREE") }, "\(plan)")
        }
        let own = try await explain(DeliveryBooks(segment: 1).putBackSQL, 3)
        let further = try await explain(DeliveryBooks(segment: 1, further: 1).putBackSQL, 4)
        let sample = "SEARCH p USING INTEGER PRIMARY KEY (rowid=?)"
        #expect(
            own == [
                "SEARCH d USING INDEX dead_letter_requeued_segment (segment=? AND sample<?)",
                sample,
            ])
        #expect(
            further == [
                "SEARCH d USING INDEX further_dead_letter_requeued_segment"
                    + " (destination=? AND segment=? AND sample<?)", sample,
            ])
    }

    @Test func whatWasPutBackComesFirstAndIsWhole() async throws {
        let queue = try await store.open(clock)
        let worn = try await Worn(queue, 1)
        for number in UInt8(1)...6 { try await queue.beat(worn.assignment, bpm: number, clock) }
        try await queue.flush()
        let enrollment = worn.enrollment.id
        let batch = try await queue.nextBatch(enrollment: enrollment, limit: 4)
        try await queue.settle(
            enrollment: enrollment,
            batch.map { SettledSample($0, .dead(reason: "refused", diagnostics: "")) })
        try await queue.requeue(deadLetters: [2, 3])
        let found = try await queue.nextRanges(enrollment: enrollment, perSegment: 9, limit: 9)
        #expect(ids(found) == [[2, 3], [5, 6]])
        #expect(found.map(\.isEnded) == [true, false])
        #expect(found.allSatisfy { !$0.isCut })
        let fewer = try await queue.nextRanges(enrollment: enrollment, perSegment: 2, limit: 9)
        #expect(fewer.map(\.isCut) == [true, true], "as many as were asked for")
        try await queue.settle(
            enrollment: enrollment,
            found.flatMap(\.samples).map { SettledSample($0, .delivered) })
        #expect(try await queue.balance().isBalanced)
    }
}
