import Basics
import GATTHeartRate
import Testing

@testable import OfflineQueue
@testable import Uplink

@Suite struct DeliveryPolicyTests {
    private func reason(
        _ sample: PendingSample, _ policy: DeliveryPolicy = DeliveryPolicy()
    ) -> String? {
        if case .failure(let withheld) = policy.judge(sample) { withheld.reason } else { nil }
    }

    @Test func whatTheSensorSaysIsNothingIsWithheldAndWhatIsOnlyOddIsNot() {
        #expect(reason(.made(id: 1, at: 0, bpm: 72)) == nil)
        #expect(reason(.made(id: 1, at: 0, bpm: 0)) == "zeroRate")
        #expect(reason(.made(id: 1, at: 0, bpm: 250)) == "outOfRange")
        for flag in [Plausibility.frozenRR, .impossibleJump] {
            #expect(reason(.made(id: 1, at: 0, flags: UInt32(flag.rawValue))) == nil)
        }
    }

    @Test func whatCameBeforeIsInTheStoredFlags() throws {
        let policy = try DeliveryPolicy(withholding: "frozenRR")
        let frozen = UInt32(Plausibility.frozenRR.rawValue)
        #expect(reason(.made(id: 1, at: 0, flags: frozen), policy) == "frozenRR")
        #expect(reason(.made(id: 1, at: 0, bpm: 0), policy) == nil, "not asked for")
        // Anomalies are stored above the flags.
        #expect(reason(.made(id: 1, at: 0, flags: frozen << 16), policy) == nil)
    }

    @Test func theListIsReadAsItIsWrittenInTheConfiguration() throws {
        #expect(
            DeliveryPolicy().withheld == [.contactLost, .zeroRate, .outOfRange, .uncertainTime])
        #expect(
            try DeliveryPolicy(withholding: "contactLost, zeroRate,outOfRange uncertainTime")
                == DeliveryPolicy())
        #expect(try DeliveryPolicy(withholding: "none").withheld == [])
        #expect(try DeliveryPolicy(withholding: " ").withheld == [])
        #expect(
            try DeliveryPolicy(withholding: Plausibility.all.names.joined(separator: " "))
                .withheld == .all)
        #expect(throws: DeliveryPolicy.UnknownFlag(name: "zerorate")) {
            try DeliveryPolicy(withholding: "contactLost zerorate")
        }
    }

    @Test func whatWasRecordedLenientlyIsReadLeniently() {
        // The energy is cut off: the daemon's policy let it in, so it is a rate of 62.
        var sample = PendingSample.made(id: 1, at: 0)
        sample = PendingSample(
            id: 1, segmentID: 1, sensorID: 1, assignmentID: 1, patient: nil, runNonce: 1,
            time: .epoch, frame: [0x08, 62, 1], flags: 0, identityNumber: 1)
        #expect(reason(sample) == nil)
    }
}
