import Basics
import Testing

@testable import OfflineQueue

@Suite("Whose a frame is")
struct WearingTests {
    private let clock = ManualClock()
    private let store: TestStore
    private let queue: SampleQueue
    private let strap: Int64

    init() async throws {
        store = try TestStore()
        queue = try await store.open(clock)
        strap = try await queue.addSensor(address: "A0:9E:1A:00:00:01").id
        for name in ["ada", "bob"] { try await queue.enroll(.example(name, patient: name)) }
    }

    /// The owner of a frame sent so many seconds before now; with an `uncertainty` its time is rebuilt, or that of an
    /// arrival that is `live`.
    private func owner(
        before seconds: Double, uncertainty: Double? = nil, live: Bool = false
    ) async throws -> Wearing.Owner {
        try await queue.owner(
            of: Arrival(
                sensorID: strap, at: clock.read().at(clock.read().uptime - .seconds(seconds)),
                frame: [], uncertainty: .seconds(uncertainty ?? 0),
                isRebuilt: uncertainty != nil && !live))
    }

    private func wear(_ enrollment: Int64) async throws -> Wearing.Owner {
        .assignment(try await queue.assign(sensor: strap, enrollment: enrollment).id)
    }

    @Test("is that of whoever wore the strap when it was sent, and of nobody else")
    func exact() async throws {
        let ada = try await wear(1)
        clock.advance(seconds: 10)
        let bob = try await wear(2)
        clock.advance(seconds: 10)
        try await queue.endAssignment(sensor: strap)
        clock.advance(seconds: 10)
        let found = try await [30.00001, 30, 20.00001, 20, 10.00001, 10, 0].asyncMap {
            try await owner(before: $0)
        }
        #expect(found == [.nobody, ada, ada, bob, bob, .nobody, .nobody])
    }

    @Test("is a person's to say where the strap changed hands within its uncertainty")
    func uncertain() async throws {
        let ada = try await wear(1)
        clock.advance(seconds: 10)
        let bob = try await wear(2)
        clock.advance(seconds: 10)
        let found = try await [13, 12, 10, 8, 7].asyncMap {
            try await owner(before: $0, uncertainty: 2)
        }
        #expect(
            found == [
                ada, .uncertain(2), .uncertain(2), bob, bob,
            ])
    }

    @Test("is who wears the strap when it arrives, where it has the time of its arrival")
    func uncertainArrival() async throws {
        let ada = try await wear(1)
        clock.advance(seconds: 10)
        let bob = try await wear(2)
        clock.advance(seconds: 10)
        let owners = try await [10.00001, 10].asyncMap {
            try await owner(before: $0, uncertainty: 4, live: true)
        }
        #expect(owners == [ada, bob])
        #expect(
            try await owner(before: 9, uncertainty: 20, live: true) == .uncertain(2),
            "that time is not to be believed")
    }

    @Test(
        "is a person's to say where it may have been sent before its first patient wore the strap")
    func firstOfAPairing() async throws {
        clock.advance(seconds: 10)
        let ada = try await wear(1)
        clock.advance(seconds: 2)
        #expect(try await owner(before: 2.2) == .nobody)
        #expect(try await owner(before: 2.2, uncertainty: 0.1) == .nobody)
        #expect(try await owner(before: 2.2, uncertainty: 0.5) == .uncertain(1))
        #expect(try await owner(before: 1, uncertainty: 1.5) == .uncertain(1))
        // Each may have been on its way for a moment.
        #expect(try await owner(before: 1, uncertainty: 1.2) == ada)
    }

    @Test("is nobody's after the end, whatever its uncertainty")
    func afterTheEnd() async throws {
        let ada = try await wear(1)
        clock.advance(seconds: 10)
        try await queue.endAssignment(sensor: strap)
        clock.advance(seconds: 10)
        #expect(try await owner(before: 9, uncertainty: 2) == .nobody)
        #expect(try await owner(before: 11, uncertainty: 2) == ada)
    }

    @Test("of uncertain ones is one assignment without an enrollment for each change of hands")
    func unsureAssignments() async throws {
        _ = try await wear(1)
        for enrollment in [2, 1] as [Int64] {
            clock.advance(seconds: 10)
            _ = try await wear(enrollment)
            for late in [1, 0.5, -0.5] {
                let sent = clock.read().at(clock.read().uptime - .seconds(late))
                try await queue.append(
                    Arrival(
                        sensorID: strap, at: sent, frame: [0, 60], uncertainty: .seconds(2),
                        isRebuilt: true))
            }
            try await queue.flush()
        }
        let unsure = try await queue.unboundSamples()
        #expect(unsure.map(\.samples) == [3, 3] && unsure.allSatisfy { !$0.isRecording })
        #expect(unsure.allSatisfy { $0.assignment.patient == nil })
        #expect(try await queue.openAssignments().count == 1)
        #expect(try await queue.audit().isClean)
    }

    /// They went to the patient's own destination alone.
    @Test(
        "takes uncertain ones to the destinations of every strap once a person has said it")
    func destinationsOfUnsureFrames() async throws {
        var terms = EnrollmentTerms.elsewhere()
        terms.takesEveryStrap = true
        let elsewhere = try await queue.enroll(terms).id
        _ = try await wear(1)
        clock.advance(seconds: 10)
        _ = try await wear(2)
        for late in [0.5, 0, -0.5] {
            try await queue.append(
                Arrival(
                    sensorID: strap, at: clock.read().at(clock.read().uptime - .seconds(late)),
                    frame: [0, 60], uncertainty: .seconds(2), isRebuilt: true))
        }
        try await queue.flush()
        #expect(try await queue.nextBatch(enrollment: elsewhere, limit: 9).isEmpty)
        let unsure = try #require(try await queue.unboundSamples().first).assignment.id
        #expect(try await queue.bind(assignment: unsure, enrollment: 2) == 3)
        for destination in [2, elsewhere] {
            #expect(try await queue.deliverAll(destination).count == 3)
            #expect(try await queue.balance(of: .enrollment(destination)).isBalanced)
        }
        #expect(try await queue.audit().isClean)
    }

    @Test("is checked by the audit")
    func audit() async throws {
        let ada = try await queue.assign(sensor: strap, enrollment: 1)
        for _ in 0..<10 {
            try await queue.beat(ada, clock)
            clock.advance(seconds: 1)
        }
        try await queue.flush()
        let end = clock.read().uptime - .seconds(3)
        try await queue.close()
        try store.execute(
            """
            UPDATE assignment SET ended_boot = began_boot, ended_uptime_us = \(end.microseconds)
            """)
        let audit = try SampleQueue.verify(path: store.path)
        #expect(
            audit.differences.contains { $0.hasPrefix("samples of a time") },
            "\(audit.differences)")
    }
}

extension SampleQueue {
    fileprivate func owner(of frame: Arrival) throws -> Wearing.Owner {
        try read("test") { [run] db in
            var wearing = Wearing(db, boot: run.boot)
            return try wearing.owner(of: frame.sensorID, at: frame.uptime, sent: frame.sent)
        }
    }
}

extension Array {
    fileprivate func asyncMap<Value>(
        _ body: (Element) async throws -> Value
    ) async rethrows -> [Value] {
        var values: [Value] = []
        for element in self { values.append(try await body(element)) }
        return values
    }
}
