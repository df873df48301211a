import Basics
import Foundation
import Testing

@testable import OfflineQueue

@Suite("A strap that goes from one patient to the next")
struct HandOverTests {
    /// Offline all the while: nothing is delivered before all of it has happened. Whatever delivery comes
    /// first, each patient gets what was recorded of them.
    @Test(arguments: [[1, 2, 3], [3, 2, 1], [2, 3, 1], [2, 1, 3]] as [[Int64]])
    func theOrderOfDeliveryDoesNotMatter(deliveries: [Int64]) async throws {
        let store = try TestStore()
        let clock = ManualClock()
        var queue = try await store.open(clock)
        let strap = try await queue.addSensor(address: "A0:9E:1A:00:00:01")
        for name in ["ada", "bob", "ada-again"] {
            try await queue.enroll(.example(name, patient: String(name.prefix(3))))
        }
        // Ada, Bob, and Ada once more, under the enrollment she got when the first was lost.
        for (delivery, rates) in [(1, 60..<90), (2, 90..<140), (3, 140..<150)]
            as [(Int64, Range<UInt8>)]
        {
            let assignment = try await queue.assign(sensor: strap.id, enrollment: delivery)
            for bpm in rates {
                try await queue.beat(assignment, bpm: bpm, clock)
                clock.advance(seconds: 1)
            }
            if delivery == 1 { try await queue.setState(enrollment: 1, .enrollAgain) }
            try await queue.close()
            queue = try await store.open(clock)
        }
        try await queue.forgetSensor(strap.id)
        try await queue.setState(enrollment: 1, .active)
        var sent: [Int64: [UInt8]] = [:]
        for turn in 0..<30 {
            let delivery = deliveries[turn % 3]
            let batch = try await queue.nextBatch(enrollment: delivery, limit: 7)
            try await queue.settle(
                enrollment: delivery, batch.map { SettledSample($0, .delivered) })
            sent[delivery, default: []] += batch.map { $0.frame[1] }
        }
        #expect(sent == [1: Array(60..<90), 2: Array(90..<140), 3: Array(140..<150)])
    }

    /// Any history of pairing, handing over, ending, binding late, re-enrolling, dying letters and
    /// restarts, and frames that are under way meanwhile: each goes to the patient who wore the strap when it was sent, and
    /// to no other.
    @Test(arguments: [1, 2, 3, 4, 5, 6] as [UInt64])
    func eachFrameGoesToThePatientWhoWoreTheStrap(seed: UInt64) async throws {
        var run = try await HandOverRun(seed: seed)
        for _ in 0..<200 { try await run.step() }
        try await run.finish()
    }
}

private struct HandOverRun {
    /// Who may have a frame.
    struct Owner: Hashable {
        var delivery: Int64
        var patient: String?
    }

    let store: TestStore
    let clock = ManualClock()
    var queue: SampleQueue
    var random: SeededRandom
    let strap: Int64
    /// Delivery 1 and 2 are one patient's each, delivery 3 is a practitioner's.
    let owners = [
        Owner(delivery: 1), Owner(delivery: 2), Owner(delivery: 3, patient: "ada"),
        Owner(delivery: 3, patient: "bob"),
    ]
    /// By assignment; none while it belongs to no patient.
    var owner: [Int64: Owner] = [:]
    var worn: Assignment?
    /// By the number in the frame.
    var assignmentOf: [UInt32: Int64] = [:]
    var received: [UInt32: Owner] = [:]
    var number: UInt32 = 0
    /// Frames that the strap has sent and the queue has not got yet.
    var underWay: [Arrival] = []

    init(seed: UInt64) async throws {
        random = SeededRandom(seed: seed)
        store = try TestStore()
        queue = try await store.open(clock)
        strap = try await queue.addSensor(address: "A0:9E:1A:00:00:01").id
        for name in ["one", "two"] { try await queue.enroll(.example(name, patient: name)) }
        try await queue.enroll(.example("clinic", patient: nil))
    }

    mutating func step() async throws {
        clock.advance(seconds: 1)
        switch Int.random(in: 0..<20, using: &random) {
        case 0..<9: try await record()
        case 9..<12: try await assign()
        case 12:
            try await queue.endAssignment(sensor: strap)
            worn = nil
        case 13:
            try await queue.forgetSensor(strap)
            worn = nil
        case 14: try await bindLate()
        case 15: try await reEnroll()
        case 16..<18: try await deliver()
        case 18: try await arrive()
        default:
            try await queue.close()
            queue = try await store.open(clock)
        }
    }

