import Basics
import Testing

@testable import OfflineQueue

/// What a destination had and has lost, as an exchange that was restored from a backup.
@Suite("Samples that are delivered again")
struct RedeliveryTests {
    let store: TestStore
    let clock = ManualClock()

    init() throws { store = try TestStore() }

    private func since(_ seconds: Int64) -> UTC { ManualClock.midnight + .seconds(seconds) }

    private func beat(_ queue: SampleQueue, _ worn: Worn, _ count: UInt8) async throws {
        for number in 1...count {
            try await queue.beat(worn.assignment, bpm: number, clock)
            clock.advance(seconds: 1)
        }
        try await queue.flush()
    }

    @Test func deliveredSamplesThatAreKeptGoOnceMoreUnderTheSameIdentities() async throws {
        let scene = try await TwoDestinations(store, clock, beats: 10)
        let queue = scene.queue
        for destination in [scene.own, scene.elsewhere] {
            let first = try await queue.deliverAll(destination, limit: 4)
            let all = Redelivery(destination: destination, since: since(0))
            let extent = try await queue.extent(of: all)
            #expect(extent.samples == 10)
            #expect(extent.first == first.first?.time && extent.keptSince == first.first?.time)

            let part = Redelivery(destination: destination, since: first[6].time)
            #expect(try await queue.redeliver(part) == 4)
            var balance = try await scene.balance(destination)
            #expect(balance.delivered == 6 && balance.pending == 4 && balance.isBalanced)
            #expect(try await queue.audit().isClean)
            // What was put back is not put back again.
            #expect(try await queue.redeliver(all) == 6)
            #expect(try await queue.redeliver(all) == 0)
            let again = try await queue.deliverAll(destination, limit: 3)
            #expect(again.map(\.uuid) == first.map(\.uuid))
            balance = try await scene.balance(destination)
            #expect(balance.delivered == 10 && balance.isBalanced)
            #expect(try await queue.audit().isClean)
        }
        #expect(try await queue.purgeSettled() == 10)
        let gone = try await queue.extent(
            of: Redelivery(destination: scene.own, since: since(0)))
        #expect(gone == Redelivery.Extent())
        try await queue.close()
    }

    @Test func whatWasPutBackIsKeptWhenTheRestIsPurged() async throws {
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        try await beat(queue, worn, 6)
        let first = try await queue.deliverAll(worn.enrollment.id, limit: 10)
        let redelivery = Redelivery(destination: worn.enrollment.id, since: first[3].time)
        #expect(try await queue.redeliver(redelivery) == 3)
        #expect(try await queue.purgeSettled() == 3)
        let again = try await queue.deliverAll(worn.enrollment.id, limit: 10)
        #expect(again.map(\.uuid) == first[3...].map(\.uuid))
        let extent = try await queue.extent(
            of: Redelivery(destination: worn.enrollment.id, since: since(0)))
        #expect(extent.samples == 0, "pruning had passed them, and their rows are gone")
        #expect(try await queue.audit().isClean)
        try await queue.close()
    }

    @Test func whatAPolicyWithheldGoesBackAsThatAndDeadLettersStay() async throws {
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        let id = worn.enrollment.id
        try await beat(queue, worn, 6)
        let batch = try await queue.nextBatch(enrollment: id, limit: 10)
        try await queue.settle(
            enrollment: id,
            batch.enumerated().map { index, sample in
                switch index {
                case 0, 3: SettledSample(sample, .dropped(reason: "zeroRate"))
                case 4: SettledSample(sample, .dead(reason: "422", diagnostics: ""))
                default: SettledSample(sample, .delivered)
                }
            })
        let redelivery = Redelivery(destination: id, since: since(0))
        #expect(try await queue.redeliver(redelivery) == 5)
        var balance = try await queue.balance(of: .enrollment(id))
        #expect(balance.pending == 5 && balance.dead == 1 && balance.delivered == 0)
        #expect(balance.dropped["zeroRate", default: 0] == 0 && balance.isBalanced)
        #expect(try await queue.audit().isClean)
        let again = try await queue.nextBatch(enrollment: id, limit: 10)
        #expect(again.map(\.frame[1]) == [1, 2, 3, 4, 6])
        try await queue.settle(
            enrollment: id,
            again.map {
                SettledSample($0, $0.frame[1] == 1 ? .dropped(reason: "zeroRate") : .delivered)
            })
        balance = try await queue.balance(of: .enrollment(id))
        #expect(balance.delivered == 4 && balance.dropped == ["zeroRate": 1] && balance.dead == 1)
        #expect(try await queue.audit().isClean)
        try await queue.close()
    }

    /// They were no loss of the destination, and its books would say twice that they were given up.
    @Test func whatADestinationNeverHadStaysDropped() async throws {
        let scene = try await TwoDestinations(store, clock, beats: 10)
        let (queue, id) = (scene.queue, scene.elsewhere)
        try await scene.settle(id, 1, .delivered)
        try await scene.settle(id, 3, .dropped(reason: "zeroRate"))
        let batch = try await queue.nextBatch(enrollment: id, limit: 2)
        try await scene.refuse(id, 1)
        try await scene.settle(id, 1, .delivered)
        #expect(try await queue.purge(deadLetters: [batch[0].id], destination: id) == 1)
        try await queue.remove(destination: id, from: scene.assignment.id)
        let dropped = ["zeroRate": 3, "purged": 1, "destination-removed": 4]
        #expect(try await scene.balance(id).dropped == dropped)

        let third = batch[0].time - .seconds(2)
        #expect(try await queue.redeliver(Redelivery(destination: id, since: third)) == 3)
        var balance = try await scene.balance(id)
        #expect(balance.pending == 3 && balance.delivered == 1)
        #expect(balance.dropped == dropped.merging(["zeroRate": 1]) { $1 })
        #expect(try await queue.audit().isClean)
        #expect(try await queue.deliverAll(id, limit: 10).map(\.id) == [3, 4, 6])
        balance = try await scene.balance(id)
        #expect(balance.delivered == 4 && balance.pending == 0)
        #expect(try await queue.redeliver(Redelivery(destination: id, since: since(0))) == 5)
        try await queue.close()
    }

    /// Of half a window another average would come, under another identity.
    @Test func windowsGoWholeAndOneThatLostItsBeginNotAtAll() async throws {
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        let id = worn.enrollment.id
        try await beat(queue, worn, 35)
        let first = try await queue.deliverAll(id, limit: 100)
        func extent(_ time: UTC) async throws -> Redelivery.Extent {
            try await queue.extent(
                of: Redelivery(destination: id, since: time, window: .seconds(10)))
        }
        func begins(_ index: Int) -> Bool {
            let window = { (time: UTC) in time.microseconds / 10_000_000 }
            return index == 0 || window(first[index].time) != window(first[index - 1].time)
        }
        let middle = try #require((12..<25).first { !begins($0) && !begins($0 + 1) })
        let whole = try #require((0...middle).last(where: begins))
        #expect(try await extent(first[middle].time).samples == 35 - whole)
        #expect(try await extent(since(0)).samples == 35)
        // The first windows go, and with them the begin of one.
        clock.advance(seconds: 1)
        #expect(try await queue.purgeSettled(before: first[middle].time) == middle)
        let next = try #require((middle..<35).first(where: begins))
        #expect(try await extent(since(0)).samples == 35 - next)
        try await queue.close()
    }
}
