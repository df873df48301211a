import Basics
import Foundation
import OfflineQueue
import Testing

@testable import Uplink

@Suite struct DestinationKindTests {
    private static let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    private static let settings: [String: [String: String]] = [
        "cloudcare": [
            "url": "https://cloudcare.example/api/v1", "gateway": "gw-1",
            "device-key": "hush-hush-hush-hush",
        ],
        "file": ["path": "/var/lib/points.ndjson"],
        "firebase": [
            "url": "https://p-default-rtdb.firebaseio.com", "key": "hush-key",
            "email": "gw@clinic.example", "password": "hush", "share": "yes",
            "share-id": "0123456789abcdef0123456789abcdef",
        ],
        "influx": ["url": "http://127.0.0.1:8086", "database": "ward", "token": "hush"],
        "mqtt": [
            "url": "mqtts://broker.example", "gateway": "ward", "user": "gw", "password": "hush",
            "discovery": "on",
        ],
        "postgrest": [
            "url": "https://p.supabase.co/rest/v1", "key": "sb_publishable_hush",
            "email": "gw@clinic.example", "password": "hush",
        ],
        "webhook": ["url": "https://host.example/in", "secret": secret],
    ]

    private static func make(
        _ kind: String, _ more: [String: String] = [:]
    ) throws -> any DestinationKind {
        try DestinationRegistry.destination(
            kind, try #require(settings[kind]).merging(more) { $1 })
    }

    private static func http(
        _ kind: String, _ more: [String: String] = [:]
    ) throws -> any HTTPKind {
        try #require(try make(kind, more) as? any HTTPKind)
    }

    private static let context = RequestContext(patient: nil, seconds: 1_795_334_401)

    @Test(arguments: DestinationRegistry.kinds.map { $0.name })
    func aKindIsCompleteAndItsExampleHoldsNoSecret(name: String) throws {
        let type = try DestinationRegistry.kind(name)
        #expect(!type.summary.isEmpty && !type.promise.words.isEmpty && !type.fields.isEmpty)
        #expect(Set(type.fields.map(\.name)).count == type.fields.count)
        let kind = try Self.make(name)
        #expect(kind.example.contains("72"))
        for field in type.fields where field.isSecret {
            if let value = Self.settings[name]?[field.name] {
                #expect(!kind.example.contains(value), "\(field.name)")
            }
        }
        #expect(kind.example.contains("40001") == (kind.patientIdentity == .id))
    }

    @Test(
        arguments: [
            ("webhook", ["url": "host.example"], "url is not an address"),
            ("webhook", ["url": "https://me:pw@host.example"], "url holds more than an address"),
            ("webhook", ["secret": "whsec_short"], "secret is not"),
            ("webhook", ["format": "xml"], "format has an unknown value"),
            ("webhook", ["patient": "name"], "patient has an unknown value"),
            ("webhook", ["colour": "red"], "this kind has no setting 'colour'"),
            ("webhook", ["url": ""], "url is missing"),
            ("webhook", ["url": "https://a\u{0A}b"], "url is too long or holds control"),
            ("cloudcare", ["device-key": "short"], "device-key is too short"),
            ("cloudcare", ["gateway": "a b"], "gateway is not a name"),
            ("firebase", ["url": "https://p.firebaseio.com/x"], "url holds more than"),
            ("firebase", ["anonymous": "yes"], "there has to be a user"),
            ("firebase", ["password": ""], "there has to be a user"),
            ("firebase", ["share-id": "abcd1234"], "share-id is missing, or too easy to guess"),
            ("firebase", ["share-id": ""], "share-id is missing"),
            ("firebase", ["share-id": "../users/x/0123456789abcdef"], "share-id is missing, or"),
            ("influx", ["bucket": "b"], "database or bucket is missing"),
            ("influx", ["user": "u"], "user and password belong together"),
            ("influx", ["user": "u", "password": "p"], "a token and a password are given"),
            ("mqtt", ["url": "https://broker.example"], "url is no address of a broker"),
            ("mqtt", ["url": "mqtts://me:hush@broker.example"], "url holds more than an address"),
            ("mqtt", ["gateway": "ward/3"], "gateway is not a name"),
            ("mqtt", ["prefix": "a/#"], "prefix is not a name"),
            ("mqtt", ["client-id": "a b"], "client-id is not a name"),
            ("mqtt", ["version": "4"], "version has an unknown value"),
            ("mqtt", ["user": ""], "there is a password and no user"),
            ("mqtt", ["format": "thingsboard"], "ThingsBoard does not read"),
            ("postgrest", ["url": "https://p.supabase.co"], "url lacks the path"),
            ("postgrest", ["key": "sb_secret_x"], "this key owns the whole database"),
            ("postgrest", ["token": "sb_secret_x"], "this key owns the whole database"),
            (
                "postgrest",
                ["key": "eyJhbGciOiJIUzI1NiJ9.eyJyb2xlIjoic2VydmljZV9yb2xlIn0.c2ln"],
                "this key owns the whole database"
            ),
            ("postgrest", ["table": "a b"], "table is not a name"),
            ("postgrest", ["password": ""], "email and password belong together"),
            ("postgrest", ["token": "t"], "email and password belong together"),
            ("file", ["path": "points"], "path is not an absolute path"),
        ])
    func aBadSettingIsNamedWithWhatToDo(
        kind: String, change: [String: String], says: String
    ) throws {
        let problem = try #require(throws: DestinationProblem.self) {
            try Self.make(kind, change)
        }
        #expect(problem.message.hasPrefix(says), "\(problem)")
        #expect(!problem.advice.isEmpty && !"\(problem)".contains("hush"))
    }

