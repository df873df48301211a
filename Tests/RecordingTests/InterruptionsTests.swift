import Basics
import BlueZ
import GATTHeartRate
import OfflineQueue
import Testing

@testable import Recording

/// A strap that comes and goes, under a clock that the test moves on.
@Suite struct InterruptionsTests {
    /// One strap that sends once a second while it is there, as the recorder sees it.
    private struct Worn {
        var session: SensorSession
        private(set) var second = 100.0
        /// Each change, and when it was.
        private(set) var changes: [(second: Double, isIntermittent: Bool)] = []

        init(needsContact: Bool = true) {
            session = SensorSession(sensorID: 7, needsContact: needsContact)
        }

        private var now: ClockReading {
            ClockReading(
                uptime: .zero + .seconds(second), wall: UTC(microseconds: 1_800_000_000_000_000),
                isTrusted: true)
        }

        var isIntermittent: Bool { session.missingTime != nil }

        private mutating func note() {
            guard isIntermittent != changes.last?.isIntermittent ?? false else { return }
            changes.append((second, isIntermittent))
        }

        mutating func link(_ state: LinkState, _ reason: LinkReason) {
            let change = LinkChange(
                address: "C0:00:00:00:00:01", state: state, reason: reason, uptime: now.uptime)
            if case .streaming = state {
                _ = session.beginLink(at: now.uptime, now: now, policy: .clinical)
            } else {
                _ = session.release(now: now, policy: .clinical)
            }
            _ = session.silence.follow(change)
            note()
        }

        mutating func send(seconds: Int, _ frame: [UInt8] = [0x06, 72]) {
            link(.streaming(lastFrameAt: now.uptime), .progress)
            for _ in 0..<seconds {
                second += 1
                _ = session.release(by: now.uptime, now: now, policy: .clinical)
                _ = session.take(frame, uptime: now.uptime, now: now, policy: .clinical)
                note()
            }
        }

        mutating func beAway(
            seconds: Double, _ state: LinkState = .absent, _ reason: LinkReason = .linkLost
        ) {
            link(state, reason)
            second += seconds
        }
    }

    /// Each frame began the count of its silence anew, and `status` said `well`.
    @Test func aStrapThatSendsFiveSecondsOfFortyComesAndGoes() {
        var strap = Worn()
        for _ in 0..<8 {
            strap.send(seconds: 5)
            strap.beAway(seconds: 35)
            #expect(strap.session.silentTime(at: .zero + .seconds(strap.second)) < .seconds(60))
        }
        #expect(strap.isIntermittent)
        for _ in 0..<2_000 {
            strap.send(seconds: 5)
            strap.beAway(seconds: 35)
        }
        #expect(strap.changes.count == 1, "it does not come and go itself")
        #expect((strap.session.missingTime ?? .zero) > .seconds(12 * 60))
    }

    /// At a period for which `strap-silent` came and went with each link.
    @Test(arguments: [45.0, 90, 240, 600])
    func aStrapWhoseSilencesAreLongComesAndGoesAsWell(silence: Double) {
        var strap = Worn()
        for _ in 0..<20 {
            strap.send(seconds: 5)
            strap.beAway(seconds: silence)
        }
        #expect(strap.isIntermittent && strap.changes.count == 1)
    }

    @Test func itEndsAfterAQuarterOfAnHourOfData() {
        var strap = Worn()
        for _ in 0..<60 {
            strap.send(seconds: 5)
            strap.beAway(seconds: 35)
        }
        #expect(strap.isIntermittent)
        let mended = strap.second
        strap.send(seconds: 900)
        #expect(!strap.isIntermittent)
        #expect((strap.changes.last?.second ?? 0) > mended + 600)
    }

    /// With one limit in place of two the item began and ended with each of the better times.
    @Test func aStrapThatIsAboutTheLimitIsSaidOnce() {
        var strap = Worn()
        for _ in 0..<20 {
            for _ in 0..<14 {
                strap.send(seconds: 44)
                strap.beAway(seconds: 16)
            }
            strap.send(seconds: 420)
        }
        #expect(strap.changes.count == 1)
    }

    @Test func aStrapThatWasJustPairedIsGivenTime() {
        var strap = Worn()
        // Its electrodes are still dry: three minutes of fits and starts.
        for _ in 0..<9 {
            strap.send(seconds: 5)
            strap.beAway(seconds: 15)
        }
        strap.send(seconds: 3_600)
        #expect(strap.changes.isEmpty)
    }

    @Test func aStrapThatIsTakenOffForTheNightIsNotAccused() {
        var strap = Worn()
        for _ in 0..<7 {
            strap.send(seconds: 3_600)
            strap.beAway(seconds: 9 * 3_600)
        }
        // Nor one that is taken off for a shower or a walk now and then.
        for minutes in [2.0, 5, 14, 3] {
            strap.send(seconds: 240)
            strap.beAway(seconds: minutes * 60)
        }
        strap.send(seconds: 10)
        #expect(strap.changes.isEmpty)
    }

    @Test func whatItDidBeforeTheNightSaysNothingOfTheMorning() {
        var strap = Worn()
        for _ in 0..<60 {
            strap.send(seconds: 5)
            strap.beAway(seconds: 35)
        }
        #expect(strap.isIntermittent)
        strap.beAway(seconds: 9 * 3_600)
        strap.send(seconds: 5)
        #expect(!strap.isIntermittent)
    }

    @Test(arguments: [LinkState.suspended(.daemon), .suspended(.adapter), .suspended(.adapterFull)])
    func whatKeepsTheGatewayFromHearingIsNotTheStraps(state: LinkState) {
        var strap = Worn()
        for _ in 0..<200 {
            strap.send(seconds: 5)
            strap.beAway(seconds: 35, state)
        }
        for _ in 0..<200 {
            strap.send(seconds: 5)
            _ = strap.session.silence.follow(isHung: true)
            strap.beAway(seconds: 35)
            _ = strap.session.silence.follow(isHung: false)
        }
        #expect(strap.changes.isEmpty)
    }

    /// A heart rate now and then began the count for `no-heart-rate` anew as well.
    @Test(arguments: [[0x06, 0], [0x04, 70], [0x01]] as [[UInt8]])
    func aRateNowAndThenIsNoData(frame: [UInt8]) {
        var strap = Worn()
        for _ in 0..<60 {
            strap.send(seconds: 5)
            strap.send(seconds: 35, frame)
        }
        #expect(strap.isIntermittent && strap.session.rateFault != nil)
    }

    @Test func aRateWithoutContactIsDataWhereItIsDelivered() {
        var strap = Worn(needsContact: false)
        for _ in 0..<60 {
            strap.send(seconds: 5)
            strap.send(seconds: 35, [0x04, 70])
        }
        #expect(strap.changes.isEmpty && strap.session.rateFault == nil)
        strap.send(seconds: 5, [0x04, 0])
        #expect(strap.session.rateFault?.fault == .noPulse)
    }

    @Test func aStrapThatSendsRarelyIsJudgedByItsCadence() {
        var interruptions = Interruptions()
        for second in stride(from: 0, to: 36_000, by: 20) {
            interruptions.dataCame(at: .zero + .seconds(second), pauseMax: .seconds(60))
        }
        #expect(!interruptions.isMany && interruptions.missing == .zero)
    }

    @Test func whoWearsItNextHasInterruptedNothing() {
        var strap = Worn()
        for _ in 0..<60 {
            strap.send(seconds: 5)
            strap.beAway(seconds: 35)
        }
        #expect(strap.isIntermittent)
        strap.session.changeHands(at: .zero)
        #expect(!strap.isIntermittent)
    }
}
