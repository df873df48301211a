import Basics
import GRDB
import Testing

@testable import OfflineQueue

@Suite("What is sent, and what becomes of it")
struct DeliveryTests {
    let store: TestStore
    let clock = ManualClock()
    let queue: SampleQueue

    init() async throws {
        store = try TestStore()
        queue = try await store.open(clock)
    }

    @Test func aSampleGoesFromAppendToDelivered() async throws {
        let worn = try await Worn(queue)
        for bpm in UInt8(60)..<70 {
            try await queue.beat(worn.assignment, bpm: bpm, clock)
            clock.advance(seconds: 0.1)
        }
        #expect(try await queue.nextBatch(enrollment: worn.enrollment.id, limit: 100).isEmpty)
        try await queue.flush()
        let batch = try await queue.nextBatch(enrollment: worn.enrollment.id, limit: 100)
        #expect(batch.map(\.frame) == (UInt8(60)..<70).map { [0, $0] })
        #expect(batch.first?.time == ManualClock.midnight)
        #expect(batch.map(\.sensorID).allSatisfy { $0 == worn.sensor.id })
        #expect(try await queue.balance().pending == 10)

        try await queue.deliverAll(worn.enrollment.id, limit: 3)
        let balance = try await queue.balance()
        #expect(balance.delivered == 10 && balance.pending == 0 && balance.isBalanced)
        #expect(try await queue.uploads().map(\.count) == [1, 3, 3, 3])
        #expect(try await queue.audit().isClean)
    }

    @Test func theSameBatchComesUntilItIsSettled() async throws {
        let worn = try await Worn(queue)
        for _ in 0..<5 { try await queue.beat(worn.assignment, clock) }
        try await queue.flush()
        let first = try await queue.nextBatch(enrollment: worn.enrollment.id, limit: 3)
        let again = try await queue.nextBatch(enrollment: worn.enrollment.id, limit: 3)
        #expect(first == again && first.count == 3)
    }

    @Test func aBatchTellsWhetherMoreMayWaitBehindIt() async throws {
        let worn = try await Worn(queue)
        let delivery = worn.enrollment.id
        func hasMore(_ limit: Int) async throws -> Bool {
            try await queue.nextPending(enrollment: delivery, limit: limit).hasMore
        }
        #expect(try await !hasMore(3))
        for _ in 0..<5 { try await queue.beat(worn.assignment, clock) }
        #expect(try await !hasMore(3), "nothing is committed")
        try await queue.flush()
        #expect(try await hasMore(3))
        #expect(try await hasMore(5), "there may be a sixth")
        #expect(try await !hasMore(6))
        try store.execute("UPDATE sample SET frame = x'0063' WHERE id = 3")
        #expect(try await hasMore(6), "a damaged row ended the walk")
        let batch = try await queue.nextPending(enrollment: delivery, limit: 6).samples
        #expect(batch.count == 2)
        try await queue.settle(enrollment: delivery, batch.map { SettledSample($0, .delivered) })
        #expect(try await !hasMore(6))
        #expect(try await queue.balance().dead == 1)
    }

