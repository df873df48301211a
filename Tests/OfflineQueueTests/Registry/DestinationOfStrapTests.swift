import Basics
import Testing

@testable import OfflineQueue

@Suite("Which samples a further destination gets, and from when on")
struct DestinationOfStrapTests {
    let store: TestStore
    let clock = ManualClock()

    init() throws { store = try TestStore() }

    @Test(arguments: [DestinationBeginning.now, .kept])
    func aDestinationAddedLaterBeginsWhereItIsTold(beginning: DestinationBeginning) async throws {
        let scene = try await TwoDestinations(store, clock, isAdded: false)
        try await scene.beat(10)
        try await scene.refuse(scene.own, 1)
        let batch = try await scene.queue.nextBatch(enrollment: scene.own, limit: 4)
        try await scene.queue.settle(
            enrollment: scene.own, batch.map { SettledSample($0, .delivered) })
        #expect(try await scene.queue.purgeSettled() == 4)
        try await scene.queue.add(
            destination: scene.elsewhere, to: scene.assignment.id, from: beginning)
        try await scene.beat(3)
        let balance = try await scene.balance(scene.elsewhere)
        // Five are kept; the dead letter before them is for its own destination.
        #expect(balance.pending == (beginning == .now ? 3 : 8) && balance.stored == balance.pending)
        try await scene.queue.purge(deadLetters: [1])
        try await scene.queue.deliverAll(scene.elsewhere)
        try await scene.queue.deliverAll(scene.own)
        #expect(try await scene.queue.purgeSettled() == 8)
        #expect(try await scene.queue.audit().isClean)
    }

    @Test func aRemovedDestinationGetsNothingMoreUntilItIsAddedAgain() async throws {
        let scene = try await TwoDestinations(store, clock)
        try await scene.beat(2)
        try await scene.queue.remove(destination: scene.elsewhere, from: scene.assignment.id)
        #expect(try await scene.queue.furtherDestinations(of: scene.assignment.id).isEmpty)
        try await scene.beat(3)
        #expect(try await scene.queue.nextBatch(enrollment: scene.elsewhere, limit: 9).isEmpty)
        try await scene.queue.add(
            destination: scene.elsewhere, to: scene.assignment.id, from: .kept)
        // What was dropped for it stays dropped.
        #expect(try await scene.queue.deliverAll(scene.elsewhere).count == 3)
        #expect(try await scene.queue.audit().isClean)
    }

    @Test func aDestinationOfEveryStrapGetsThoseThatAreWornNowAndThoseThatComeLater() async throws {
        let scene = try await TwoDestinations(store, clock, isAdded: false)
        try await scene.beat(3)
        var terms = EnrollmentTerms.elsewhere("home")
        terms.takesEveryStrap = true
        let home = try await scene.queue.enroll(terms).id
        try await scene.beat(2)
        #expect(try await scene.queue.deliverAll(home).map(\.id) == [4, 5])
        let later = try await Worn(scene.queue, 2)
        try await scene.queue.beat(later.assignment, clock)
        try await scene.queue.flush()
        #expect(try await scene.queue.deliverAll(home).map(\.id) == [6])
        #expect(try await scene.balance(home).isBalanced)
        #expect(try await scene.queue.audit().isClean)
    }

    @Test func aStrapThatWasTakenFromADestinationOfEveryStrapStaysAway() async throws {
        let scene = try await TwoDestinations(store, clock, isAdded: false)
        var terms = EnrollmentTerms.elsewhere("home")
        terms.takesEveryStrap = true
        let home = try await scene.queue.enroll(terms).id
        try await scene.queue.remove(destination: home, from: scene.assignment.id)
        try await scene.queue.updateEnrollment(home, terms: terms)
        try await scene.beat(2)
        #expect(try await scene.queue.deliverAll(home).isEmpty)
    }

