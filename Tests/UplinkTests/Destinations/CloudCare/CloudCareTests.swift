import Basics
import Foundation
import OfflineQueue
import Testing

@testable import Uplink

@Suite struct CloudCareTests {
    private static func cloudCare(_ key: String = "hush-hush-hush-hush") throws -> CloudCareKind {
        try #require(try KindFixture.make("cloudcare", ["device-key": key]) as? CloudCareKind)
    }

    @Test func samplesOfOneMillisecondStayTwoAtCloudCare() throws {
        let time = UTC(microseconds: 1_763_798_400_123_456)
        let points = [1_234_567, 1_234_568].map {
            KindFixture.point(.heartRate(bpm: 72, at: time), sample: $0)
        }
        let kind = try Self.cloudCare()
        let body = KindFixture.body(kind, points)
        let metric = { (end: String) in
            #"{"type":"HKQuantityTypeIdentifierHeartRate","value":72,"unit":"bpm","#
                + #""startDate":"\#(end)","endDate":"\#(end)","sourceApp":"EdgeGateway","#
                + #""metadata":{"measuredAt":"2025-11-22T08:00:00.123456Z"}}"#
        }
        #expect(
            body == #"{"deviceId":"\#(kind.deviceID(3, "40001"))","userId":"gw-1","#
                + #""exportTimestamp":"2026-11-22T08:00:01.000Z","#
                + #""dataRange":{"startDate":"2025-11-22T08:00:00.123Z","endDate":"2025-11-22T08:00:00.123Z"},"#
                + #""metrics":["# + metric("2025-11-22T08:00:00.127Z") + ","
                + metric("2025-11-22T08:00:00.120Z") + "]}")
        #expect(!body.contains("40001"))
    }

    /// A segment that ended within a window leaves two averages of it; the second was a duplicate there.
    @Test func twoAveragesOfOneWindowStayTwoAtCloudCare() throws {
        let start = UTC(microseconds: 1_763_798_400_000_000)
        let points = [1_000, 1_008].map {
            KindFixture.point(
                .averageHeartRate(tenths: 723, count: 9, window: start..<start + .seconds(10)),
                sample: $0)
        }
        let body = KindFixture.body(try Self.cloudCare(), points)
        for end in ["2025-11-22T08:00:01.000Z", "2025-11-22T08:00:01.008Z"] {
            let times = #""startDate":"2025-11-22T08:00:00.000Z","endDate":"\#(end)","#
            #expect(body.contains(times), "\(body)")
        }
    }

    @Test func aStrapOfAnotherPatientOrGatewayIsAnotherDeviceOfCloudCare() throws {
        let kind = try Self.cloudCare()
        let other = try Self.cloudCare("another-gateways-key")
        let ids = [
            kind.deviceID(1, nil), kind.deviceID(1, "a"), kind.deviceID(1, "b"),
            kind.deviceID(2, "a"), other.deviceID(1, "a"),
        ]
        #expect(Set(ids).count == ids.count)
        #expect(ids.allSatisfy { UUID(uuidString: $0) != nil })
        #expect(kind.deviceID(1, "a") == (try Self.cloudCare()).deviceID(1, "a"))
        let time = UTC(microseconds: 1_763_798_400_123_456)
        let points = ["a", "b", "a"].enumerated().map { index, patient in
            KindFixture.point(
                .heartRate(bpm: 72, at: time), sample: Int64(index), patient: patient)
        }
        let parts = kind.batches(of: points, KindFixture.context)
        #expect(parts.map { $0.map(\.patient) } == [["a", "a"], ["b"]])
    }

    @Test func theCodeForAPhoneIsTheJSONThatCloudCarePairsBy() throws {
        struct Code: Decodable {
            var userId, deviceId, deviceName, deviceType, generatedAt, expiresAt: String
            var pairingCode: String
        }
        let kind = try Self.cloudCare()
        let now = UTC(microseconds: 1_795_334_400_000_000)
        let code = try #require(kind.pairingCode(sensorID: 3, patient: "40001", now: now))
        let read = try JSONDecoder().decode(Code.self, from: Data(code.text.utf8))
        #expect(read.userId == "gw-1" && read.deviceId == kind.deviceID(3, "40001"))
        #expect(read.deviceType == "ble_heart_rate" && read.deviceName == "Chest strap 3")
        #expect(read.generatedAt == "2026-11-22T08:00:00.000Z")
        #expect(read.expiresAt == "2026-11-22T08:15:00.000Z" && code.expires == now + .seconds(900))
        #expect(try /[0-9A-F]{4}-[0-9A-F]{4}/.wholeMatch(in: read.pairingCode) != nil)
        #expect(!code.text.contains("40001") && !code.text.contains("hush"))
    }

    @Test func whatOnePartOfABatchIsRefusedForIsTheBatchsAnswer() async throws {
        let asked = Box(0)
        let transport = ScriptedTransport { _ in
            let number = asked.change {
                $0 += 1; return $0
            }
            return .success(
                number == 1
                    ? HTTPAnswer(status: 201, body: Array(KindFixture.imported(1, stored: 1).utf8))
                    : HTTPAnswer(
                        status: 403, body: Array(#"{"detail":"Device not paired."}"#.utf8)))
        }
        let destination = try KindFixture.make("cloudcare").make(
            DestinationParts(transport: transport, clock: StillClock(), logger: .quiet))
        let points = ["a", "b"].map {
            KindFixture.point(.heartRate(bpm: 72, at: .epoch), patient: $0)
        }
        #expect(
            await destination.deliver(points, alone: false) == .held(.pairingLost, retryAt: nil))
        #expect(asked.change { $0 } == 2)
    }
}
