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
}