    @Test func anUnknownKindNamesThoseThatThereAre() throws {
        let problem = try #require(throws: DestinationProblem.self) {
            try DestinationRegistry.kind("fax")
        }
        #expect(problem.advice.contains("influx, mqtt, postgrest, webhook"))
    }

    // MARK: - Writers

    private static func point(
        _ content: DataPoint.Content, sample: Int64 = 1_234_567, patient: String? = "40001"
    ) -> OutgoingPoint {
        let uuid = SampleIdentity(runNonce: 7, sample: sample).description
        return OutgoingPoint(DataPoint(uuid: uuid, content), patient: patient, sensorID: 3)
    }

    private static func body(_ kind: any HTTPKind, _ points: [OutgoingPoint]) -> String {
        String(decoding: kind.request(points, context).body, as: UTF8.self)
    }

    @Test func linesOfInfluxHoldTagsFloatsAndTimesThatDiffer() throws {
        let rate = DataPoint.Content.heartRate(
            bpm: 72, at: UTC(microseconds: 1_763_798_400_123_456))
        let start = UTC(microseconds: 1_763_798_400_000_000)
        let points = [
            Self.point(rate), Self.point(rate, sample: 1_234_568),
            Self.point(
                .averageHeartRate(tenths: 723, count: 9, window: start..<start + .seconds(10))),
            Self.point(.interval(ticks: 843, end: start)),
        ]
        #expect(
            Self.body(try Self.http("influx"), points) == """
                heart_rate,sensor=3 bpm=72 1763798400123456567
                heart_rate,sensor=3 bpm=72 1763798400123456568
                heart_rate_10s,sensor=3 bpm=72.3,count=9 1763798400000000567
                rr_interval,sensor=3 ms=823.2421875 1763798400000000567

                """)
        let tagged = try Self.http("influx", ["gateway": "ward 3,a=b\\", "patient": "id"])
        #expect(
            Self.body(tagged, [points[0]])
                == "heart_rate,sensor=3,gateway=ward\\ 3\\,a\\=b_,patient=40001 bpm=72 1763798400123456567\n"
        )
        #expect(
            try Self.http("influx", ["database": "", "bucket": "b/1", "org": "o p"])
                .request([], Self.context).target == "/api/v2/write?bucket=b%2F1&org=o%20p")
    }

    @Test func aRowOfPostgRESTHasMicrosecondsAndNoPatientUnlessAsked() throws {
        let time = UTC(microseconds: 1_763_798_400_123_456)
        let points = [
            Self.point(.heartRate(bpm: 72, at: time)),
            Self.point(.interval(ticks: 1024, end: time)),
        ]
        let kind = try Self.http("postgrest")
        #expect(
            Self.body(kind, points) == """
                [{"id":"00000000-0000-8007-8000-000012d68700","sensor":"3","kind":"heart-rate",\
                "measured_at":"2025-11-22T08:00:00.123456Z","bpm":72},\
                {"id":"00000000-0000-8007-8000-000012d68700","sensor":"3","kind":"rr-interval",\
                "measured_at":"2025-11-22T07:59:59.123456Z","until":"2025-11-22T08:00:00.123456Z",\
                "rr_ms":1000}]
                """)
        let asked = try Self.http("postgrest", ["patient": "id"])
        #expect(Self.body(asked, points).contains(#""patient":"40001""#))
        let request = kind.request([], Self.context)
        #expect(
            request.target
                == "/rest/v1/heart_rate?on_conflict=owner,id"
                + "&columns=id,patient,sensor,kind,measured_at,until,bpm,rr_ms")
        #expect(
            request.headers.contains {
                $0.name == "Prefer" && $0.value.contains("resolution=ignore-duplicates")
            })
        #expect(request.body == Array("[]".utf8))
    }

    private static func cloudCare(_ key: String = "hush-hush-hush-hush") throws -> CloudCareKind {
        try #require(try make("cloudcare", ["device-key": key]) as? CloudCareKind)
    }

    @Test func samplesOfOneMillisecondStayTwoAtCloudCare() throws {
        let time = UTC(microseconds: 1_763_798_400_123_456)
        let points = [1_234_567, 1_234_568].map {
            Self.point(.heartRate(bpm: 72, at: time), sample: $0)
        }
        let kind = try Self.cloudCare()
        let body = Self.body(kind, points)
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
            Self.point(
                .heartRate(bpm: 72, at: time), sample: Int64(index), patient: patient)
        }
        let parts = kind.batches(of: points, Self.context)
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
                    ? HTTPAnswer(status: 201, body: Array(Self.imported(1, stored: 1).utf8))
                    : HTTPAnswer(
                        status: 403, body: Array(#"{"detail":"Device not paired."}"#.utf8)))
        }
        let destination = try Self.make("cloudcare").make(
            DestinationParts(transport: transport, clock: StillClock(), logger: .quiet))
        let points = ["a", "b"].map {
            Self.point(.heartRate(bpm: 72, at: UTC(microseconds: 0)), patient: $0)
        }
        #expect(
            await destination.deliver(points, alone: false) == .held(.pairingLost, retryAt: nil))
        #expect(asked.change { $0 } == 2)
    }

    @Test func theSignatureOfAWebhookIsThatOfTheStandard() throws {
        // The example of the Standard Webhooks specification's libraries.
        let key = try #require(WebhookKey(Secret(Self.secret)))
        let signature = key.signature(
            id: "msg_p5jXN8AQM9LWM0D4loKWxJek", seconds: 1_614_265_330,
            Array(#"{"test": 2432232314}"#.utf8))
        #expect(signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
    }

    @Test func aBatchThatIsSentAgainHasTheSameWebhookID() throws {
        let kind = try Self.http("webhook")
        let points = [Self.point(.heartRate(bpm: 72, at: UTC(microseconds: 0)))]
        // Of as many, and with the same first one.
        let others = [Self.point(.heartRate(bpm: 73, at: UTC(microseconds: 0)))]
        let first = kind.request(points, Self.context)
        let again = kind.request(points, RequestContext(seconds: Self.context.seconds + 30))
        let id = { (request: HTTPRequest) in
            request.headers.first { $0.name == "webhook-id" }?.value
        }
        #expect(id(first) == id(again) && id(first)?.hasPrefix(points[0].point.uuid) == true)
        #expect(id(first) != id(kind.request(others, Self.context)))
        #expect(first.body == again.body)
    }

    // MARK: - Answers

    struct Answer: Sendable, CustomTestStringConvertible {
        var kind: String
        var status: Int
        var body = ""
        var fields: [String: String] = [:]
        var meaning: AnswerMeaning
        /// How many samples it answers.
        var count = 1
        var testDescription: String { "\(kind) \(status) \(body)" }

        init(
            _ kind: String, _ status: Int, _ meaning: AnswerMeaning,
            fields: [String: String] = [:], count: Int = 1
        ) {
            self.init(kind, status, "", meaning, fields: fields, count: count)
        }

        init(
            _ kind: String, _ status: Int, _ body: String, _ meaning: AnswerMeaning,
            fields: [String: String] = [:], count: Int = 1
        ) {
            (self.kind, self.status, self.body) = (kind, status, body)
            (self.fields, self.meaning, self.count) = (fields, meaning, count)
        }
    }

    private static func imported(
        _ total: Int, stored: Int, duplicate: Int = 0, error: Int = 0
    ) -> String {
        #"{"total_metrics":\#(total),"stored_count":\#(stored),"duplicate_count":\#(duplicate),"#
            + #""error_count":\#(error)}"#
    }

    private static func code(_ code: String) -> String {
        #"{"code":"\#(code)","message":"m","details":null,"hint":null}"#
    }

    private static let applied = [
        "preference-applied": "resolution=ignore-duplicates, return=minimal"
    ]

    static let answers: [Answer] = [
        Answer("cloudcare", 201, imported(2, stored: 2), .stored, count: 2),
        Answer("cloudcare", 201, imported(2, stored: 0, duplicate: 2), .stored, count: 2),
        Answer("cloudcare", 201, imported(1, stored: 1), .refused, count: 2),
        Answer("cloudcare", 201, imported(2, stored: 1, error: 1), .refused, count: 2),
        Answer("cloudcare", 201, imported(2, stored: 1), .refused, count: 2),
        Answer("cloudcare", 201, imported(2, stored: 3, duplicate: -1), .refused, count: 2),
        Answer("cloudcare", 201, imported(.max, stored: .max, duplicate: .max), .refused, count: 2),
        Answer("cloudcare", 201, "{}", .unclear, count: 2),
        Answer("cloudcare", 201, "<html>", .unclear, count: 2),
        Answer("cloudcare", 200, .unclear, count: 2),
        Answer("cloudcare", 200, #"{"status":"healthy"}"#, .stored, count: 0),
        Answer("cloudcare", 400, .refused),
        Answer("cloudcare", 403, #"{"detail":"Device not paired."}"#, .held(.pairingLost)),
        Answer("cloudcare", 403, .held(.forbidden)),
        Answer(
            "cloudcare", 404, #"{"detail":"Paired patient account not found"}"#,
            .held(.patientUnknown)),
        Answer("cloudcare", 404, .held(.notFound)),
        Answer("cloudcare", 422, #"{"errors":[{"field":"metrics.0.value"}]}"#, .refused),
        Answer("cloudcare", 429, .throttled),
        Answer("cloudcare", 500, #"{"detail":"Failed to import"}"#, .suspect),
        Answer("cloudcare", 502, .unclear),
        Answer("influx", 204, .stored),
        Answer("influx", 200, "<html>", .unclear),
        Answer(
            "influx", 400, #"{"error":"partial write: field type conflict: x"}"#, .held(.schema)),
        Answer(
            "influx", 400, #"{"error":"partial write: points beyond retention policy dropped=1"}"#,
            .held(.tooOld)),
        Answer("influx", 400, #"{"error":"unable to parse 'x': missing fields"}"#, .refused),
        Answer("influx", 400, "else", .suspect),
        Answer("influx", 401, .unauthorized),
        Answer("influx", 403, .held(.forbidden)),
        Answer("influx", 404, #"{"error":"database not found: \"x\""}"#, .held(.notFound)),
        Answer("influx", 413, .tooLarge),
        Answer("influx", 422, "else", .suspect),
        Answer("influx", 422, "retention period", .held(.tooOld)),
        Answer("influx", 429, .throttled),
        Answer("influx", 500, .unclear),
        Answer("influx", 503, .throttled),
        Answer("postgrest", 201, .stored, fields: applied),
        Answer("postgrest", 200, .stored, fields: applied),
        Answer("postgrest", 201, .held(.requestRefused)),
        Answer(
            "postgrest", 201, .held(.requestRefused),
            fields: ["preference-applied": "return=minimal"]),
        Answer("postgrest", 401, code("PGRST303"), .unauthorized),
        Answer("postgrest", 403, code("42501"), .held(.forbidden)),
        Answer("postgrest", 404, code("PGRST205"), .held(.schema)),
        Answer("postgrest", 404, code("PGRST125"), .held(.notFound)),
        Answer("postgrest", 400, code("PGRST204"), .held(.schema)),
        Answer("postgrest", 400, code("42P10"), .held(.schema)),
        Answer("postgrest", 409, code("23505"), .held(.schema)),
        Answer("postgrest", 409, code("23503"), .held(.patientUnknown)),
        Answer("postgrest", 400, code("22P02"), .refused),
        Answer("postgrest", 400, code("22003"), .refused),
        Answer("postgrest", 400, code("23514"), .refused),
        Answer("postgrest", 400, code("P0001"), .refused),
        Answer("postgrest", 400, code("PGRST102"), .suspect),
        Answer("postgrest", 405, code("25006"), .held(.planExceeded)),
        Answer("postgrest", 413, .tooLarge),
        Answer("postgrest", 429, .throttled),
        Answer("postgrest", 500, code("40001"), .unclear),
        Answer("postgrest", 503, code("PGRST001"), .unclear),
        Answer("postgrest", 504, code("PGRST003"), .unclear),
        Answer("postgrest", 540, .unclear),
        Answer("webhook", 200, .stored),
        Answer("webhook", 204, .stored),
        Answer("webhook", 200, "<html>", .unclear),
        Answer("webhook", 302, .held(.requestRefused)),
        Answer("webhook", 400, .suspect),
        Answer("webhook", 401, .unauthorized),
        Answer("webhook", 403, .held(.forbidden)),
        Answer("webhook", 404, .held(.notFound)),
        Answer("webhook", 410, .held(.notFound)),
        Answer("webhook", 413, .tooLarge),
        Answer("webhook", 418, .suspect),
        Answer("webhook", 429, .throttled),
        Answer("webhook", 500, .unclear),
    ]

    @Test(arguments: answers)
    func anAnswerMeansThis(_ answer: Answer) throws {
        let kind = try Self.http(answer.kind)
        let found = kind.meaning(
            of: HTTPAnswer(
                status: answer.status, fields: answer.fields, body: Array(answer.body.utf8)),
            to: answer.count)
        #expect(found == answer.meaning)
    }

    @Test func whatIsRefusedAloneIsDeadByTheServersOwnWordOnly() async throws {
        let bodies = [
            "unable to parse": EntryVerdict.refused, "something else": .unclear,
        ]
        for (body, verdict) in bodies {
            let transport = ScriptedTransport { _ in
                .success(HTTPAnswer(status: 400, body: Array(body.utf8)))
            }
            let destination = try Self.make("influx").make(
                DestinationParts(transport: transport, clock: StillClock(), logger: .quiet))
            let point = Self.point(.heartRate(bpm: 72, at: UTC(microseconds: 0)))
            #expect(await destination.deliver([point, point], alone: false) == .malformed)
            #expect(
                await destination.deliver([point], alone: true)
                    == .entries([EntryAnswer(verdict, status: 400, diagnostics: body)]))
        }
    }

    // MARK: - Accounts

    @Test func anAccountSignsInAndItsTokensAreSavedBeforeTheyAreUsed() async throws {
        let saved = Box<TokenRecord?>(nil)
        let state = Box((bearer: "", grants: [String]()))
        let transport = ScriptedTransport { request in
            if request.target.contains("/auth/v1/token") {
                let count = state.change { state in
                    state.grants.append(request.target)
                    state.bearer = "access-\(state.grants.count)"
                    return state.grants.count
                }
                return .json(
                    200,
                    #"{"access_token":"access-\#(count)","refresh_token":"r\#(count)","expires_in":3600}"#
                )
            }
            let bearer = request.headers.first { $0.name == "Authorization" }?.value
            if bearer == "Bearer access-2" {
                #expect(saved.now?.pair.access.revealed == "access-2")
            }
            return bearer == "Bearer \(state.now.bearer)"
                ? .success(HTTPAnswer(status: 201, fields: Self.applied))
                : .json(401, Self.code("PGRST303"))
        }
        let kind = try Self.make("postgrest")
        var parts = DestinationParts(transport: transport, clock: StillClock(), logger: .quiet)
        let report = try await kind.probe(parts)
        #expect(report.tokens?.pair.access.revealed == "access-1")
        parts.tokens = report.tokens
        parts.saveTokens = { saved.set($0) }
        let destination = kind.make(parts)
        let point = Self.point(.heartRate(bpm: 72, at: UTC(microseconds: 0)))
        let stored = DeliveryAnswer.entries([EntryAnswer(.stored)])
        #expect(await destination.deliver([point], alone: false) == stored)
        // The session ends: the refresh token brings the next pair.
        state.change { $0.bearer = "access-2" }
        #expect(await destination.deliver([point], alone: false) == stored)
        #expect(
            state.now.grants == [
                "/auth/v1/token?grant_type=password", "/auth/v1/token?grant_type=refresh_token",
            ])
    }

    @Test func anAccountThatIsNotTakenIsHeldAndSaysWhatToDo() async throws {
        let transport = ScriptedTransport { _ in
            .json(400, #"{"code":400,"error_code":"invalid_credentials","msg":"Invalid"}"#)
        }
        let parts = DestinationParts(transport: transport, clock: StillClock(), logger: .quiet)
        let kind = try Self.make("postgrest")
        let problem = await #expect(throws: DestinationProblem.self) {
            _ = try await kind.probe(parts)
        }
        #expect(problem?.message == HoldReason.credentialsRefused.meaning)
        let point = Self.point(.heartRate(bpm: 72, at: UTC(microseconds: 0)))
        guard
            case .held(.credentialsRefused, _) = await kind.make(parts).deliver(
                [point], alone: false)
        else {
            Issue.record("not held")
            return
        }
        #expect(transport.requests.count == 2)
    }
}
