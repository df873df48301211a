import Basics
import Foundation
import GRDB
import Testing

@testable import OfflineQueue

@Suite("A store at its limit")
struct BoundsTests {
    let store: TestStore
    let clock = ManualClock()

    init() throws { store = try TestStore() }

    private func settings(_ policy: FullPolicy, kibibytes: Int64 = 150) -> QueueSettings {
        var settings = QueueSettings()
        settings.maxBytes = kibibytes * 1024
        settings.fullPolicy = policy
        return settings
    }

    /// Beats whose frames are all different, a second apart.
    private func beat(
        _ queue: SampleQueue, _ assignment: Assignment, _ numbers: Range<Int>
    ) async throws {
        for number in numbers {
            let bytes = [0, UInt8(number & 0xFF), UInt8(number >> 8 & 0xFF)]
            try await queue.append(
                Arrival(sensorID: assignment.sensorID, at: clock.read(), frame: bytes))
            clock.advance(seconds: 1)
        }
        try await queue.flush()
    }

    private func numbers(_ samples: [PendingSample]) -> [Int] {
        samples.map { Int($0.frame[1]) | Int($0.frame[2]) << 8 }
    }

    /// Samples that were put back filled the store: `keep-newest` dropped what is new.
    @Test(arguments: [false, true])
    func keepNewestDropsPutBackSamplesFirst(isFurther: Bool) async throws {
        let scene = try await TwoDestinations(store, clock, settings: settings(.keepNewest))
        try await scene.beat(2_000)
        for destination in [scene.own, scene.elsewhere] {
            try await scene.queue.deliverAll(destination)
        }
        let again = isFurther ? scene.elsewhere : scene.own
        #expect(
            try await scene.queue.redeliver(
                Redelivery(destination: again, since: ManualClock.midnight)) == 2_000)
        try await scene.beat(4_000)
        let balance = try await scene.balance(again)
        #expect(balance.refused.isEmpty && balance.isBalanced)
        #expect(balance.dropped[LossReason.queueFull.rawValue] ?? 0 > 2_000, "\(balance)")
        #expect(try await scene.queue.audit().isClean)
        let rest = try await scene.queue.deliverAll(again)
        #expect(rest.first.map { $0.id > 2_000 } ?? false && rest.last?.id == 6_000)
    }

    /// Of what was left of a minute, an average went out beside the one that the exchange has.
    @Test func putBackSamplesAreDroppedByWholeMinutes() async throws {
        let scene = try await TwoDestinations(
            store, clock, settings: settings(.keepNewest), isAdded: false)
        try await scene.beat(3_600)
        try await scene.queue.deliverAll(scene.own)
        let again = Redelivery(destination: scene.own, since: ManualClock.midnight)
        #expect(try await scene.queue.redeliver(again) == 3_600)
        try await scene.beat(300)
        let first = try #require(
            try await scene.queue.nextBatch(enrollment: scene.own, limit: 1).first)
        #expect(first.id > 1 && first.id <= 3_600, "\(first.id)")
        #expect(first.time.microseconds % ImportMinute.length == 0, "\(first.time)")
        #expect(try await scene.queue.audit().isClean)
    }

    /// Pruning had gone by five thousand dead letters, and was taken for over.
    @Test func deliveredSamplesBehindManyDeadOnesMakeRoom() async throws {
        let scene = try await TwoDestinations(
            store, clock, settings: settings(.refuseNew, kibibytes: 1_000), isAdded: false)
        try await scene.beat(8_000)
        for _ in 0..<7 { try await scene.refuse(scene.own, 1_000) }
        try await scene.queue.deliverAll(scene.own)
        let free = settings(.refuseNew, kibibytes: 1_000).maxBytes.map {
            $0 - ((try? usedBytes()) ?? 0)
        }
        // As many as fill the store, and half of what the delivered ones take.
        try await scene.beat(Int(free ?? 0) / 35 + 500)
        #expect(try await scene.balance(scene.own).refused.isEmpty)
        #expect(try await scene.queue.audit().isClean)
    }

    private func usedBytes() throws -> Int64 {
        try DatabaseQueue(path: store.path).read { try StoreLimit.usedBytes($0) }
    }

    /// It filled up with them, and refused what its own destination waited for.
    @Test func whatAFurtherDestinationGetsAgainMakesRoomBeforeNewFramesAreRefused() async throws {
        let scene = try await TwoDestinations(store, clock, settings: settings(.refuseNew))
        try await scene.beat(2_000)
        for destination in [scene.own, scene.elsewhere] {
            try await scene.queue.deliverAll(destination)
        }
        let again = Redelivery(destination: scene.elsewhere, since: ManualClock.midnight)
        #expect(try await scene.queue.redeliver(again) == 2_000)
        for _ in 0..<10 {
            try await scene.beat(300)
            try await scene.queue.deliverAll(scene.own)
        }
        #expect(try await scene.balance(scene.own).refused.isEmpty)
        #expect(
            try await scene.balance(scene.elsewhere).dropped[LossReason.queueFull.rawValue] ?? 0
                > 1_000)
        #expect(try await scene.queue.audit().isClean)
    }

    @Test func theDefaultKeepsTheOldestAndCountsWhatItRefuses() async throws {
        let queue = try await store.open(clock, settings: settings(.refuseNew))
        let worn = try await Worn(queue)
        try await beat(queue, worn.assignment, 0..<6_000)
        let fill = try await queue.fill()
        #expect(fill.isFull && fill.isNearlyFull && fill.usedBytes <= 150 * 1024)
        #expect((0.95...1).contains(fill.fraction ?? 0))
        let balance = try await queue.balance()
        let refused = balance.refused[LossReason.queueFull.rawValue] ?? 0
        #expect(balance.received == 6_000 && balance.isBalanced && refused > 1_000)
        #expect(await queue.health().refused == refused)
        #expect(await queue.health().fault == nil)
        #expect(try await queue.audit().isClean)
        // Once delivered, the old ones go however young they are, and recording goes on.
        let kept = numbers(try await queue.deliverAll(worn.enrollment.id))
        #expect(kept == Array(0..<(6_000 - refused)))
        try await beat(queue, worn.assignment, 6_000..<6_500)
        #expect(try await queue.balance().refused == [LossReason.queueFull.rawValue: refused])
        let rest = numbers(try await queue.deliverAll(worn.enrollment.id))
        #expect(rest == Array(6_000..<6_500))
        let after = try await queue.fill()
        #expect(!after.isFull && !after.isNearlyFull && after.usedBytes <= 150 * 1024)
        #expect(try await queue.audit().isClean)
    }

    @Test func keepNewestDropsTheOldestOfAnyDelivery() async throws {
        let queue = try await store.open(clock, settings: settings(.keepNewest))
        let one = try await Worn(queue, 1)
        let two = try await Worn(queue, 2)
        for block in 0..<300 {
            try await beat(queue, one.assignment, (block * 10)..<(block * 10 + 10))
            try await beat(queue, two.assignment, (block * 10)..<(block * 10 + 10))
        }
        let balance = try await queue.balance()
        let dropped = balance.dropped[LossReason.queueFull.rawValue] ?? 0
        #expect(balance.stored == 6_000 && balance.refused.isEmpty && balance.isBalanced)
        #expect(dropped > 1_000 && balance.pending == 6_000 - dropped)
        let fill = try await queue.fill()
        #expect(fill.usedBytes <= 150 * 1024 && (fill.fraction ?? 0) > 0.8)
        #expect(try await queue.audit().isClean)
        for worn in [one, two] {
            let kept = numbers(try await queue.deliverAll(worn.enrollment.id))
            #expect(kept == Array((3_000 - kept.count)..<3_000) && kept.count < 2_500)
        }
        #expect(try await queue.balance().isBalanced)
    }

    @Test func deadLettersAreNotDroppedForNewerOnes() async throws {
        let queue = try await store.open(clock, settings: settings(.keepNewest, kibibytes: 170))
        let worn = try await Worn(queue)
        let delivery = worn.enrollment.id
        var rounds = 0
        // Until they have taken all the room there is.
        while try await queue.balance().refused.isEmpty, rounds < 100 {
            rounds += 1
            try await beat(queue, worn.assignment, 0..<900)
            let batch = try await queue.nextBatch(enrollment: delivery, limit: 1_000)
            try await queue.settle(
                enrollment: delivery,
                batch.map { SettledSample($0, .dead(reason: "r", diagnostics: "d")) })
        }
        let dead = try await queue.balance().dead
        try await beat(queue, worn.assignment, 0..<4_000)
        let balance = try await queue.balance()
        #expect(dead > 500 && balance.dead == dead && balance.isBalanced)
        #expect(
            (balance.refused[LossReason.queueFull.rawValue] ?? 0) > 0, "nothing else was left to do"
        )
        #expect(try await queue.audit().isClean)
    }

    @Test func whatIsDroppedWhileItsRequestIsUnderWayCountsAsTheExchangeSays() async throws {
        let queue = try await store.open(clock, settings: settings(.keepNewest))
        let worn = try await Worn(queue)
        let delivery = worn.enrollment.id
        try await beat(queue, worn.assignment, 0..<100)
        let batch = try await queue.nextBatch(enrollment: delivery, limit: 100)
        try await beat(queue, worn.assignment, 100..<6_000)
        let before = try await queue.balance()
        #expect((before.dropped[LossReason.queueFull.rawValue] ?? 0) > 100)
        let outcomes = batch.prefix(60).map { SettledSample($0, .delivered) }
        let refused = SettledSample(batch[60], .dead(reason: "r", diagnostics: "d"))
        try await queue.settle(enrollment: delivery, outcomes + [refused])
        let after = try await queue.balance()
        #expect(after.delivered == 60 && after.dead == 0 && after.isBalanced)
        #expect(
            after.dropped[LossReason.queueFull.rawValue]
                == (before.dropped[LossReason.queueFull.rawValue] ?? 0)
                - 60)
        #expect(try await queue.audit().isClean)
        await #expect { try await queue.settle(enrollment: delivery, outcomes) } throws: {
            ($0 as? QueueError)?.code == .notContiguous
        }
    }

    @Test func samplesThatWaitTooLongAreDroppedOnlyWhenAsked() async throws {
        var queue = try await store.open(clock)
        let worn = try await Worn(queue)
        try await beat(queue, worn.assignment, 0..<100)
        clock.advance(seconds: 400 * 86_400)
        try await queue.prune()
        #expect(try await queue.balance().pending == 100)
        try await queue.close()

        var settings = QueueSettings()
        settings.maxAge = .seconds(3_600)
        queue = try await store.open(clock, settings: settings)
        try await beat(queue, worn.assignment, 100..<120)
        try await queue.prune()
        var balance = try await queue.balance()
        #expect(balance.dropped == [LossReason.maxAge.rawValue: 100] && balance.pending == 20)
        let days = Duration.seconds(40 * 86_400)
        clock.set { $0.wall += days }
        try await queue.prune()
        #expect(try await queue.balance().pending == 20, "no clock, no age")
        clock.set {
            $0.wall = $0.wall - days
            $0.isTrusted = false
        }
        clock.advance(seconds: 86_400)
        try await queue.prune()
        balance = try await queue.balance()
        #expect(balance.pending == 0 && balance.isBalanced, "the boot's clock goes on")
        #expect(try await queue.audit().isClean)
    }

    @Test func undecodableFramesAreBounded() async throws {
        var settings = QueueSettings()
        settings.commitSamplesMax = 500
        let queue = try await store.open(clock, settings: settings)
        let worn = try await Worn(queue)
        let count = SampleQueue.undecodableKeptMax + 1_234
        let arrival = Arrival(
            sensorID: worn.assignment.sensorID, at: clock.read(), frame: [], fault: "empty")
        for _ in 0..<count { try await queue.append(arrival) }
        try await queue.flush()
        let rows = try store.number("SELECT count(*) FROM undecodable")
        #expect(rows == SampleQueue.undecodableKeptMax)
        let balance = try await queue.balance()
        #expect(balance.undecodable == count && balance.isBalanced)
        #expect(try await queue.audit().isClean)
    }

    @Test func theFileStopsGrowingAndIsUsedAgain() async throws {
        let queue = try await store.open(clock, settings: settings(.keepNewest))
        let worn = try await Worn(queue)
        try await beat(queue, worn.assignment, 0..<20_000)
        try await queue.close()
        let size = try FileManager.default.attributesOfItem(atPath: store.path)[.size] as? Int
        #expect((size ?? .max) <= 220 * 1024)
    }

    @Test func valuesOfTheWrongTypeAreNilAndNoTrap() throws {
        let row = try DatabaseQueue().read { db in
            try Row.fetchOne(db, sql: "SELECT 1e300 AS n, 'x' AS t, x'ff' AS b, NULL AS z")
        }
        let found = try #require(row)
        #expect(
            found[0] as Int64? == nil && found["t"] as Int? == nil && found["b"] as Int64? == nil)
        #expect(found["z"] as String? == nil && found["none"] as String? == nil)
        #expect(found["t"] as Bool? == nil && found["n"] as Data? == nil)
    }
}
