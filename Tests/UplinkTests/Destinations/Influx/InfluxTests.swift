import Basics
import OfflineQueue
import Testing

@testable import Uplink

@Suite struct InfluxTests {
    @Test func linesOfInfluxHoldTagsFloatsAndTimesThatDiffer() throws {
        let rate = DataPoint.Content.heartRate(
            bpm: 72, at: UTC(microseconds: 1_763_798_400_123_456))
        let start = UTC(microseconds: 1_763_798_400_000_000)
        let points = [
            KindFixture.point(rate), KindFixture.point(rate, sample: 1_234_568),
            KindFixture.point(
                .averageHeartRate(tenths: 723, count: 9, window: start..<start + .seconds(10))),
            KindFixture.point(.interval(ticks: 843, end: start)),
        ]
        #expect(
            KindFixture.body(try KindFixture.http("influx"), points) == """
                heart_rate,sensor=3 bpm=72 1763798400123456567
                heart_rate,sensor=3 bpm=72 1763798400123456568
                heart_rate_10s,sensor=3 bpm=72.3,count=9 1763798400001234567
                rr_interval,sensor=3 ms=823.2421875 1763798400000000567

                """)
        let tagged = try KindFixture.http("influx", ["gateway": "ward 3,a=b\\", "patient": "id"])
        #expect(
            KindFixture.body(tagged, [points[0]])
                == "heart_rate,sensor=3,gateway=ward\\ 3\\,a\\=b_,patient=40001 bpm=72 1763798400123456567\n"
        )
        #expect(
            try KindFixture.http("influx", ["database": "", "bucket": "b/1", "org": "o p"])
                .request([], KindFixture.context).target == "/api/v2/write?bucket=b%2F1&org=o%20p")
    }

    /// The second average of a window replaced the first once in a thousand times.
    @Test func twoAveragesOfOneWindowStayTwoInInflux() throws {
        let start = UTC(microseconds: 1_763_798_400_000_000)
        func times(_ start: UTC) throws -> [String] {
            let points = [1_000, 2_000, 10_000_000_000].map {
                KindFixture.point(
                    .averageHeartRate(tenths: 723, count: 9, window: start..<start + .seconds(10)),
                    sample: $0)
            }
            return KindFixture.body(try KindFixture.http("influx"), points)
                .split(separator: "\n").map { String($0.split(separator: " ").last ?? "") }
        }
        #expect(
            try times(start) == [
                "1763798400000001000", "1763798400000002000", "1763798400000000000",
            ])
        let last = UTC(microseconds: .max - 10_000_000)
        #expect(try times(last).allSatisfy { Int64($0) != nil }, "no time beyond 64 bits")
    }

    @Test func whatIsRefusedAloneIsDeadByTheServersOwnWordOnly() async throws {
        let bodies = [
            "unable to parse": EntryVerdict.refused, "something else": .unclear,
        ]
        for (body, verdict) in bodies {
            let transport = ScriptedTransport { _ in
                .success(HTTPAnswer(status: 400, body: Array(body.utf8)))
            }
            let destination = try KindFixture.make("influx").make(
                DestinationParts(transport: transport, clock: StillClock(), logger: .quiet))
            let point = KindFixture.point(.heartRate(bpm: 72, at: .epoch))
            #expect(await destination.deliver([point, point], alone: false) == .malformed)
            #expect(
                await destination.deliver([point], alone: true)
                    == .entries([EntryAnswer(verdict, status: 400, diagnostics: body)]))
        }
    }
}