    @Test func whatIsKeptGoesToADestinationThatBeganLater() async throws {
        let scene = try await TwoDestinations(store, clock, isAdded: false)
        try await scene.beat(3)
        try await scene.queue.add(
            destination: scene.elsewhere, to: scene.assignment.id, from: .now)
        try await scene.beat(1)
        try await scene.queue.add(
            destination: scene.elsewhere, to: scene.assignment.id, from: .kept)
        #expect(try await scene.queue.deliverAll(scene.elsewhere).count == 4)
        #expect(try await scene.queue.audit().isClean)
    }

    @Test func whatIsOlderThanItsKeepDaysIsNotDroppedBeforeTheDestinationHadTheTimeToTakeIt()
        async throws
    {
        let scene = try await TwoDestinations(store, clock, isAdded: false)
        try await scene.beat(3)
        clock.advance(seconds: 5 * 86_400)
        var terms = EnrollmentTerms.elsewhere("late")
        terms.keep = Coverage.day * 2
        let late = try await scene.queue.enroll(terms).id
        try await scene.queue.add(destination: late, to: scene.assignment.id, from: .kept)
        clock.advance(seconds: 86_400)
        try await scene.queue.prune()
        #expect(try await scene.balance(late).pending == 3)
        clock.advance(seconds: 86_401)
        try await scene.queue.prune()
        #expect(try await scene.balance(late).dropped == [LossReason.maxAge.rawValue: 3])
        #expect(try await scene.queue.audit().isClean)
    }

