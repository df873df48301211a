import GATTHeartRate
import OfflineQueue
import Testing

@testable import Recording

@Suite struct SensorSessionTests {
    private let now = ClockReading(
        uptimeMicroseconds: 10_000_000, wallMicroseconds: 1_800_000_000_000_000, isTrusted: true)

    @Test func aFrameIsDatedByItsArrivalNotByItsProcessing() {
        var session = SensorSession(sensorID: 1, assignmentID: 7)
        let arrival = session.receive(
            [0x06, 72], uptime: 9_250_000, now: now, policy: .clinical)
        #expect(arrival.assignmentID == 7)
        #expect(arrival.uptimeMicroseconds == 9_250_000)
        let wall: Int64 = 1_799_999_999_250_000
        #expect(arrival.trustedWallMicroseconds == wall)
        #expect(arrival.fault == nil)
        #expect(session.latest?.bpm == 72)
    }

    @Test func anUntrustedClockDatesNothing() {
        var session = SensorSession(sensorID: 1, assignmentID: 7)
        var untrusted = now
        untrusted.isTrusted = false
        let arrival = session.receive([0x06, 72], uptime: 1, now: untrusted, policy: .clinical)
        #expect(arrival.trustedWallMicroseconds == nil)
    }

    @Test(arguments: [[], [0x00], [0x01, 0x48], [0x08, 72, 1]])
    func aFrameOfGarbageIsKeptWithItsFaultAndTheStreamGoesOn(frame: [UInt8]) {
        var session = SensorSession(sensorID: 1, assignmentID: 7)
        let arrival = session.receive(frame, uptime: 1, now: now, policy: .clinical)
        #expect(arrival.fault != nil)
        #expect(arrival.frame == frame)
        #expect(session.receive([0x00, 60], uptime: 2, now: now, policy: .clinical).fault == nil)
    }

    @Test func implausibleMeasurementsAreMarkedNotDropped() {
        var session = SensorSession(sensorID: 1, assignmentID: 7)
        let arrival = session.receive([0x04, 0], uptime: 1, now: now, policy: .clinical)
        #expect(arrival.fault == nil)
        let marks = Plausibility(rawValue: UInt16(truncatingIfNeeded: arrival.flags))
        #expect(marks.contains(.zeroRate))
        #expect(marks.contains(.contactLost))
    }

    @Test func anomaliesAreMarkedBesidePlausibility() {
        var session = SensorSession(sensorID: 1, assignmentID: 7)
        let odd: [UInt8] = [0x10, 0x3e, 0xb1, 0x03, 0xde]
        let arrival = session.receive(odd, uptime: 1, now: now, policy: .clinical)
        #expect(
            FrameAnomalies(rawValue: UInt8(truncatingIfNeeded: arrival.flags >> 16)) == .oddTail)
        #expect(session.receive(odd, uptime: 1, now: now, policy: .strict).fault != nil)
    }
}
