import Basics
import OfflineQueue
import Testing

@Suite("Who wears what, and where it goes")
struct RegistryTests {
    let store: TestStore
    let clock = ManualClock()
    let queue: SampleQueue

    init() async throws {
        store = try TestStore()
        queue = try await store.open(clock)
    }

    @Test func samplesBeforeAHandOverGoToTheFirstPatient() async throws {
        let one = try await Worn(queue, 1)
        let second = try await queue.enroll(.example("ward-9", patient: "p-9"))
        for bpm in UInt8(60)..<65 { try await queue.beat(one.assignment, bpm: bpm, clock) }
        let sent = clock.read()
        clock.advance(seconds: 1)
        let after = try await queue.assign(sensor: one.sensor.id, enrollment: second.id)
        // A frame on its way at the hand-over is of whoever wore the strap when it was sent.
        try await queue.append(Arrival(sensorID: one.sensor.id, at: sent, frame: [0, 65]))
        for bpm in UInt8(70)..<75 { try await queue.beat(after, bpm: bpm, clock) }
        try await queue.close()

        let reopened = try await store.open(clock)
        let late = try await reopened.deliverAll(second.id)
        let early = try await reopened.deliverAll(one.enrollment.id)
        #expect(late.map { $0.frame[1] } == [70, 71, 72, 73, 74])
        #expect(early.map { $0.frame[1] } == [60, 61, 62, 63, 64, 65])
        #expect(try await reopened.openAssignments().map(\.id) == [after.id])
        #expect(try await reopened.assignments().map(\.isOpen) == [false, true])
    }

