import Basics
import GATTHeartRate
import OfflineQueue
import Testing

@testable import Recording

@Suite struct SensorSessionTests {
    private let now = ClockReading(
        uptime: Uptime(microseconds: 10_000_000), wall: UTC(microseconds: 1_800_000_000_000_000),
        isTrusted: true)

    @Test func aFrameIsDatedByItsArrivalNotByItsProcessing() {
        var session = SensorSession(sensorID: 7)
        let arrival = session.receive(
            [0x06, 72], uptime: Uptime(microseconds: 9_250_000), now: now, policy: .clinical)
        #expect(arrival.sensorID == 7)
        #expect(arrival.uptime.microseconds == 9_250_000)
        let wall: Int64 = 1_799_999_999_250_000
        #expect(arrival.trustedWall?.microseconds == wall)
        #expect(arrival.fault == nil)
        #expect(session.latest?.bpm == 72)
    }

    @Test func anUntrustedClockDatesNothing() {
        var session = SensorSession(sensorID: 7)
        var untrusted = now
        untrusted.isTrusted = false
        let arrival = session.receive(
            [0x06, 72], uptime: Uptime(microseconds: 1), now: untrusted, policy: .clinical)
        #expect(arrival.trustedWall == nil)
    }

    @Test(arguments: [[], [0x00], [0x01, 0x48], [0x08, 72, 1]])
    func aFrameOfGarbageIsKeptWithItsFaultAndTheStreamGoesOn(frame: [UInt8]) {
        var session = SensorSession(sensorID: 7)
        let arrival = session.receive(
            frame, uptime: Uptime(microseconds: 1), now: now, policy: .clinical)
        #expect(arrival.fault != nil)
        #expect(arrival.frame == frame)
        #expect(
            session.receive(
                [0x00, 60], uptime: Uptime(microseconds: 2), now: now, policy: .clinical
            ).fault == nil)
    }

    @Test func implausibleMeasurementsAreMarkedNotDropped() {
        var session = SensorSession(sensorID: 7)
        let arrival = session.receive(
            [0x04, 0], uptime: Uptime(microseconds: 1), now: now, policy: .clinical)
        #expect(arrival.fault == nil)
        let marks = Plausibility(rawValue: UInt16(truncatingIfNeeded: arrival.flags))
        #expect(marks.contains(.zeroRate))
        #expect(marks.contains(.contactLost))
    }

    @Test(arguments: [
        ([0x04, 70], RateFault.contactLost), ([0x00, 0], .noPulse), ([0x01], .unreadable),
        ([0x00, 255], .implausible(bpm: 255)),
    ])
    func framesWithoutAHeartRateAreToldApartFromSilence(frame: [UInt8], fault: RateFault) {
        var session = SensorSession(sensorID: 7)
        func take(_ frame: [UInt8], at second: Int64) {
            _ = session.receive(
                frame, uptime: Uptime(microseconds: second * 1_000_000), now: now, policy: .clinical
            )
        }
        take([0x06, 72], at: 1)
        #expect(session.rateFault == nil)
        for second in Int64(2)...400 { take(frame, at: second) }
        #expect(session.rateFault?.fault == fault)
        // `status` and `watch` showed 255 bpm.
        if fault != .contactLost, fault != .unreadable { #expect(session.latestRate == nil) }
        #expect(session.rateFault?.since == Uptime(microseconds: 2_000_000))
        // What it sent before a silence says nothing of now.
        take(frame, at: 1_000)
        #expect(session.rateFault?.since == Uptime(microseconds: 1_000_000_000))
        take([0x06, 72], at: 1_001)
        #expect(session.rateFault == nil)
    }

    /// `status` advised to restart the gateway: nothing had been stored for as long as bluetoothd stood still.
    @Test func aStrapWhoseFramesComeAgainAfterAHangHasBeenSendingSinceThen() {
        var session = SensorSession(sensorID: 7)
        func take(at second: Int64) {
            _ = session.take(
                [0, 70], uptime: .zero + .seconds(second), now: now, policy: .clinical)
        }
        #expect(session.sendingTime(at: .zero + .seconds(5)) == .zero)
        for second in Int64(1)...90 { take(at: second) }
        #expect(session.sendingTime(at: .zero + .seconds(90)) == .seconds(89))
        take(at: 190)
        take(at: 191)
        #expect(session.sendingTime(at: .zero + .seconds(192)) == .seconds(2))
    }

    @Test func framesOfAFloodAreMarkedWithTheUncertaintyOfTheirTimes() {
        var session = SensorSession(sensorID: 7)
        func take(_ bpm: UInt8, _ uptime: Int64) -> [Arrival] {
            let uptime = Uptime(microseconds: uptime)
            let start = UTC(microseconds: 1_800_000_000_000_000)
            let reading = ClockReading(
                uptime: uptime, wall: start + Uptime.zero.duration(to: uptime), isTrusted: true)
            return session.take([0, bpm], uptime: uptime, now: reading, policy: .clinical)
        }
        var arrivals: [Arrival] = []
        for second in Int64(0)...20 { arrivals += take(60 + UInt8(second), second * 1_000_000) }
        for index in Int64(1)...60 { arrivals += take(100 + UInt8(index), 80_000_000 + index) }
        #expect(arrivals.count == 21, "kept back until it is over")
        arrivals += take(61, 81_000_000)
        #expect(arrivals.count == 82)
        for (index, arrival) in arrivals[21..<81].enumerated() {
            let sent = Int64(21 + index) * 1_000_000
            #expect(abs(arrival.uptime.microseconds - sent) < 2_000_000)
            let wall = 1_800_000_000_000_000 + arrival.uptime.microseconds
            #expect(arrival.trustedWall?.microseconds == wall)
            let marks = Plausibility(rawValue: UInt16(truncatingIfNeeded: arrival.flags))
            #expect(marks.contains(.estimatedTime) && !marks.contains(.uncertainTime))
            #expect(arrival.flags >> 24 <= 20)
            #expect(arrival.isRebuilt)
        }
        #expect(arrivals.last.map { $0.flags & 0xFF_FFFF } == 0)
    }

    /// Only its flags told, and its time was said to be as certain as the clock.
    @Test func aFrameThatCameAloneAfterAPauseSaysByHowMuchItMayBeEarlier() throws {
        var session = SensorSession(sensorID: 7)
        _ = session.beginLink(at: .zero, now: now, policy: .clinical)
        var arrivals = session.take(
            [0, 60], uptime: .zero + .seconds(4), now: now, policy: .clinical)
        arrivals += session.release(now: now, policy: .clinical)
        let arrival = try #require(arrivals.first)
        #expect(arrivals.count == 1 && arrival.uptime == .zero + .seconds(4))
        #expect(!arrival.isRebuilt && arrival.uncertainty == .seconds(4))
        #expect(arrival.flags >> 24 == 16)
    }

    @Test func aCopyIsCountedAndNotStored() {
        var session = SensorSession(sensorID: 7)
        var arrivals: [Arrival] = []
        for second in Int64(0)..<30 {
            for copy in Int64(0)...1 {
                let uptime = Uptime(microseconds: second * 1_000_000 + copy * 9_000)
                var reading = now
                reading.uptime = uptime
                arrivals += session.take([0, 60], uptime: uptime, now: reading, policy: .clinical)
            }
        }
        arrivals += session.release(now: now, policy: .clinical)
        let (copies, again) = (session.newCopies(), session.newCopies())
        #expect(arrivals.count == 30 && copies == 30 && again == 0)
    }

    @Test func anomaliesAreMarkedBesidePlausibility() {
        var session = SensorSession(sensorID: 7)
        let odd: [UInt8] = [0x10, 0x3e, 0xb1, 0x03, 0xde]
        let arrival = session.receive(
            odd, uptime: Uptime(microseconds: 1), now: now, policy: .clinical)
        #expect(
            FrameAnomalies(rawValue: UInt8(truncatingIfNeeded: arrival.flags >> 16)) == .oddTail)
        #expect(
            session.receive(odd, uptime: Uptime(microseconds: 1), now: now, policy: .strict).fault
                != nil)
    }
}

extension SensorSession {
    /// Takes a frame that was sent at `uptime`.
    fileprivate mutating func receive(
        _ frame: [UInt8], uptime: Uptime, now: ClockReading, policy: DecodePolicy
    ) -> Arrival {
        receive(TimedFrame(bytes: frame, uptimeMicroseconds: uptime.microseconds), now, policy)
    }
}