    @Test func anExchangeIsNoFurtherDestination() async throws {
        let scene = try await TwoDestinations(store, clock, isAdded: false)
        let other = try await scene.queue.enroll(.example("other", patient: "p-2")).id
        await #expect(throws: QueueError.self) {
            try await scene.queue.add(destination: other, to: scene.assignment.id, from: .now)
        }
    }

    /// A strap that was paired before there was any destination. It was held for ever, and could not be bound to a
    /// destination that takes every strap, since what came after went there already.
    private func unbound(_ queue: SampleQueue) async throws -> (Assignment, Int64) {
        let sensor = try await queue.addSensor(address: "A0:9E:1A:00:00:07")
        let assignment = try await queue.assign(sensor: sensor.id, enrollment: nil)
        try await beat(queue, assignment, 3)
        var terms = EnrollmentTerms.elsewhere("home")
        terms.takesEveryStrap = true
        let home = try await queue.enroll(terms).id
        try await beat(queue, assignment, 6)
        try await queue.flush()
        return (assignment, home)
    }

    private func beat(_ queue: SampleQueue, _ assignment: Assignment, _ count: Int) async throws {
        for _ in 0..<count {
            try await queue.beat(assignment, clock)
            clock.advance(seconds: 1)
        }
    }

    @Test(arguments: [false, true])
    func aDestinationOfEveryStrapBecomesTheOwnOneWithAllThatWasHeld(isPaired: Bool) async throws {
        let queue = try await store.open(clock)
        let (assignment, home) = try await unbound(queue)
        // One delivered, one refused for good, one withheld, one under way.
        let batch = try await queue.nextBatch(enrollment: home, limit: 4)
        #expect(batch.map(\.id) == [4, 5, 6, 7])
        try await queue.settle(
            enrollment: home,
            [
                SettledSample(batch[0], .delivered),
                SettledSample(batch[1], .dead(reason: "r", diagnostics: "d")),
                SettledSample(batch[2], .dropped(reason: "zero-rate")),
            ])
        if isPaired {
            let again = try await queue.assign(sensor: assignment.sensorID, enrollment: home)
            #expect(again.id == assignment.id && again.enrollmentID == home)
        } else {
            #expect(try await queue.bind(assignment: assignment.id, enrollment: home) == 6)
        }
        #expect(try await queue.audit().isClean)
        #expect(try await queue.furtherDestinations(of: assignment.id).isEmpty)
        let balance = try await queue.balance()
        #expect(balance.isBalanced && balance.held.isEmpty && balance.delivered == 1)
        #expect(balance.dead == 1 && balance.dropped == ["zero-rate": 1])
        #expect(try await queue.balance(of: .enrollment(home)).stored == 9)
        // What was under way is settled as what it is now.
        try await queue.settle(enrollment: home, [SettledSample(batch[3], .delivered)])
        #expect(try await queue.deliverAll(home).map(\.id) == [1, 2, 3, 8, 9])
        #expect(try await queue.requeue(deadLetters: [5], destination: home) == 1)
        #expect(try await queue.deliverAll(home).map(\.id) == [5])
        try await beat(queue, assignment, 2)
        try await queue.flush()
        #expect(try await queue.deliverAll(home).map(\.id) == [10, 11])
        #expect(try await queue.purgeSettled() == 11)
        #expect(try await queue.audit().isClean)
    }

    /// What was under way was dropped for want of room after that, and arrived all the same.
    @Test func whatIsDroppedUnderWayAndArrivesIsTakenBackAtTheOwnDestination() async throws {
        var settings = QueueSettings()
        settings.maxAge = Coverage.day * 10
        let queue = try await store.open(clock, settings: settings)
        let (assignment, home) = try await unbound(queue)
        let batch = try await queue.nextBatch(enrollment: home, limit: 6)
        try await queue.bind(assignment: assignment.id, enrollment: home)
        clock.advance(seconds: 40 * 86_400)
        try await queue.prune()
        #expect(try await queue.balance().dropped == [LossReason.maxAge.rawValue: 9])
        try await queue.settle(enrollment: home, batch.map { SettledSample($0, .delivered) })
        let balance = try await queue.balance()
        #expect(balance.delivered == 6 && balance.dropped == [LossReason.maxAge.rawValue: 3])
        #expect(try await queue.audit().isClean)
    }

    @Test func whatWasDiscardedAndIsWantedThereIsDeliveredAndCountedOnce() async throws {
        let queue = try await store.open(clock)
        let (assignment, home) = try await unbound(queue)
        #expect(try await queue.discard(assignment: assignment.id) == 9)
        try await queue.add(destination: home, to: assignment.id, from: .now)
        let late = try await queue.enroll(.elsewhere("late")).id
        #expect(try await queue.deliverAll(home).count == 6)
        #expect(try await queue.purgeSettled() == 9)
        try await beat(queue, assignment, 2)
        try await queue.flush()
        try await queue.add(destination: late, to: assignment.id, from: .kept)
        #expect(try await queue.bind(assignment: assignment.id, enrollment: home) == 2)
        let balance = try await queue.balance()
        #expect(balance.dropped == ["discarded": 3] && balance.delivered == 6)
        #expect(balance.isBalanced && balance.pending == 2)
        #expect(try await queue.deliverAll(home).count == 2)
        #expect(try await queue.deliverAll(late).count == 2)
        #expect(try await queue.audit().isClean)
    }

    /// Half of a segment is gone when the destination comes.
    @Test func whatWasGoneBeforeTheDestinationCameStaysDropped() async throws {
        let queue = try await store.open(clock)
        let sensor = try await queue.addSensor(address: "A0:9E:1A:00:00:07")
        let assignment = try await queue.assign(sensor: sensor.id, enrollment: nil)
        try await beat(queue, assignment, 5)
        _ = try await queue.discard(assignment: assignment.id)
        try await queue.close()
        try store.execute(
            """
            DELETE FROM sample WHERE id IN (1, 2);
            UPDATE segment SET pruned_through = 2, pruned = 2
            """)
        let again = try await store.open(clock, bootID: "boot-2")
        let home = try await again.enroll(.elsewhere("home")).id
        try await again.add(destination: home, to: assignment.id, from: .kept)
        #expect(try await again.bind(assignment: assignment.id, enrollment: home) == 3)
        #expect(try await again.balance().dropped == ["discarded": 2])
        #expect(try await again.deliverAll(home).map(\.id) == [3, 4, 5])
        #expect(try await again.balance().isBalanced)
        #expect(try await again.audit().isClean)
    }
}