    @Test func aSensorWithoutEnrollmentRecordsAndIsBoundOnce() async throws {
        let sensor = try await queue.addSensor(address: "a0:9e:1a:00:00:01")
        #expect(sensor.address == "A0:9E:1A:00:00:01")
        let assignment = try await queue.assign(sensor: sensor.id, enrollment: nil)
        try await queue.beat(assignment, clock)
        try await queue.flush()
        #expect(try await queue.balance().held == ["not-enrolled": 1])

        let enrollment = try await queue.enroll(.example())
        let bound = try await queue.assign(sensor: sensor.id, enrollment: enrollment.id)
        #expect(bound.id == assignment.id && bound.enrollmentID == enrollment.id)
        #expect(try await queue.balance().pending == 1)
        #expect(try await queue.deliverAll(enrollment.id).count == 1)

        let other = try await queue.enroll(.example("other", patient: "p-2"))
        await #expect {
            try await queue.bind(assignment: assignment.id, enrollment: other.id)
        } throws: {
            ($0 as? QueueError)?.code == .alreadySet
        }
        // Unassigned again: a new assignment, and the old one keeps its enrollment.
        let free = try await queue.assign(sensor: sensor.id, enrollment: nil)
        #expect(free.id != assignment.id && free.enrollmentID == nil)
        #expect(try await queue.assignments().map(\.enrollmentID) == [enrollment.id, nil])
    }

    @Test func anEndedAssignmentCanBeBoundLater() async throws {
        let sensor = try await queue.addSensor(address: "A0:9E:1A:00:00:01")
        let assignment = try await queue.assign(sensor: sensor.id, enrollment: nil)
        try await queue.beat(assignment, clock)
        try await queue.forgetSensor(sensor.id)
        #expect(try await queue.sensors().isEmpty)
        #expect(try await queue.sensors(includingForgotten: true).map(\.isForgotten) == [true])
        let enrollment = try await queue.enroll(.example())
        try await queue.bind(assignment: assignment.id, enrollment: enrollment.id)
        try await queue.flush()
        #expect(try await queue.deliverAll(enrollment.id).count == 1)
        await #expect(throws: QueueError.self) {
            try await queue.assign(sensor: sensor.id, enrollment: enrollment.id)
        }
        try await queue.addSensor(address: "A0:9E:1A:00:00:01")
        #expect(try await queue.sensors().map(\.id) == [sensor.id])
    }

    @Test func whatWaitsWithoutAnEnrollmentIsListedUntilItIsBound() async throws {
        let sensor = try await queue.addSensor(address: "A0:9E:1A:00:00:01")
        let first = try await queue.assign(sensor: sensor.id, enrollment: nil, patient: "p-1")
        for _ in 0..<3 {
            try await queue.beat(first, clock)
            clock.advance(seconds: 1)
        }
        let second = try await queue.assign(sensor: sensor.id, enrollment: nil, patient: "p-2")
        try await queue.beat(second, clock)
        // One that holds nothing needs nobody.
        let other = try await queue.addSensor(address: "A0:9E:1A:00:00:02")
        try await queue.assign(sensor: other.id, enrollment: nil)
        try await queue.flush()
        let found = try await queue.unboundSamples()
        #expect(found.map(\.assignment.id) == [first.id, second.id])
        #expect(found.map(\.samples) == [3, 1])
        #expect(found.map(\.isRecording) == [false, true])
        let midnight = ManualClock.midnight
        #expect(found[0].times == midnight...midnight + .seconds(2))
        #expect(found[1].times == midnight + .seconds(3)...midnight + .seconds(3))
        var totals = try await queue.totals()
        #expect(totals.notEnrolled == 4 && totals.notEnrolledEnded == 3)

        let clinic = try await queue.enroll(.example("clinic", patient: nil))
        try await queue.bind(assignment: first.id, enrollment: clinic.id, patient: "p-1")
        #expect(try await queue.unboundSamples().map(\.assignment.id) == [second.id])
        try await queue.forgetSensor(sensor.id)
        totals = try await queue.totals()
        #expect(totals.notEnrolled == 1 && totals.notEnrolledEnded == 1)
        #expect(try await queue.unboundSamples().map(\.isRecording) == [false])
    }

    @Test func samplesWithoutAnEnrollmentAndATimeAreListedWithoutOne() async throws {
        let lost = try TestStore()
        let clock = ManualClock(isTrusted: false)
        let queue = try await lost.open(clock)
        let sensor = try await queue.addSensor(address: "A0:9E:1A:00:00:01")
        let assignment = try await queue.assign(sensor: sensor.id, enrollment: nil)
        try await queue.beat(assignment, clock)
        try await queue.flush()
        let found = try await queue.unboundSamples()
        #expect(found.map(\.samples) == [1] && found[0].times == nil)
    }

    @Test func assigningTheSameAgainChangesNothing() async throws {
        let worn = try await Worn(queue)
        let again = try await queue.assign(sensor: worn.sensor.id, enrollment: worn.enrollment.id)
        #expect(again == worn.assignment)
    }

    @Test func aPractitionersEnrollmentNeedsThePatient() async throws {
        let sensor = try await queue.addSensor(address: "A0:9E:1A:00:00:01")
        let delivery = try await queue.enroll(.example("clinic", patient: nil))
        await #expect {
            try await queue.assign(sensor: sensor.id, enrollment: delivery.id)
        } throws: {
            ($0 as? QueueError)?.code == .invalidArgument
        }
        let ada = try await queue.assign(sensor: sensor.id, enrollment: delivery.id, patient: "ada")
        try await queue.beat(ada, clock)
        clock.advance(seconds: 1)
        let bob = try await queue.assign(sensor: sensor.id, enrollment: delivery.id, patient: "bob")
        try await queue.beat(bob, clock)
        try await queue.flush()
        #expect(try await queue.deliverAll(delivery.id).map(\.patient) == ["ada", "bob"])
        let invitation = try await queue.enroll(.example("one", patient: "p-1"))
        await #expect(throws: QueueError.self) {
            try await queue.assign(sensor: sensor.id, enrollment: invitation.id, patient: "ada")
        }
    }

    @Test func thePatientOfAnEnrollmentIsFoundOnceAndNeverChanged() async throws {
        var terms = EnrollmentTerms.example()
        terms.patient = nil
        let delivery = try await queue.enroll(terms)
        terms.patient = "40001"
        terms.device = "70007"
        try await queue.updateEnrollment(delivery.id, terms: terms)
        terms.device = "70008"
        try await queue.updateEnrollment(delivery.id, terms: terms)
        #expect(try await queue.enrollments().map(\.terms) == [terms])
        terms.patient = "40002"
        await #expect {
            try await queue.updateEnrollment(delivery.id, terms: terms)
        } throws: {
            ($0 as? QueueError)?.code == .alreadySet
        }
        await #expect { try await queue.enroll(.example()) } throws: {
            ($0 as? QueueError)?.code == .alreadySet
        }
    }

    @Test func theDatabaseItselfRefusesToEditAnAssignment() async throws {
        let worn = try await Worn(queue)
        let other = try await queue.enroll(.example("other", patient: "p-2"))
        for change in [
            "enrollment = \(other.id)", "enrollment = NULL", "patient = 'x'",
            "began_uptime_us = 1",
        ] {
            #expect(throws: (any Error).self) {
                try store.execute(
                    "UPDATE assignment SET \(change) WHERE id = \(worn.assignment.id)")
            }
        }
        #expect(throws: (any Error).self) { try store.execute("DELETE FROM assignment") }
    }

    @Test func holdsAreReasonsAndGoAway() async throws {
        let worn = try await Worn(queue)
        try await queue.beat(worn.assignment, clock)
        try await queue.flush()
        let delivery = worn.enrollment.id
        try await queue.setHold(enrollment: delivery, reason: "no-consent")
        #expect(try await queue.enrollments().first?.holdReason == "no-consent")
        #expect(try await queue.balance().held == ["no-consent": 1])
        #expect(try await queue.balance(of: .enrollment(delivery)).isBalanced)
        try await queue.setState(enrollment: delivery, .enrollAgain)
        #expect(try await queue.balance().held == ["enroll-again": 1])
        try await queue.setState(enrollment: delivery, .active)
        try await queue.setHold(enrollment: delivery, reason: nil)
        #expect(try await queue.balance().pending == 1)
        #expect(try await queue.enrollments().first?.holdReason == nil)
    }

    /// They were two changes. A disk that was full at the second left an enrollment "active" that was held for a lost
    /// authorization, and after a restart nothing put it right.
    @Test("a hold and what it says of the authorization are one change")
    func holdAndState() async throws {
        let delivery = try await Worn(queue).enrollment.id
        try await queue.setHold(
            enrollment: delivery, reason: "enroll-again", state: .enrollAgain)
        try store.execute(
            """
            CREATE TRIGGER full BEFORE UPDATE OF state ON enrollment
            BEGIN SELECT RAISE(ABORT, 'full'); END
            """)
        await #expect(throws: QueueError.self) {
            try await queue.setHold(enrollment: delivery, reason: nil, state: .active)
        }
        let known = try #require(try await queue.enrollments().first)
        #expect(known.holdReason == "enroll-again" && known.state == .enrollAgain)
        try store.execute("DROP TRIGGER full")
        try await queue.setHold(enrollment: delivery, reason: "no-consent", state: .active)
        try await queue.setHold(enrollment: delivery, reason: nil)
        let released = try #require(try await queue.enrollments().first)
        #expect(released.holdReason == nil && released.state == .active)
    }

    @Test func samplesOfAHeldPatientAreHeld() async throws {
        let ward = try await queue.enroll(.example("ward", patient: nil))
        for (number, patient) in ["ada", "bob"].enumerated() {
            let sensor = try await queue.addSensor(address: "A0:9E:1A:00:00:0\(number)")
            let assignment = try await queue.assign(
                sensor: sensor.id, enrollment: ward.id, patient: patient)
            for _ in 0...number { try await queue.beat(assignment, clock) }
        }
        try await queue.flush()
        #expect(try await queue.balance(of: .enrollment(ward.id)).pending == 3)
        await queue.setHolds(enrollment: ward.id, patients: ["ada": "no-consent"])
        let balance = try await queue.balance(of: .enrollment(ward.id))
        #expect(balance.pending == 2 && balance.held == ["no-consent": 1])
    }

    @Test func anEnrollmentIsRenewedAsAWholeOrNotAtAll() async throws {
        #expect(try await queue.nextEnrollmentID() == 1)
        let first = try await queue.enroll(.example("one", patient: "p"), as: 1, hold: "no-consent")
        #expect(first.id == 1 && first.holdReason == "no-consent")
        try await queue.setState(enrollment: 1, .enrollAgain)
        var terms = first.terms
        terms.device = "70008"
        try await queue.renewEnrollment(1, terms: terms, hold: nil)
        var stored = try #require(try await queue.enrollments().first)
        #expect(stored.state == .active && stored.holdReason == nil && stored.terms == terms)
        terms.patient = "q"
        await #expect(throws: QueueError.self) {
            try await queue.renewEnrollment(1, terms: terms, hold: "x")
        }
        stored = try #require(try await queue.enrollments().first)
        #expect(stored.terms.patient == "p" && stored.holdReason == nil)
        #expect(try await queue.nextEnrollmentID() == 2)
    }

    @Test func undecodableFramesAreKeptAndCounted() async throws {
        let worn = try await Worn(queue)
        let reading = clock.read()
        let id = worn.sensor.id
        try await queue.append(contentsOf: [
            Arrival(sensorID: id, at: reading, frame: [], fault: "empty"),
            Arrival(sensorID: id, at: reading, frame: [0, 61], flags: .max),
            Arrival(sensorID: id, at: reading, frame: Array(repeating: 7, count: 9_000)),
        ])
        try await queue.flush()
        let balance = try await queue.balance(of: .sensor(worn.sensor.id))
        #expect(balance.received == 3 && balance.stored == 1 && balance.undecodable == 2)
        #expect(balance.isBalanced)
        #expect(try await queue.audit().isClean)
        #expect(try store.number("SELECT max(length(frame)) FROM undecodable") == 512)
        #expect(try await queue.deliverAll(worn.enrollment.id).map(\.flags) == [.max])
    }

    @Test func framesOfAStrapThatNobodyWearsAreNotStored() async throws {
        let worn = try await Worn(queue)
        try await queue.beat(worn.assignment, clock)
        try await queue.append(
            contentsOf: [99, worn.sensor.id, 98].map {
                Arrival(sensorID: $0, at: clock.read(), frame: [0, 60])
            })
        try await queue.flush()
        let balance = try await queue.balance()
        #expect(balance.stored == 2 && balance.isBalanced)
    }
}