    private mutating func record() async throws {
        for _ in 0..<Int.random(in: 1...9, using: &random) {
            let bytes = withUnsafeBytes(of: worn == nil ? UInt32.max : number) { Array($0) }
            underWay.append(Arrival(sensorID: strap, at: clock.read(), frame: bytes))
            clock.advance(seconds: 1)
            guard let worn else { continue }
            assignmentOf[number] = worn.id
            number += 1
        }
        if Bool.random(using: &random) { try await arrive() }
    }

    private mutating func arrive() async throws {
        try await queue.append(contentsOf: underWay)
        underWay = []
    }

    private mutating func assign() async throws {
        try await queue.addSensor(address: "A0:9E:1A:00:00:01")
        let next =
            Int.random(in: 0..<5, using: &random) == 0 ? nil : owners.randomElement(using: &random)
        let assignment = try await queue.assign(
            sensor: strap, enrollment: next?.delivery, patient: next?.patient)
        // One without a patient becomes the next one's, with all it has; none is ever taken away.
        if let known = owner[assignment.id] { #expect(known == next) }
        if let next { owner[assignment.id] = next }
        worn = assignment
    }

    /// One without a patient, over or not, is found an owner; one that has one keeps it.
    private mutating func bindLate() async throws {
        guard let next = owners.randomElement(using: &random),
            let assignment = try await queue.assignments().randomElement(using: &random)
        else { return }
        do throws(QueueError) {
            try await queue.bind(
                assignment: assignment.id, enrollment: next.delivery, patient: next.patient)
            #expect(owner[assignment.id] == nil || owner[assignment.id] == next)
            owner[assignment.id] = next
        } catch {
            #expect(error.code == .alreadySet && owner[assignment.id] != nil)
        }
    }

    /// Tokens are lost and found; terms are filled in; the patient stays who it is.
    private mutating func reEnroll() async throws {
        let delivery = Int64.random(in: 1...2, using: &random)
        try await queue.setState(
            enrollment: delivery, Bool.random(using: &random) ? .active : .enrollAgain)
        let found = try await queue.enrollments().first { $0.id == delivery }
        guard var terms = found?.terms else { return }
        terms.device = "\(number)"
        try await queue.updateEnrollment(delivery, terms: terms)
        terms.patient = "another"
        await #expect(throws: QueueError.self) {
            try await queue.updateEnrollment(delivery, terms: terms)
        }
    }

    private mutating func deliver() async throws {
        let delivery = Int64.random(in: 1...3, using: &random)
        let batch = try await queue.nextBatch(
            enrollment: delivery, limit: Int.random(in: 1...20, using: &random))
        var outcomes: [SettledSample] = []
        for sample in batch {
            let number = sample.frame.withUnsafeBytes { $0.loadUnaligned(as: UInt32.self) }
            let assignment = try #require(assignmentOf[number])
            #expect(sample.assignmentID == assignment)
            let got = Owner(delivery: delivery, patient: sample.patient)
            #expect(got == owner[assignment], "frame \(number)")
            if Int.random(in: 0..<10, using: &random) == 0 {
                outcomes.append(SettledSample(sample, .dead(reason: "r", diagnostics: "")))
            } else {
                #expect(received.updateValue(got, forKey: number) == nil, "sent twice")
                outcomes.append(SettledSample(sample, .delivered))
            }
        }
        try await queue.settle(enrollment: delivery, outcomes)
        let dead = try await queue.deadLetters(limit: 1000).map(\.sampleID)
        try await queue.requeue(deadLetters: Array(dead.shuffled(using: &random).prefix(2)))
    }

    /// Everything that belongs to a patient is delivered; the rest belongs to none.
    mutating func finish() async throws {
        try await arrive()
        try await queue.flush()
        for delivery in [1, 2] as [Int64] {
            try await queue.setState(enrollment: delivery, .active)
        }
        for _ in 0..<2_000 {
            let balance = try await queue.balance()
            if balance.pending == 0 && balance.dead == 0 { break }
            let dead = try await queue.deadLetters(limit: 1000).map(\.sampleID)
            try await queue.requeue(deadLetters: dead)
            try await deliver()
        }
        #expect(
            received.count + (try await queue.balance().held["not-enrolled"] ?? 0) == Int(number))
        #expect(try await queue.balance().isBalanced)
        #expect(try await queue.audit().isClean)
    }
}
