import Basics
import Foundation
import Testing

@testable import OfflineQueue

@Suite("What waits, and since when")
struct WaitingTests {
    @Test func onlyWhatCanBeDeliveredCountsAsWaiting() async throws {
        let store = try TestStore()
        let clock = ManualClock()
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        let began = clock.read().wall
        #expect(try await queue.waiting(enrollment: worn.enrollment.id) == WaitingSamples())
        for _ in 0..<5 {
            try await queue.beat(worn.assignment, clock)
            clock.advance(seconds: 1)
        }
        try await queue.flush()
        var waiting = try await queue.waiting(enrollment: worn.enrollment.id)
        #expect(waiting.count == 5 && waiting.oldest == began)
        let batch = try await queue.nextBatch(enrollment: worn.enrollment.id, limit: 2)
        try await queue.settle(
            enrollment: worn.enrollment.id, batch.map { SettledSample($0, .delivered) })
        waiting = try await queue.waiting(enrollment: worn.enrollment.id)
        #expect(waiting.count == 3 && waiting.oldest == began + .seconds(2))
        try await queue.setHold(enrollment: worn.enrollment.id, reason: "no-consent")
        #expect(try await queue.waiting(enrollment: worn.enrollment.id) == WaitingSamples())
    }

    @Test func samplesOfHeldPatientsDoNotWait() async throws {
        let store = try TestStore()
        let clock = ManualClock()
        let queue = try await store.open(clock)
        let ward = try await queue.enroll(.example("ward", patient: nil))
        for (number, patient) in ["ada", "bob"].enumerated() {
            let sensor = try await queue.addSensor(address: "A0:9E:1A:00:00:0\(number)")
            let assignment = try await queue.assign(
                sensor: sensor.id, enrollment: ward.id, patient: patient)
            for _ in 0...number { try await queue.beat(assignment, clock) }
        }
        try await queue.flush()
        #expect(try await queue.waiting(enrollment: ward.id).count == 3)
        await queue.setHolds(enrollment: ward.id, patients: ["ada": "no-consent"])
        #expect(try await queue.waiting(enrollment: ward.id).count == 2)
    }

    /// Nothing said that samples of a strap paired by invitation, which names no patient itself, are held at a
    /// relay: they counted as pending.
    @Test func samplesOfAnInvitationsHeldPatientAreHeldAtAFurtherDestination() async throws {
        let store = try TestStore()
        let scene = try await TwoDestinations(store, ManualClock(), beats: 3)
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
        #expect(try await queue.waiting(enrollment: relay) == WaitingSamples())
        #expect(try await scene.balance(scene.own).pending == 3)
        #expect(try await queue.totals().pending[scene.own] == 3)
        #expect(try await queue.waiting(enrollment: scene.own).count == 3)
    }

    /// A file of one waiting sample measured at `time`.
    private func file(_ time: String, in store: TestStore) throws -> String {
        let uuid = SampleIdentity(runNonce: 7 << 32, sample: 1, kind: .heartRate).description
        let lines = [
            #"{"format":"edge-gateway-samples","version":1}"#,
            #"{"uuid":"\#(uuid)","time":"\#(time)","boot":"b","uptime_us":5,"sensor":"A0","#
                + #""assignment":1,"flags":0,"frame":"0048","state":"pending"}"#,
            #"{"samples":1,"damaged":0}"#,
        ]
        let path = store.directory.appendingPathComponent("import.ndjson").path
        try Data((lines.joined(separator: "\n") + "\n").utf8).write(to: URL(fileURLWithPath: path))
        return path
    }

    @Test func theOldestSampleMayBeAnImportedOne() async throws {
        let store = try TestStore()
        let clock = ManualClock()
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        try await queue.beat(worn.assignment, clock)
        try await queue.flush()
        try await queue.importSamples(
            from: file("2026-11-01T08:00:00.000000Z", in: store),
            into: ImportTarget(enrollmentID: worn.enrollment.id))
        let oldest = UTCText.time("2026-11-01T08:00:00.000000Z")
        #expect(try await queue.balance().oldestUnsent == oldest)
        #expect(
            try await queue.balance(of: .enrollment(worn.enrollment.id)).oldestUnsent
                == oldest)
    }

    @Test(arguments: [
        ("1970-01-01T00:00:00.000000Z", false), ("2001-09-09T01:46:40.000000Z", false),
        ("2009-12-31T23:59:59.999999Z", false), ("2010-01-01T00:00:00.000000Z", true),
        ("2026-12-01T00:00:00.000000Z", true), ("2026-12-01T23:00:00.000000Z", true),
        ("2026-12-02T01:00:00.000000Z", false), ("2096-01-01T00:00:00.000000Z", false),
    ])
    func samplesThatCannotHaveBeenMeasuredThenAreRefusedByTheirLine(
        time: String, isTaken: Bool
    ) async throws {
        let store = try TestStore()
        let queue = try await store.open(ManualClock())
        let worn = try await Worn(queue)
        let path = try file(time, in: store)
        let target = ImportTarget(enrollmentID: worn.enrollment.id)
        if isTaken {
            #expect(try await queue.importSamples(from: path, into: target).added == 1)
            return
        }
        await #expect {
            try await queue.importSamples(from: path, into: target)
        } throws: {
            let text = "\($0)"
            return ($0 as? QueueError)?.code == .invalidFile && text.contains("line 2:")
                && text.contains(time.prefix(10)) && text.contains("before 2010-01-01")
        }
        #expect(try await queue.balance().stored == 0)
    }

    @Test func withoutATrustedClockSamplesCannotBeReleasedIntoAnotherAge() async throws {
        let store = try TestStore()
        let clock = ManualClock(isTrusted: false)
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        try await queue.beat(worn.assignment, clock)
        try await queue.flush()
        let future = try #require(UTCText.time("2096-01-01T00:00:00.000000Z"))
        await #expect(throws: QueueError.self) {
            try await queue.release(bootID: "boot-1", wallOffset: future - .epoch)
        }
    }

    @Test func anEnrollmentIsRenewedAsAWholeOrNotAtAll() async throws {
        let store = try TestStore()
        let queue = try await store.open(ManualClock())
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
}
