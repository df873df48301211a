import Basics
import OfflineQueue
import Testing

@testable import Uplink

@Suite struct DeliveryHoldTests {
    @Test(
        "a reason a person can mend holds the delivery, loses nothing, and drains in order when mended",
        arguments: [
            (403, "has not been consented", HoldReason.noConsent),
            (403, "The Subject Patient does not match the current user.", .wrongPatient),
            (400, "Device Data Source id=7 can not be found.", .deviceUnknown),
            (400, "Patient id=7 can not be found.", .patientUnknown),
            (400, "Code not found: x", .codeUnknown),
        ])
    func hold(status: Int, text: String, reason: HoldReason) {
        var drive = DeliveryDrive(150)
        drive.isMended = false
        drive.run(for: .seconds(600)) { indices, _ in
            .entries(indices.map { _ in .entry(status, text) })
        }
        #expect(drive.delivery.holdReason == reason)
        #expect(drive.requests.count == 1)
        #expect((9...10).contains(drive.probes.count))
        #expect(drive.outcomes.isEmpty)

        drive.isMended = true
        drive.run { indices, _ in .stored(indices) }
        #expect(drive.delivery.holdReason == nil)
        #expect(drive.requests.dropFirst().map(\.indices.count) == [1, 100, 49])
        #expect(drive.requests.dropFirst().flatMap(\.indices) == Array(0..<150))
    }

    @Test func aMendedHoldThatIsNotMendedCostsOneSampleAMinute() {
        var drive = DeliveryDrive(150)
        drive.run(for: .seconds(600)) { indices, _ in
            .entries(indices.map { _ in .entry(403, "has not been consented") })
        }
        #expect(drive.requests.dropFirst().allSatisfy { $0.indices == [0] })
        #expect(drive.requests.count <= 11)
    }

    @Test func entriesTakenBesideAHeldOneAreDelivered() {
        var drive = DeliveryDrive(3)
        drive.isMended = false
        drive.run(for: .seconds(1)) { _, _ in
            .entries([
                .entry(201), .entry(403, "has not been consented"), .entry(201),
            ])
        }
        #expect(drive.delivered == [0, 2])
        #expect(drive.delivery.holdReason == .noConsent)
    }

    @Test func aLostEnrollmentIsLookedAtWhenTheTokensSay() {
        var drive = DeliveryDrive(1)
        drive.isMended = false
        let retry = drive.now + .seconds(3600)
        drive.run(for: .seconds(3700)) { _, _ in
            .held(.enrollAgain, retryAt: retry)
        }
        #expect(drive.delivery.holdReason == .enrollAgain)
        #expect(drive.probes.first == retry)
    }

    @Test func aHoldOutlivesARestartAndIsLookedAtFirst() {
        var drive = DeliveryDrive(5, heldSince: .noConsent)
        drive.run { indices, _ in .stored(indices) }
        #expect(drive.probes.count == 1)
        #expect(drive.requests.map(\.indices.count) == [1, 4])
    }

    /// A destination that can only be asked with a sample, and does not take it, was released and held again each minute.
    @Test func aHoldIsNotOverBeforeTheSampleThatIsTriedIsTaken() {
        var delivery = Delivery(heldSince: .pairingLost)
        func settle(_ answer: DeliveryAnswer, at seconds: Int64) {
            #expect(delivery.step(.seconds(seconds)) == .send([0]))
            #expect(delivery.holdReason == .pairingLost)
            _ = delivery.answered(answer, took: .zero, .seconds(seconds))
        }
        func tryOne(at seconds: Int64) {
            #expect(delivery.step(.seconds(seconds)) == .probe(.pairingLost))
            delivery.probed(isMended: true, .seconds(seconds))
            guard case .held(.pairingLost, _) = delivery.state else {
                Issue.record("\(delivery.state)")
                return
            }
            #expect(delivery.step(.seconds(seconds)) == .fetch(limit: 1))
            delivery.fetched([nil], hasMore: true, .seconds(seconds))
        }
        tryOne(at: 0)
        settle(.held(.pairingLost, retryAt: nil), at: 0)
        #expect(delivery.step(.zero) == .wait(until: .seconds(60)))
        tryOne(at: 60)
        // Nobody learns anything from a connection that is missing: the same sample is tried again.
        settle(.notSent(retryAt: nil), at: 60)
        #expect(delivery.step(.seconds(60)) == .wait(until: .seconds(65)))
        delivery.wake(.seconds(61))
        settle(.unclear("500"), at: 61)
        #expect(delivery.step(.seconds(61)) == .wait(until: .seconds(91)))
        delivery.wake(.seconds(62))
        #expect(delivery.step(.seconds(62)) == .wait(until: .seconds(91)))
        settle(.stored([0]), at: 91)
        #expect(delivery.holdReason == nil)
        #expect(delivery.step(.seconds(91)) == .fetch(limit: 100))
    }

