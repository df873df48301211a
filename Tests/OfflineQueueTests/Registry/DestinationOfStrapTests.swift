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
}
