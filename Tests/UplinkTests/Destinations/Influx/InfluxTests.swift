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

    /// No InfluxDB 2 or 3 could be added: they answer 400 to a request of no lines.
    @Test(arguments: ["unable to parse: writing requires points", "incoming write was empty"])
    func aServerThatRefusesARequestOfNoLinesIsWell(words: String) async throws {
        let transport = ScriptedTransport { _ in
            .success(HTTPAnswer(status: 400, body: Array(words.utf8)))
        }
        let parts = DestinationParts(transport: transport, clock: StillClock(), logger: .quiet)
        let kind = try KindFixture.make("influx")
        _ = try await kind.probe(parts)
        let destination = kind.make(parts)
        #expect(await destination.isMended(.credentialsRefused))
        let point = KindFixture.point(.heartRate(bpm: 72, at: .epoch))
        guard case .entries(let entries) = await destination.deliver([point], alone: true) else {
            Issue.record("no verdict")
            return
        }
        #expect(entries.map(\.isTaken) == [false], "of lines it says that they were lost")
    }

    /// It is no line, and was refused until another was taken.
    @Test func aGapOfUnknownTimeIsNoRequest() throws {
        let kind = try KindFixture.http("influx")
        #expect(kind.request(ledger: [], KindFixture.context) != nil)
        let gap = LedgerEntry(
            id: "b-1-1", sensorID: 3, patient: nil,
            .gap(.clockUnknown, from: nil, until: nil, length: nil))
        #expect(kind.request(ledger: [gap], KindFixture.context) == nil)
    }

    // MARK: - Partial writes

    /// A database at its limit of series: it takes sensor 1 and drops the points of sensor 2.
    private static func limited(
        _ says: @escaping @Sendable (_ lines: [Substring], _ dropped: [Int]) -> HTTPAnswer
    ) -> ScriptedTransport {
        ScriptedTransport { request in
            let lines = String(decoding: request.body, as: UTF8.self).split(separator: "\n")
            let dropped = lines.indices.filter { lines[$0].contains(",sensor=2 ") }
            return .success(
                dropped.isEmpty ? HTTPAnswer(status: 204) : says(lines, dropped))
        }
    }

    private static func error(_ status: Int, _ text: String) -> HTTPAnswer {
        HTTPAnswer(
            status: status, contentType: "application/json",
            body: Array(#"{"error":"\#(text)"}"#.utf8))
    }

    private static func points(of sensors: [Int64]) -> [OutgoingPoint] {
        sensors.enumerated().map { index, sensor in
            OutgoingPoint(
                DataPoint(
                    uuid: SampleIdentity(runNonce: 7, sample: Int64(index)).description,
                    .heartRate(bpm: 72, at: .epoch + .seconds(index))),
                patient: "ward-a", sensorID: sensor)
        }
    }

    private static func make(_ transport: ScriptedTransport) throws -> any Destination {
        try KindFixture.make("influx").make(
            DestinationParts(transport: transport, clock: StillClock(), logger: .quiet))
    }

    /// A healthy strap got 3 of 949 samples through in four minutes beside one that the database refused, and
    /// `status` said: check network.
    @Test(
        "a strap that the database refuses does not hold up the one beside it",
        arguments: [
            (
                400,
                #"partial write: max-values-per-tag limit exceeded (1/1): measurement=\"heart_rate\" tag=\"sensor\" value=\"2\" dropped=%"#
            ),
            (400, "partial write: max-series-per-database limit exceeded: (1) dropped=%"),
            (
                422,
                "failure writing points to database: partial write: max-series-per-database limit exceeded: (1) dropped=%"
            ),
        ])
    func aLimitOfSeries(status: Int, text: String) async throws {
        let transport = Self.limited { _, dropped in
            Self.error(status, text.replacing("%", with: "\(dropped.count)"))
        }
        let destination = try Self.make(transport)
        let sensors: [Int64] = [1, 2, 1, 2, 1, 3]
        guard
            case .entries(let entries) = await destination.deliver(
                Self.points(of: sensors), alone: false)
        else {
            Issue.record("no entries")
            return
        }
        #expect(entries.map(\.verdict) == sensors.map { $0 == 2 ? .refused : .stored })
        #expect(entries[1].status == status)
        #expect(entries[1].diagnostics.contains("limit exceeded"))
        // The whole batch, then each series once.
        #expect(transport.requests.count == 4)
        #expect(await destination.fault == nil)
        #expect(await destination.partialFault?.contains("limit exceeded") == true)
        #expect(await destination.partialFault?.contains("ward-a") == false)

        // What is refused altogether is known by one answer.
        let alone = await destination.deliver(Self.points(of: [2, 2]), alone: false)
        guard case .entries(let both) = alone else {
            Issue.record("no entries")
            return
        }
        #expect(both.allSatisfy { $0.verdict == .refused })
        #expect(transport.requests.count == 5)
        #expect(await destination.fault?.contains("limit exceeded") == true)

        let healthy = await destination.deliver(Self.points(of: [1]), alone: false)
        #expect(healthy == .entries([EntryAnswer(.stored)]))
        #expect(await destination.partialFault == nil)
    }

    @Test func theLinesThatInfluxDB3NamesAreRefusedAndTheOthersStored() async throws {
        let transport = Self.limited { lines, dropped in
            let data = dropped.map {
                #"{"original_line":"\#(lines[$0])","line_number":\#($0 + 1),"error_message":"too many columns"}"#
            }.joined(separator: ",")
            let text = #"{"error":"partial write of line protocol occurred","data":[\#(data)]}"#
            return HTTPAnswer(status: 400, body: Array(text.utf8))
        }
        let destination = try Self.make(transport)
        let stored = EntryAnswer(.stored)
        let refused = EntryAnswer(.refused, status: 400, diagnostics: "too many columns")
        #expect(
            await destination.deliver(Self.points(of: [1, 2, 1, 2]), alone: false)
                == .entries([stored, refused, stored, refused]))
        // The lines that were not named once more: the answer to these shows that they are stored.
        #expect(transport.requests.count == 2)
    }

    /// Points of two shards: the count is of one of them.
    @Test func whereNothingTellsWhichPointsOfASeriesWereDroppedTheBatchIsHalved() async throws {
        let transport = Self.limited { _, _ in
            Self.error(400, "partial write: max-series-per-database limit exceeded: (1) dropped=1")
        }
        let destination = try Self.make(transport)
        #expect(await destination.deliver(Self.points(of: [1, 2, 2]), alone: false) == .malformed)
        #expect(await destination.deliver(Self.points(of: [2, 2]), alone: false) == .malformed)
        guard case .entries(let one) = await destination.deliver(Self.points(of: [2]), alone: true)
        else {
            Issue.record("no entries")
            return
        }
        #expect(one.map(\.verdict) == [.refused])
    }

    @Test(
        arguments: [
            #"{"error":"partial write of line protocol occurred","data":[{"line_number":9}]}"#,
            #"{"error":"partial write of line protocol occurred","data":[{"line_number":-9223372036854775808}]}"#,
            #"{"error":"partial write of line protocol occurred","data":null}"#,
            #"{"error":"partial write: x dropped=0"}"#, #"{"error":"partial write: x dropped=-3"}"#,
            #"{"error":"partial write: x dropped="}"#, "partial write",
        ])
    func anAnswerThatNamesNothingOfOursConvictsNobody(body: String) async throws {
        let transport = ScriptedTransport { _ in
            .success(HTTPAnswer(status: 400, body: Array(body.utf8)))
        }
        let destination = try Self.make(transport)
        #expect(await destination.deliver(Self.points(of: [1, 1]), alone: false) == .malformed)
    }

    @Test func theServersWordsAreShownInOneBoundedLineWithoutPatientsAndNumbers() async throws {
        let transport = ScriptedTransport { _ in
            .success(
                HTTPAnswer(
                    status: 500, contentType: "application/json",
                    body: Array(
                        (#"{"code":"internal error","message":"no room for ward-a at 72\n\u001b[31m"#
                            + #" \#(String(repeating: "k", count: 60))"}"#).utf8)))
        }
        let destination = try Self.make(transport)
        #expect(await destination.deliver(Self.points(of: [1]), alone: false) == .unclear("500"))
        #expect(await destination.fault == "the server answers HTTP 500: no room for ... at ##")
    }
}