    @Test func aSampleThatIsRefusedForItsOwnSakeEndsAHoldToo() {
        var drive = DeliveryDrive(2, heldSince: .forbidden)
        drive.run { indices, _ in
            .entries(indices.map { $0 == 0 ? .entry(422, "{'omh_data': ['bad']}") : .entry(201) })
        }
        #expect(drive.delivered == [1])
        #expect(drive.delivery.holdReason == nil)
    }

    @Test func afterAFaultOfTheExchangeTheHoldIsNotOverBeforeASampleOfManyIsTaken() {
        var drive = DeliveryDrive(100, heldSince: .exchangeFault)
        drive.run(for: .seconds(100)) { _, _ in .unclear("500") }
        #expect(drive.requests.first?.indices.count == 100)
        #expect(drive.delivery.holdReason == .exchangeFault)
        drive.run { indices, _ in .stored(indices) }
        #expect(drive.delivery.holdReason == nil)
    }

    /// An enrollment without consent, for which no strap is worn yet.
    @Test func aHoldThatKeepsNothingBackIsOverWhenItsReasonSeemsGone() {
        var delivery = Delivery(heldSince: .noConsent)
        #expect(delivery.step(.zero) == .probe(.noConsent))
        delivery.probed(isMended: false, .zero)
        #expect(delivery.step(.zero) == .wait(until: .seconds(60)))
        #expect(delivery.step(.seconds(60)) == .probe(.noConsent))
        delivery.probed(isMended: true, .seconds(60))
        #expect(delivery.step(.seconds(60)) == .fetch(limit: 1))
        // One that is not to be sent tells nothing.
        delivery.fetched([.dropped(reason: "zeroRate")], hasMore: true, .seconds(60))
        #expect(delivery.holdReason == .noConsent)
        #expect(delivery.step(.seconds(60)) == .fetch(limit: 1))
        delivery.fetched([], hasMore: false, .seconds(60))
        #expect(delivery.holdReason == nil)
    }

    /// The store lost the hold while a sample was tried, and `status` said well.
    @Test func theBooksKeepAHoldUntilTheSampleThatIsTriedIsTaken() async throws {
        let scratch = try Scratch()
        let clock = StillClock()
        let queue = try SampleQueue(path: scratch.path + "/q.sqlite", clock: clock, bootID: "one")
        let enrollment = try await queue.enroll(
            EnrollmentTerms(
                name: "e", kind: .destination, origin: "https://host.example", fhirBase: "",
                identifierSystem: "i"))
        let sensor = try await queue.addSensor(address: "A0:9E:1A:00:00:01")
        let assignment = try await queue.assign(sensor: sensor.id, enrollment: enrollment.id)
        for _ in 0..<3 {
            clock.advance(by: .seconds(1))
            try await queue.append(contentsOf: [
                Arrival(sensorID: assignment.sensorID, at: clock.read(), frame: [0, 60])
            ])
        }
        try await queue.flush()
        let destination = HoldReadingDestination(queue)
        let runner = DeliveryRunner(
            enrollment: enrollment, queue: queue, destination: destination, clock: clock,
            logger: .quiet)
        for _ in 0..<3 { clock.advance(to: await runner.advance()) }
        await destination.take()
        _ = await runner.advance()
        let lost = HoldReason.pairingLost.rawValue
        // It is released with the first sample, and not behind all that waits.
        #expect(await destination.reasons == [nil, lost, lost, lost, nil])
        #expect(try await queue.enrollments().first?.holdReason == nil)
        try await queue.close()
    }
}

/// Takes nothing until it is told to, and never says so before; reads in the books why it is held.
private actor HoldReadingDestination: Destination {
    nonisolated let mayRace = false
    private(set) var reasons: [String?] = []
    private let queue: SampleQueue
    private var takes = false

    init(_ queue: SampleQueue) { self.queue = queue }

    func take() { takes = true }

    func deliver(_ points: [OutgoingPoint], alone: Bool) async -> DeliveryAnswer {
        reasons.append((try? await queue.enrollments())?.first?.holdReason)
        guard takes else { return .held(.pairingLost, retryAt: nil) }
        return .entries(points.map { _ in EntryAnswer(.stored) })
    }

    func isHealthy() async -> Bool { true }
    func isMended(_ reason: HoldReason) async -> Bool { true }
}
