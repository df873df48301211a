import Basics
import OfflineQueue
import Testing

@testable import Uplink

@Suite struct DestinationKindTests {
    @Test(arguments: DestinationRegistry.kinds.map { $0.name })
    func aKindIsCompleteAndItsExampleHoldsNoSecret(name: String) throws {
        let type = try DestinationRegistry.kind(name)
        #expect(!type.summary.isEmpty && !type.promise.words.isEmpty && !type.fields.isEmpty)
        #expect(Set(type.fields.map(\.name)).count == type.fields.count)
        let kind = try KindFixture.make(name)
        #expect(kind.example.contains("72"))
        for field in type.fields where field.isSecret {
            if let value = KindFixture.settings[name]?[field.name] {
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
            ("fhir", ["url": "fhir.example"], "url is not an address"),
            ("fhir", ["gateway": "ward 3"], "gateway is not a name"),
            ("fhir", ["patient-system": "urn:oid:1"], "patient-system has no patients"),
            ("fhir", ["device": "Patient/1"], "device is no reference"),
            ("fhir", ["device": "Device/a b"], "device is no reference"),
            ("fhir", ["password": "hush"], "user and password belong together"),
            (
                "fhir", ["user": "u", "password": "hush"],
                "there is more than one way to sign in"
            ),
            ("fhir", ["client-id": "gw"], "client-id and key belong together"),
            ("fhir", ["client-id": "gw", "key": "hush"], "key is no key that signs"),
            ("firebase", ["url": "https://p.firebaseio.com/x"], "url holds more than"),
            ("firebase", ["anonymous": "yes"], "no user is given"),
            ("firebase", ["password": ""], "no user is given"),
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
            ("nats", ["url": "https://host.example"], "url is no list of NATS servers"),
            ("nats", ["url": "tls://a.example,,tls://b c"], "url is no list of NATS servers"),
            ("nats", ["url": "tls://me:hush@host.example"], "url holds more than addresses"),
            ("nats", ["seed": "SUAC"], "seed is no user's NKEY seed"),
            ("nats", ["gateway": "ward.3"], "gateway is not a name"),
            ("nats", ["patient": "4/1"], "patient is no identifier"),
            ("nats", ["patient": "4OOO1"], "patient is no identifier"),
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
            try KindFixture.make(kind, change)
        }
        #expect(problem.message.hasPrefix(says), "\(problem)")
        #expect(!problem.advice.isEmpty && !"\(problem)".contains("hush"))
    }

    @Test func anUnknownKindNamesThoseThatThereAre() throws {
        let problem = try #require(throws: DestinationProblem.self) {
            try DestinationRegistry.kind("fax")
        }
        #expect(problem.advice.contains("influx, mqtt, nats, postgrest, webhook"))
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

    static let answers: [Answer] = [
        Answer("cloudcare", 201, KindFixture.imported(2, stored: 2), .stored, count: 2),
        Answer(
            "cloudcare", 201, KindFixture.imported(2, stored: 0, duplicate: 2), .stored, count: 2),
        Answer("cloudcare", 201, KindFixture.imported(1, stored: 1), .suspect, count: 2),
        Answer("cloudcare", 201, KindFixture.imported(2, stored: 1, error: 1), .suspect, count: 2),
        Answer("cloudcare", 201, KindFixture.imported(2, stored: 1), .suspect, count: 2),
        Answer(
            "cloudcare", 201, KindFixture.imported(2, stored: 3, duplicate: -1), .suspect, count: 2),
        Answer(
            "cloudcare", 201, KindFixture.imported(.max, stored: .max, duplicate: .max), .suspect,
            count: 2),
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
        Answer("cloudcare", 502, .unanswered),
        Answer("cloudcare", 200, "<html>Sign in</html>", .unclear, count: 0),
        Answer("fhir", 200, KindFixture.batch([(201, ""), (201, "")]), .stored, count: 2),
        Answer(
            "fhir", 200, KindFixture.batch([(200, "")]),
            .each([EntryAnswer(.storedBefore, status: 200)])),
        Answer("fhir", 200, KindFixture.batch([(201, "")]), .unclear, count: 2),
        Answer("fhir", 200, KindFixture.searchset, .stored, count: 0),
        Answer("fhir", 200, "{}", .unclear, count: 0),
        Answer("fhir", 201, .unclear),
        Answer("fhir", 202, .held(.requestRefused)),
        Answer("fhir", 302, .held(.moved)),
        Answer("fhir", 400, KindFixture.outcome("too-costly", "501 entries"), .tooLarge),
        Answer("fhir", 400, KindFixture.outcome("too-long", "x"), .tooLarge),
        Answer("fhir", 400, KindFixture.outcome("structure", "x"), .suspect),
        Answer("fhir", 400, "<html>400 Bad Request</html>", .unclear),
        Answer("fhir", 401, .unauthorized),
        Answer("fhir", 403, .held(.forbidden)),
        Answer("fhir", 404, .held(.notFound)),
        Answer("fhir", 409, .unclear),
        Answer("fhir", 412, .unclear),
        Answer("fhir", 413, .tooLarge),
        Answer("fhir", 504, "<html>", .unanswered),
        Answer("fhir", 422, KindFixture.outcome("invalid", "x"), .suspect),
        Answer("fhir", 429, .throttled),
        Answer("fhir", 500, .unclear),
        Answer("fhir", 501, .held(.requestRefused)),
        Answer("fhir", 503, .throttled),
        Answer("influx", 204, .stored),
        Answer("influx", 200, "<html>", .unclear),
        Answer(
            "influx", 400, #"{"error":"partial write: field type conflict: x"}"#, .held(.schema)),
        Answer(
            "influx", 400, #"{"error":"partial write: points beyond retention policy dropped=1"}"#,
            .held(.tooOld)),
        Answer("influx", 400, #"{"error":"unable to parse 'x': missing fields"}"#, .refused),
        Answer(
            "influx", 400, #"{"error":"partial write: unable to parse 'x' dropped=0"}"#, .refused),
        Answer(
            "influx", 400, #"{"error":"partial write: max-series limit exceeded dropped=1"}"#,
            .partly),
        Answer(
            "influx", 400, #"{"error":"partial write of line protocol occurred","data":[]}"#,
            .partly),
        Answer("influx", 400, #"{"error":"invalid column type for column 'bpm'"}"#, .held(.schema)),
        Answer("influx", 422, "partial write: max-series limit exceeded dropped=1", .partly),
        Answer("influx", 400, "<html>partial write</html>", .unclear),
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
        Answer("postgrest", 201, .stored, fields: KindFixture.applied),
        Answer("postgrest", 200, .stored, fields: KindFixture.applied),
        Answer("postgrest", 201, .held(.requestRefused)),
        Answer(
            "postgrest", 201, .held(.requestRefused),
            fields: ["preference-KindFixture.applied": "return=minimal"]),
        Answer("postgrest", 401, KindFixture.code("PGRST303"), .unauthorized),
        Answer("postgrest", 403, KindFixture.code("42501"), .held(.forbidden)),
        Answer("postgrest", 404, KindFixture.code("PGRST205"), .held(.schema)),
        Answer("postgrest", 404, KindFixture.code("PGRST125"), .held(.notFound)),
        Answer("postgrest", 400, KindFixture.code("PGRST204"), .held(.schema)),
        Answer("postgrest", 400, KindFixture.code("42P10"), .held(.schema)),
        Answer("postgrest", 409, KindFixture.code("23505"), .held(.schema)),
        Answer("postgrest", 409, KindFixture.code("23503"), .held(.patientUnknown)),
        Answer("postgrest", 400, KindFixture.code("22P02"), .refused),
        Answer("postgrest", 400, KindFixture.code("22003"), .refused),
        Answer("postgrest", 400, KindFixture.code("23514"), .refused),
        Answer("postgrest", 400, KindFixture.code("P0001"), .refused),
        Answer("postgrest", 400, KindFixture.code("PGRST102"), .suspect),
        Answer("postgrest", 405, KindFixture.code("25006"), .held(.planExceeded)),
        Answer("postgrest", 413, .tooLarge),
        Answer("postgrest", 429, .throttled),
        Answer("postgrest", 500, KindFixture.code("40001"), .unclear),
        Answer("postgrest", 503, KindFixture.code("PGRST001"), .unclear),
        Answer("postgrest", 504, KindFixture.code("PGRST003"), .unanswered),
        Answer("postgrest", 540, .unclear),
        Answer("webhook", 200, .stored),
        Answer("webhook", 204, .stored),
        Answer("webhook", 200, "<html>", .unclear),
        Answer("webhook", 302, .held(.moved)),
        Answer("webhook", 502, .unanswered),
        Answer("webhook", 504, "<html>", .unanswered),
        Answer("webhook", 400, .suspect),
        Answer("webhook", 401, .unauthorized),
        Answer("webhook", 403, .held(.forbidden)),
        Answer("webhook", 404, .held(.notFound)),
        // A proxy's page says nothing about the samples: they became dead letters, a few each minute.
        Answer("cloudcare", 400, "<html>400 Bad Request</html>", .unclear),
        Answer("cloudcare", 500, "<html>500</html>", .unclear),
        Answer("postgrest", 400, "<html>400 Bad Request</html>", .unclear),
        Answer("influx", 400, "<html>400 Bad Request</html>", .unclear),
        Answer("webhook", 410, .held(.notFound)),
        Answer("webhook", 413, .tooLarge),
        Answer("webhook", 418, .suspect),
        Answer("webhook", 429, .throttled),
        Answer("webhook", 500, .unclear),
    ]

    @Test(arguments: answers)
    func anAnswerMeansThis(_ answer: Answer) throws {
        let kind = try KindFixture.http(answer.kind)
        let found = kind.meaning(
            of: HTTPAnswer(
                status: answer.status, fields: answer.fields, body: Array(answer.body.utf8)),
            to: answer.count)
        #expect(found == answer.meaning)
    }
}