    @Test func settleRefusesOutcomesWithAHole() async throws {
        let worn = try await Worn(queue)
        for _ in 0..<5 { try await queue.beat(worn.assignment, clock) }
        try await queue.flush()
        let delivery = worn.enrollment.id
        let batch = try await queue.nextBatch(enrollment: delivery, limit: 5)
        let delivered = batch.map { SettledSample($0, .delivered) }
        for wrong in [
            [delivered[1]], [delivered[0], delivered[2]],
            [delivered[0], delivered[0]], delivered + [delivered[4]],
        ] {
            await #expect { try await queue.settle(enrollment: delivery, wrong) } throws: {
                ($0 as? QueueError)?.code == .notContiguous
            }
        }
        #expect(try await queue.balance().pending == 5)
        try await queue.settle(enrollment: delivery, [delivered[1], delivered[0]])
        await #expect { try await queue.settle(enrollment: delivery, [delivered[0]]) } throws: {
            ($0 as? QueueError)?.code == .notContiguous
        }
        #expect(try await queue.balance().delivered == 2)
        #expect(try await queue.audit().isClean)
    }

    @Test func aDeliveryCannotSettleTheSamplesOfAnother() async throws {
        let one = try await Worn(queue, 1)
        let two = try await Worn(queue, 2)
        try await queue.beat(one.assignment, clock)
        try await queue.flush()
        let batch = try await queue.nextBatch(enrollment: one.enrollment.id, limit: 1)
        await #expect {
            try await queue.settle(
                enrollment: two.enrollment.id, batch.map { SettledSample($0, .delivered) })
        } throws: {
            ($0 as? QueueError)?.code == .unknownReference
        }
        #expect(try await queue.nextBatch(enrollment: two.enrollment.id, limit: 1).isEmpty)
    }

    @Test func aFailedSettleLeavesNothingBehind() async throws {
        let one = try await Worn(queue, 1)
        let sensor = try await queue.addSensor(address: "A0:9E:1A:00:00:09")
        let other = try await queue.assign(sensor: sensor.id, enrollment: one.enrollment.id)
        for _ in 0..<3 {
            try await queue.beat(one.assignment, clock)
            try await queue.beat(other, clock)
        }
        try await queue.flush()
        let delivery = one.enrollment.id
        let batch = try await queue.nextBatch(enrollment: delivery, limit: 6)
        // The first segment's outcome is right, the second's has a hole.
        let outcomes = [
            SettledSample(batch[0], .dead(reason: "422", diagnostics: "x")),
            SettledSample(batch[3], .delivered),
        ]
        await #expect(throws: QueueError.self) {
            try await queue.settle(
                enrollment: delivery, outcomes, upload: UploadRecord(batch, outcome: "200"))
        }
        let balance = try await queue.balance()
        #expect(balance.pending == 6 && balance.dead == 0)
        #expect(try await queue.uploads().isEmpty)
        #expect(try await queue.audit().isClean)
    }

    @Test func twoSensorsOfOneDeliveryComeInOrderOfArrival() async throws {
        let one = try await Worn(queue, 1)
        let sensor = try await queue.addSensor(address: "A0:9E:1A:00:00:09")
        let other = try await queue.assign(sensor: sensor.id, enrollment: one.enrollment.id)
        let stranger = try await Worn(queue, 2)
        for bpm in UInt8(0)..<90 {
            let assignment = [one.assignment, other, stranger.assignment][Int(bpm) % 3]
            try await queue.beat(assignment, bpm: bpm, clock)
        }
        try await queue.flush()
        let delivery = one.enrollment.id
        let ours = (UInt8(0)..<90).filter { $0 % 3 != 2 }
        let batch = try await queue.nextBatch(enrollment: delivery, limit: 20)
        #expect(batch.map { $0.frame[1] } == ours.prefix(20).map { $0 })
        // One sensor's samples may be settled ahead of the other's.
        let mine = batch.filter { $0.sensorID == one.sensor.id }
        try await queue.settle(enrollment: delivery, mine.map { SettledSample($0, .delivered) })
        let next = try await queue.deliverAll(delivery, limit: 7)
        #expect(next.map(\.id) == next.map(\.id).sorted())
        #expect((mine + next).map { $0.frame[1] }.sorted() == ours)
        #expect(try await queue.balance(of: .enrollment(stranger.enrollment.id)).pending == 30)
        #expect(try await queue.audit().isClean)
    }

    @Test func deadLettersKeepTheServersReasonAndCanBeRequeuedOrPurged() async throws {
        let worn = try await Worn(queue)
        for bpm in UInt8(60)..<64 { try await queue.beat(worn.assignment, bpm: bpm, clock) }
        try await queue.flush()
        let delivery = worn.enrollment.id
        let batch = try await queue.nextBatch(enrollment: delivery, limit: 4)
        let long = String(repeating: "é", count: 5_000)
        try await queue.settle(
            enrollment: delivery,
            [
                SettledSample(batch[0], .dead(reason: "omh_data", diagnostics: long)),
                SettledSample(batch[1], .dropped(reason: "zero-rate")),
                SettledSample(batch[2], .dead(reason: "omh_data", diagnostics: "short")),
                SettledSample(batch[3], .delivered),
            ])
        var balance = try await queue.balance()
        #expect(balance.dead == 2 && balance.dropped == ["zero-rate": 1])
        #expect(balance.delivered == 1 && balance.unsent == 0 && balance.isBalanced)
        let letters = try await queue.deadLetters()
        #expect(letters.map(\.sampleID) == [batch[2].id, batch[0].id])
        #expect(letters.map(\.diagnostics.count) == [5, SampleQueue.diagnosticsCharactersMax])
        #expect(letters[1].uuid == batch[0].uuid && letters[1].frame == batch[0].frame)

        // Both are old enough to prune; the dead stay.
        clock.advance(seconds: 2 * 86_400)
        #expect(try await queue.prune() == 2)
        try await queue.requeue(deadLetters: [batch[0].id])
        balance = try await queue.balance()
        #expect(balance.dead == 1 && balance.pending == 1 && balance.isBalanced)
        #expect(try await queue.nextBatch(enrollment: delivery, limit: 9) == [batch[0]])
        #expect(try await queue.audit().isClean)
        await #expect(throws: QueueError.self) {
            try await queue.requeue(deadLetters: [batch[2].id, batch[0].id])
        }
        try await queue.deliverAll(delivery)
        try await queue.purge(deadLetters: [batch[2].id])
        balance = try await queue.balance()
        #expect(balance.delivered == 2 && balance.dead == 0 && balance.isBalanced)
        #expect(balance.dropped == ["zero-rate": 1, "purged": 1])
        #expect(try await queue.audit().isClean)
        #expect(try store.number("SELECT count(*) FROM sample") == 0)
    }

    @Test func pruningTakesOnlyWhatIsSettledAndOld() async throws {
        let one = try await Worn(queue, 1)
        let two = try await Worn(queue, 2)
        for _ in 0..<60 {
            try await queue.beat(one.assignment, clock)
            try await queue.beat(two.assignment, clock)
            clock.advance(seconds: 3_600)
        }
        try await queue.flush()
        try await queue.deliverAll(one.enrollment.id)
        // 60 hours have passed; samples 0…35 are older than 24 hours, all of delivery two is unsent.
        #expect(try await queue.prune() == 36)
        #expect(try await queue.prune() == 0)
        #expect(try store.number("SELECT count(*) FROM sample") == 84)
        #expect(try await queue.audit().isClean)
        #expect(try await queue.balance().isBalanced)
        let days = Duration.seconds(30 * 86_400)
        clock.set { $0.wall += days }
        #expect(try await queue.prune() == 0, "the clock jumped")
        // The boot's clock goes on without a server.
        clock.set {
            $0.wall = $0.wall - days
            $0.isTrusted = false
        }
        clock.advance(seconds: 30 * 86_400)
        #expect(try await queue.prune() == 24)
        #expect(try await queue.deliverAll(two.enrollment.id).count == 60)
    }

    @Test func idsAreNotUsedTwiceAfterEverythingIsPruned() async throws {
        let worn = try await Worn(queue)
        for _ in 0..<5 { try await queue.beat(worn.assignment, clock) }
        try await queue.flush()
        let old = try await queue.deliverAll(worn.enrollment.id)
        clock.advance(seconds: 2 * 86_400)
        #expect(try await queue.prune() == 5)
        try await queue.close()

        let second = try await store.open(clock)
        try await second.beat(worn.assignment, clock)
        try await second.flush()
        let new = try await second.deliverAll(worn.enrollment.id)
        #expect(new.map(\.id) == [(old.last?.id ?? 0) + 1])
    }

    @Test func aDamagedRowIsNeverSentAndStopsNoOther() async throws {
        let worn = try await Worn(queue)
        for bpm in UInt8(60)..<66 { try await queue.beat(worn.assignment, bpm: bpm, clock) }
        try await queue.flush()
        try store.execute("UPDATE sample SET frame = x'00FF' WHERE id IN (1, 4)")
        try store.execute("UPDATE sample SET time_uncertainty_ms = 1 WHERE id = 5")
        #expect(try await queue.audit().damaged == [1, 4, 5])
        let sent = try await queue.deliverAll(worn.enrollment.id)
        #expect(sent.map { $0.frame[1] } == [61, 62, 65])
        let balance = try await queue.balance()
        #expect(balance.delivered == 3 && balance.dead == 3 && balance.isBalanced)
        #expect(try await queue.deadLetters().map(\.reason) == ["damaged", "damaged", "damaged"])
    }

    @Test func aRequestWithoutAnAnswerIsRememberedAcrossAKill() async throws {
        let store = try TestStore()
        let clock = ManualClock()
        var queue: SampleQueue? = try await store.open(clock)
        let worn = try await Worn(#require(queue))
        let delivery = worn.enrollment.id
        #expect(try await queue?.unansweredRequest(enrollment: delivery) == nil)
        try await queue?.beginRequest(enrollment: delivery)
        clock.advance(seconds: 3)
        // A slow renewal of its token may have put it off until now.
        let latest = clock.read().uptime
        #expect(try await queue?.unansweredRequest(enrollment: delivery) == latest)
        // Killed: nothing is closed.
        queue = nil
        let next = try await store.open(clock)
        // When it was sent, the note does not say: it may be an older one.
        let now = clock.read().uptime
        #expect(try await next.unansweredRequest(enrollment: delivery) == now)
        try await next.settleSoon(enrollment: delivery, [], isAnswered: true)
        #expect(try await next.unansweredRequest(enrollment: delivery) == nil)
    }

    /// Each request cost a commit, which was most of what a gateway wrote to its card.
    @Test func onlyTheFirstRequestOfADeliveryCostsACommit() async throws {
        let store = try TestStore()
        let clock = ManualClock()
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        let delivery = worn.enrollment.id
        for _ in 0..<6 { try await queue.beat(worn.assignment, clock) }
        try await queue.flush()
        let other = try DatabaseQueue(path: store.path)
        func version() throws -> Int? {
            try other.read { db in try Int.fetchOne(db, sql: "PRAGMA data_version") }
        }
        let before = try version()
        try await queue.beginRequest(enrollment: delivery)
        let first = try version()
        #expect(first != before)
        let batch = try await queue.nextBatch(enrollment: delivery, limit: 2)
        try await queue.settleSoon(
            enrollment: delivery, batch.map { SettledSample($0, .delivered) }, isAnswered: true)
        try await queue.beginRequest(enrollment: delivery)
        #expect(try version() == first)
        // The outcome goes along with the next commit of samples.
        #expect(try await queue.balance().delivered == 0)
        try await queue.beat(worn.assignment, clock)
        try await queue.flush()
        #expect(try await queue.balance().delivered == 2)
    }

    @Test(arguments: [true, false])
    func anOrderlyStopKeepsTheNoteOnlyOfARequestWithoutAnAnswer(isAnswered: Bool) async throws {
        let store = try TestStore()
        let clock = ManualClock()
        let queue = try await store.open(clock)
        let delivery = try await Worn(queue).enrollment.id
        try await queue.beginRequest(enrollment: delivery)
        if isAnswered { try await queue.settleSoon(enrollment: delivery, [], isAnswered: true) }
        try await queue.close()
        let next = try await store.open(clock)
        let isRemembered = try await next.unansweredRequest(enrollment: delivery) != nil
        #expect(isRemembered == !isAnswered)
    }

    @Test func aRequestOfAnotherBootIsTakenToHaveBeenSentJustNow() async throws {
        let store = try TestStore()
        let clock = ManualClock()
        var queue: SampleQueue? = try await store.open(clock)
        let delivery = try await Worn(#require(queue)).enrollment.id
        try await queue?.beginRequest(enrollment: delivery)
        queue = nil
        clock.advance(seconds: 500)
        let next = try await store.open(clock, bootID: "boot-2")
        let now = clock.read().uptime
        #expect(try await next.unansweredRequest(enrollment: delivery) == now)
    }
}
