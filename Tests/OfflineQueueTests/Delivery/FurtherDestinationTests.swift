import Basics
import Foundation
import GRDB
import Testing

@testable import OfflineQueue

@Suite("One sample, several destinations")
struct FurtherDestinationTests {
    let store: TestStore
    let clock = ManualClock()

    init() throws { store = try TestStore() }

    @Test func eachDestinationGetsEverySampleAndTheRowGoesWhenBothHaveIt() async throws {
        let scene = try await TwoDestinations(store, clock, beats: 10)
        let first = try await scene.queue.deliverAll(scene.own, limit: 4)
        #expect(try await scene.queue.purgeSettled() == 0)
        #expect(try await scene.balance(scene.elsewhere).pending == 10)
        let second = try await scene.queue.deliverAll(scene.elsewhere, limit: 3)
        #expect(
            first.map(\.uuid) == second.map(\.uuid) && first.map(\.frame) == second.map(\.frame))
        #expect(try await scene.queue.purgeSettled() == 10)
        for destination in [scene.own, scene.elsewhere] {
            #expect(try await scene.balance(destination).delivered == 10)
        }
        #expect(try await scene.queue.audit().isClean)
    }

    /// Delivered to the further destination, for the next transaction.
    private func settleSoon(_ scene: TwoDestinations, _ count: Int, from first: Int = 0)
        async throws
    {
        let batch = try await scene.queue.nextBatch(enrollment: scene.elsewhere, limit: count)
        try await scene.queue.settleSoon(
            enrollment: scene.elsewhere,
            batch.dropFirst(first).map { SettledSample($0, .delivered) },
            upload: UploadRecord(batch, outcome: "delivered"))
    }

    @Test func whatCanWaitIsSettledWithTheNextCommitAndPendingUntilThen() async throws {
        let scene = try await TwoDestinations(store, clock, beats: 10)
        try await settleSoon(scene, 4)
        #expect(try await scene.balance(scene.elsewhere).pending == 10)
        try await scene.beat(1)
        let balance = try await scene.balance(scene.elsewhere)
        #expect(balance.delivered == 4 && balance.pending == 7)
        #expect(try await scene.queue.uploads().map(\.count) == [4])
        // Without a commit, before the next samples.
        try await settleSoon(scene, 3)
        try await settleSoon(scene, 4)
        #expect(try await scene.balance(scene.elsewhere).delivered == 7)
        try await scene.queue.close()
        let queue = try await store.open(clock)
        #expect(try await queue.balance(of: .enrollment(scene.elsewhere)).delivered == 11)
        #expect(try await queue.audit().isClean)
    }

    @Test func whatCanWaitIsSettledWithinACommitsAgeWhereNothingIsRecorded() async throws {
        let scene = try await TwoDestinations(store, clock, beats: 10)
        try await settleSoon(scene, 4)
        clock.advance(seconds: 4)
        await scene.queue.commitIfDue()
        #expect(try await scene.balance(scene.elsewhere).delivered == 0)
        clock.advance(seconds: 1)
        await scene.queue.commitIfDue()
        #expect(try await scene.balance(scene.elsewhere).delivered == 4)
    }

    @Test func aProcessThatDiesBeforeItDeliversTheSameAgain() async throws {
        let scene = try await TwoDestinations(store, clock, beats: 10)
        let before = try await scene.queue.nextBatch(enrollment: scene.elsewhere, limit: 4)
        try await settleSoon(scene, 4)
        try await scene.queue.abandon()
        let queue = try await store.open(clock)
        let again = try await queue.nextBatch(enrollment: scene.elsewhere, limit: 4)
        #expect(again.map(\.uuid) == before.map(\.uuid))
        #expect(try await queue.audit().isClean)
    }

    @Test func outcomesThatDoNotFitSpoilNoCommitAndTheirSamplesAreDeliveredAgain() async throws {
        let scene = try await TwoDestinations(store, clock, beats: 10)
        try await settleSoon(scene, 4, from: 1)
        try await scene.beat(5)
        #expect(try await scene.balance(scene.own).pending == 15)
        await #expect(throws: QueueError.self) {
            try await scene.queue.nextBatch(enrollment: scene.elsewhere, limit: 4)
        }
        let batch = try await scene.queue.nextBatch(enrollment: scene.elsewhere, limit: 100)
        #expect(batch.count == 15)
        #expect(try await scene.queue.uploads().isEmpty)
        #expect(try await scene.queue.audit().isClean)
    }

    @Test func aDestinationThatIsStuckCostsTheOtherNothingAndIsGivenUpAfterItsTime() async throws {
        let scene = try await TwoDestinations(store, clock)
        var terms = EnrollmentTerms.elsewhere()
        terms.keep = Coverage.day * 30
        try await scene.queue.updateEnrollment(scene.elsewhere, terms: terms)
        try await scene.beat(100)
        #expect(try await scene.queue.deliverAll(scene.own).count == 100)
        clock.advance(seconds: 29 * 86_400)
        #expect(try await scene.queue.prune() == 0)
        #expect(try await scene.balance(scene.elsewhere).pending == 100)
        clock.advance(seconds: 86_400)
        #expect(try await scene.queue.prune() == 100)
        #expect(
            try await scene.balance(scene.elsewhere).dropped == [LossReason.maxAge.rawValue: 100])
        #expect(try await scene.balance(scene.own).delivered == 100)
        #expect(try await scene.queue.audit().isClean)
    }

    /// A store that is full after some thousand samples.
    private func smallStore() async throws -> TwoDestinations {
        var settings = QueueSettings()
        settings.maxBytes = 150 * 1024
        return try await TwoDestinations(store, clock, settings: settings)
    }

    @Test func aFullStoreGivesUpWhatAFurtherDestinationWaitsForBeforeItRefuses() async throws {
        let scene = try await smallStore()
        for _ in 0..<30 {
            try await scene.beat(300)
            try await scene.queue.deliverAll(scene.own)
        }
        let own = try await scene.balance(scene.own)
        #expect(own.delivered == 9_000 && own.refused.isEmpty && own.dropped.isEmpty)
        let elsewhere = try await scene.balance(scene.elsewhere)
        #expect(elsewhere.dropped[LossReason.queueFull.rawValue] ?? 0 > 3_000)
        #expect(elsewhere.pending > 1_000 && elsewhere.delivered == 0)
        #expect(try await scene.queue.audit().isClean)
        // What is still there is the newest, and goes out in order.
        let rest = try await scene.queue.deliverAll(scene.elsewhere)
        #expect(rest.map(\.id) == rest.map(\.id).sorted() && rest.last?.id == 9_000)
    }

    @Test func whatItsOwnDestinationWaitsForIsNeverGivenUpForAFurtherOne() async throws {
        let scene = try await smallStore()
        for _ in 0..<20 {
            try await scene.beat(300)
            try await scene.queue.deliverAll(scene.elsewhere)
        }
        let own = try await scene.balance(scene.own)
        let refused = own.refused[LossReason.queueFull.rawValue] ?? 0
        #expect(refused > 1_000 && own.pending == 6_000 - refused && own.dropped.isEmpty)
        #expect(try await scene.balance(scene.elsewhere).delivered == 6_000 - refused)
        #expect(try await scene.queue.audit().isClean)
    }

    @Test func whatOneRefusesTheOtherStillGets() async throws {
        let scene = try await TwoDestinations(store, clock, beats: 6)
        try await scene.refuse(scene.own, 2)
        try await scene.refuse(scene.elsewhere, 1)
        try await scene.queue.deliverAll(scene.own)
        try await scene.queue.deliverAll(scene.elsewhere)
        #expect(try await scene.balance(scene.elsewhere).delivered == 5)
        #expect(try await scene.queue.purgeSettled() == 4)
        let letters = try await scene.queue.deadLetters()
        #expect(letters.map(\.sampleID) == [2, 1, 1])
        #expect(Set(letters.map(\.enrollmentID)) == [scene.own, scene.elsewhere])
        #expect(try await scene.queue.deadLetters(of: scene.own).map(\.sampleID) == [2, 1])
        #expect(try await scene.queue.deadLetters(of: scene.elsewhere).map(\.sampleID) == [1])
        #expect(try await scene.queue.deadLetters(of: scene.own, before: 2).map(\.sampleID) == [1])
        // Given up at one, it stays for the other.
        try await scene.queue.purge(deadLetters: [1], destination: scene.own)
        #expect(try await scene.queue.deadLetters().map(\.sampleID) == [2, 1])
        await #expect(throws: QueueError.self) {
            try await scene.queue.requeue(deadLetters: [2], destination: scene.elsewhere)
        }
        try await scene.queue.requeue(deadLetters: [1, 2])
        #expect(try await scene.queue.deliverAll(scene.elsewhere).map(\.id) == [1])
        #expect(try await scene.queue.deliverAll(scene.own).map(\.id) == [2])
        #expect(try store.number("SELECT count(*) FROM sample") == 0)
        #expect(try await scene.queue.audit().isClean)
    }

    @Test func whatIsDroppedForOneWhileItsRequestIsUnderWayCountsAsItSays() async throws {
        let scene = try await TwoDestinations(store, clock, beats: 4)
        let batch = try await scene.queue.nextBatch(enrollment: scene.elsewhere, limit: 4)
        let own = try await scene.queue.nextBatch(enrollment: scene.own, limit: 4)
        try await scene.queue.remove(destination: scene.elsewhere, from: scene.assignment.id)
        #expect(
            try await scene.balance(scene.elsewhere).dropped
                == [SampleQueue.destinationRemoved: 4])
        try await scene.queue.settle(
            enrollment: scene.elsewhere, batch.prefix(3).map { SettledSample($0, .delivered) })
        let balance = try await scene.balance(scene.elsewhere)
        #expect(balance.delivered == 3 && balance.dropped == [SampleQueue.destinationRemoved: 1])
        try await scene.queue.settle(
            enrollment: scene.own, own.map { SettledSample($0, .delivered) })
        #expect(try await scene.balance(scene.own).delivered == 4)
        #expect(try await scene.queue.audit().isClean)
    }

    /// The outcome of the whole batch was lost, that of other patients' samples too, and they were sent again.
    @Test func whatWasPutBackAndIsDroppedWhileItIsUnderWayCountsAsItSays() async throws {
        let scene = try await TwoDestinations(store, clock, beats: 4)
        try await scene.refuse(scene.elsewhere, 2)
        try await scene.queue.requeue(deadLetters: [1, 2])
        let batch = try await scene.queue.nextBatch(enrollment: scene.elsewhere, limit: 4)
        #expect(batch.map(\.id) == [1, 2, 3, 4])
        try await scene.queue.remove(destination: scene.elsewhere, from: scene.assignment.id)
        try await scene.queue.settle(
            enrollment: scene.elsewhere,
            batch.filter { $0.id != 2 }.map { SettledSample($0, .delivered) })
        let balance = try await scene.balance(scene.elsewhere)
        #expect(balance.delivered == 3 && balance.dropped == [SampleQueue.destinationRemoved: 1])
        #expect(try await scene.queue.audit().isClean)
    }

    @Test func aPatientIsErasedWhereverItsSamplesWent() async throws {
        let scene = try await TwoDestinations(store, clock, beats: 5)
        try await scene.refuse(scene.elsewhere, 1)
        try await scene.queue.endAssignment(sensor: scene.assignment.sensorID)
        while try await !scene.queue.erase(Erasure(enrollment: scene.own)) {}
        #expect(try await scene.balance(scene.elsewhere) == Balance())
        for table in ["sample", "further_delivery", "further_dead_letter", "further_destination"] {
            #expect(try store.number("SELECT count(*) FROM \(table)") == 0)
        }
        #expect(try await scene.queue.audit().isClean)
    }

    @Test func erasingADestinationLeavesTheSamplesOfTheOthers() async throws {
        let scene = try await TwoDestinations(store, clock, beats: 5)
        try await scene.refuse(scene.elsewhere, 1)
        while try await !scene.queue.erase(Erasure(enrollment: scene.elsewhere)) {}
        #expect(try await scene.queue.enrollments().map(\.id) == [scene.own])
        #expect(try await scene.queue.deliverAll(scene.own).count == 5)
        try await scene.beat(1)
        #expect(try await scene.queue.deliverAll(scene.own).count == 1)
        #expect(try await scene.queue.audit().isClean)
    }

    /// The first page gone, everything has to be found in the bytes of the others.
    @Test func aBrokenStoreKeepsTheBooksOfBoth() async throws {
        let scene = try await TwoDestinations(store, clock, beats: 60)
        try await scene.refuse(scene.elsewhere, 1)
        try await scene.settle(scene.elsewhere, 20, .delivered)
        try await scene.queue.deliverAll(scene.own)
        let before = try await scene.balance(scene.elsewhere)
        try await scene.queue.close()
        let handle = try FileHandle(forUpdating: URL(fileURLWithPath: store.path))
        try handle.write(contentsOf: Data(count: 512))
        try handle.close()

        let queue = try await store.open(clock, bootID: "boot-2")
        #expect(await queue.health().salvage?.carried == 60)
        #expect(try await queue.balance(of: .enrollment(scene.elsewhere)) == before)
        #expect(try await queue.balance(of: .enrollment(scene.own)).delivered == 60)
        let rest = try await queue.deliverAll(scene.elsewhere)
        let nonce = await scene.queue.run.nonce
        let expected = (22...60).map { SampleIdentity(runNonce: nonce, sample: $0).description }
        #expect(rest.map(\.uuid) == expected)
        #expect(try await queue.furtherDestinations(of: scene.assignment.id) == [scene.elsewhere])
        #expect(try await queue.audit().isClean)
    }

    @Test func aFurtherDestinationIsToldTheInvitationsPatient() async throws {
        let scene = try await TwoDestinations(store, clock, beats: 2)
        let batch = try await scene.queue.nextBatch(enrollment: scene.elsewhere, limit: 10)
        #expect(batch.map(\.patient) == ["p-1", "p-1"])
        try await scene.refuse(scene.elsewhere, 1)
        try await scene.queue.requeue(deadLetters: [1])
        let again = try await scene.queue.nextBatch(enrollment: scene.elsewhere, limit: 1)
        #expect(again.map(\.patient) == ["p-1"])
    }

    /// Nothing said that samples of a strap paired by invitation, which names no patient itself, are held at a
    /// relay: they counted as pending.
    @Test func samplesOfAnInvitationsHeldPatientAreHeldAtAFurtherDestination() async throws {
        let scene = try await TwoDestinations(store, clock, beats: 3)
        let (queue, relay) = (scene.queue, scene.elsewhere)
        let enrollments = try await queue.enrollments()
        #expect(scene.assignment.patient == nil)
        let patient = try #require(scene.assignment.patient(among: enrollments))
        await queue.setHolds(enrollment: relay, patients: [patient: "wrong-patient"])
        #expect(try await queue.nextBatch(enrollment: relay, limit: 9).count == 3)
        #expect(
            try await queue.nextPending(enrollment: relay, limit: 9, of: .except([patient]))
                .samples.isEmpty)
        let balance = try await scene.balance(relay)
        #expect(balance.held == ["wrong-patient": 3] && balance.pending == 0)
        #expect(try await queue.totals().pending[relay] ?? 0 == 0)
        #expect(try await scene.balance(scene.own).pending == 3)
        #expect(try await queue.totals().pending[scene.own] == 3)
    }

    @Test func sqliteItselfKeepsARowThatADestinationWaitsFor() async throws {
        let scene = try await TwoDestinations(store, clock, beats: 5)
        try await scene.queue.deliverAll(scene.own)
        try await scene.queue.close()
        for statement in [
            "UPDATE segment SET pruned_through = 3", "UPDATE segment SET pruned = 1",
            "UPDATE further_delivery SET delivered = 6",
            "UPDATE further_delivery SET settled_through = 6",
        ] {
            #expect(throws: DatabaseError.self) { try store.execute(statement) }
        }
    }

    @Test func whatFurtherDestinationsWaitForIsToldForAPatientsOwnEnrollment() async throws {
        let scene = try await TwoDestinations(store, clock, beats: 5)
        try await scene.queue.deliverAll(scene.own)
        try await scene.settle(scene.elsewhere, 2, .delivered)
        #expect(try await scene.balance(scene.own).unsent == 0)
        let further = try await scene.queue.furtherBalance(of: .enrollment(scene.own))
        #expect(further.isBalanced && further.unsent == 3 && further.delivered == 2)
        // What goes there is in its own books.
        let none = try await scene.queue.furtherBalance(of: .enrollment(scene.elsewhere))
        #expect(none == Balance())
    }

    @Test func theTotalsAndWhatWaitsAreToldByDestination() async throws {
        let scene = try await TwoDestinations(store, clock, beats: 5)
        try await scene.queue.deliverAll(scene.own)
        try await scene.refuse(scene.elsewhere, 1)
        let totals = try await scene.queue.totals()
        #expect(totals.received == [scene.assignment.sensorID: 5] && totals.dead == 1)
        #expect(totals.settled == [scene.own: 5, scene.elsewhere: 1])
        #expect(totals.pending == [scene.own: 0, scene.elsewhere: 4])
        let own = try await scene.balance(scene.own)
        #expect(own.pending == 0 && own.oldestUnsent == nil)
        let further = try await scene.balance(scene.elsewhere)
        #expect(further.pending == 4)
        #expect(further.oldestUnsent == ManualClock.midnight + .seconds(1))
        #expect(
            try await scene.queue.nextRanges(
                enrollment: scene.elsewhere, perSegment: 3, limit: 10
            ).map(\.samples.count) == [3])
    }
}
