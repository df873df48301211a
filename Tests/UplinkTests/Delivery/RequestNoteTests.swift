import Basics
import OfflineQueue
import Testbed
import Testing

@testable import Uplink

/// Sees during each request whether the store has a note of it.
private actor NoteReadingDestination: Destination {
    nonisolated let mayRace: Bool
    private(set) var notes: [Bool] = []
    private let queue: SampleQueue
    private let enrollment: Int64
    private let isReachable: Bool

    init(
        _ queue: SampleQueue, _ enrollment: Int64, mayRace: Bool = true, isReachable: Bool = true
    ) {
        self.queue = queue
        self.enrollment = enrollment
        self.mayRace = mayRace
        self.isReachable = isReachable
    }

    func deliver(_ points: [OutgoingPoint], alone: Bool) async -> DeliveryAnswer {
        notes.append((try? await queue.unansweredRequest(enrollment: enrollment)) ?? nil != nil)
        guard isReachable else { return .notSent(retryAt: nil) }
        return .entries(points.map { _ in EntryAnswer(.stored) })
    }

    func isHealthy() async -> Bool { true }
    func isMended(_ reason: HoldReason) async -> Bool { true }
}

@Suite struct RequestNoteTests {
    private let clock = StillClock(wall: UTC(microseconds: 1_795_334_400_000_000))

    /// A store with one sample that waits.
    private func store(in scratch: Scratch) async throws -> (SampleQueue, Enrollment) {
        let queue = try SampleQueue(path: scratch.path + "/q.sqlite", clock: clock, bootID: "one")
        let enrollment = try await queue.enroll(
            EnrollmentTerms(
                name: "e", origin: "https://exchange.example",
                fhirBase: "https://exchange.example/FHIR/R5", patient: "1", device: "2",
                codeSystem: "s", code: "c", identifierSystem: "i"))
        let sensor = try await queue.addSensor(
            address: "A0:9E:1A:00:00:01", details: SensorDetails())
        let assignment = try await queue.assign(sensor: sensor.id, enrollment: enrollment.id)
        try await queue.append(contentsOf: [
            Arrival(sensorID: assignment.sensorID, at: clock.read(), frame: [0, 60])
        ])
        try await queue.flush()
        return (queue, enrollment)
    }

    /// A gateway whose settings were wrong left the destination alone for half a minute after the restart that
    /// mended them.
    @Test func aRequestThatWasNotSentKeepsTheNextRunFromNothing() async throws {
        let scratch = try Scratch()
        let (queue, enrollment) = try await store(in: scratch)
        let destination = NoteReadingDestination(queue, enrollment.id, isReachable: false)
        let runner = DeliveryRunner(
            enrollment: enrollment, queue: queue, destination: destination, clock: clock,
            logger: .quiet)
        _ = await runner.advance()
        #expect(await destination.notes == [true])
        #expect(try await queue.unansweredRequest(enrollment: enrollment.id) == nil)
        try await queue.close()
        let next = try SampleQueue(path: scratch.path + "/q.sqlite", clock: clock, bootID: "one")
        #expect(try await next.unansweredRequest(enrollment: enrollment.id) == nil)
        try await next.close()
    }

    /// The exchange may still work on the one before it.
    @Test func aRequestThatWasNotSentLeavesTheOneBeforeItUnanswered() async throws {
        let scratch = try Scratch()
        let (queue, enrollment) = try await store(in: scratch)
        try await queue.beginRequest(enrollment: enrollment.id)
        clock.advance(by: .seconds(5))
        try await queue.beginRequest(enrollment: enrollment.id)
        await queue.cancelRequest(enrollment: enrollment.id)
        #expect(try await queue.unansweredRequest(enrollment: enrollment.id) != nil)
        try await queue.close()
        let next = try SampleQueue(path: scratch.path + "/q.sqlite", clock: clock, bootID: "one")
        #expect(try await next.unansweredRequest(enrollment: enrollment.id) != nil)
        // Nor does it end what an earlier run left.
        try await next.beginRequest(enrollment: enrollment.id)
        await next.cancelRequest(enrollment: enrollment.id)
        #expect(try await next.unansweredRequest(enrollment: enrollment.id) != nil)
        try await next.close()
    }

    @Test(arguments: [true, false])
    func aRequestIsNotedOnlyWhereARepetitionBesideItMayBeStoredTwice(mayRace: Bool) async throws {
        let scratch = try Scratch()
        let (queue, enrollment) = try await store(in: scratch)
        let destination = NoteReadingDestination(queue, enrollment.id, mayRace: mayRace)
        let runner = DeliveryRunner(
            enrollment: enrollment, queue: queue, destination: destination, clock: clock,
            logger: .quiet)
        _ = await runner.advance()
        #expect(await destination.notes == [mayRace])
        #expect(try await queue.unansweredRequest(enrollment: enrollment.id) == nil)
        // What became of it is written with the next commit.
        #expect(try await queue.balance().delivered == 0)
        try await queue.flush()
        #expect(try await queue.balance().delivered == 1)
        try await queue.close()
    }
}
