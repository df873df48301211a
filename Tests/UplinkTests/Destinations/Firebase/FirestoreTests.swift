import Basics
import Foundation
import OfflineQueue
import Testing

@testable import Uplink

@Suite struct FirestoreTests {
    private static let time = UTC(microseconds: 1_763_798_400_123_456)
    private static let database =
        "https://firestore.googleapis.com/v1/projects/p/databases/(default)"
    private static let target = "/v1/projects/p/databases/(default)/documents"

    /// A database that answers each commit with a script's status and body; nil: as Firestore does.
    private static func destination(
        _ answer: @escaping @Sendable (HTTPRequest) -> (Int, String)?
    ) throws -> (any Destination, ScriptedTransport) {
        let transport = ScriptedTransport { request in
            guard request.target.hasPrefix(target) else {
                let claims = Data(#"{"sub":"user1"}"#.utf8).base64EncodedString()
                let token = "h.\(claims.replacing("=", with: "")).s"
                return .json(
                    200,
                    #"{"idToken":"\#(token)","id_token":"\#(token)","refreshToken":"r","expiresIn":"3600"}"#
                )
            }
            if let (status, body) = answer(request) { return .json(status, body) }
            let writes = String(decoding: request.body, as: UTF8.self).ranges(of: #""update""#)
            return .json(200, written(writes.count))
        }
        let kind = try DestinationRegistry.destination("firebase", settings)
        let parts = DestinationParts(transport: transport, clock: StillClock(), logger: .quiet)
        return (kind.make(parts), transport)
    }

    private static let settings = [
        "url": database, "store": "firestore", "key": "hush", "email": "gw@clinic.example",
        "password": "hush",
    ]

    private static func written(_ count: Int) -> String {
        let results = Array(repeating: #"{"updateTime":"2026-11-22T08:00:00Z"}"#, count: count)
        return #"{"writeResults":[\#(results.joined(separator: ","))],"commitTime":"x"}"#
    }

    private static func point(_ content: DataPoint.Content) -> OutgoingPoint {
        OutgoingPoint(
            DataPoint(uuid: SampleIdentity(runNonce: 7, sample: 1).description, content),
            patient: "40001", sensorID: 3, strap: StrapDatasheet(model: "H10"))
    }

    private static let stored = DeliveryAnswer.entries([EntryAnswer(.stored)])

    @Test func aHeartRateIsADocumentUnderANameOfItsOwn() async throws {
        let (destination, transport) = try Self.destination { _ in nil }
        let window = Self.time..<(Self.time + .seconds(60))
        for content in [
            DataPoint.Content.averageHeartRate(tenths: 723, count: 58, window: window),
            .heartRate(bpm: 72, at: Self.time),
        ] {
            let answer = await destination.deliver([Self.point(content)], alone: false)
            #expect(answer == Self.stored)
        }
        let commits = transport.requests.filter { $0.target == Self.target + ":commit" }
        let uuid = SampleIdentity(runNonce: 7, sample: 1).description
        let name =
            "projects/p/databases/(default)/documents/users/user1/heartRate/s3-1763798400123-\(uuid)"
        let rest = #""sensor":{"integerValue":"3"},"source":{"stringValue":"H10"}}}}]}"#
        #expect(
            commits.map { String(decoding: $0.body, as: UTF8.self) } == [
                #"{"writes":[{"update":{"name":"\#(name)","fields":{"bpm":{"doubleValue":72.3},"#
                    + #""count":{"integerValue":"58"},"start":{"timestampValue":"#
                    + #""2025-11-22T08:00:00.123456Z"},"end":{"timestampValue":"#
                    + #""2025-11-22T08:01:00.123456Z"},"# + rest,
                #"{"writes":[{"update":{"name":"\#(name)","fields":{"bpm":{"doubleValue":72},"#
                    + #""start":{"timestampValue":"2025-11-22T08:00:00.123456Z"},"#
                    + #""end":{"timestampValue":"2025-11-22T08:00:00.123456Z"},"# + rest,
            ])
        for commit in commits {
            #expect(!commit.target.contains("auth") && !commit.target.contains("h."))
            #expect(commit.headers.contains { $0.name == "Authorization" })
            #expect(!String(decoding: commit.body, as: UTF8.self).contains("40001"))
        }
    }

    @Test func gapsAndDaysAreDocuments() async throws {
        let (destination, transport) = try Self.destination { _ in nil }
        #expect(destination.takesLedger)
        let gap = LedgerEntry(
            id: "a-1", sensorID: 3, patient: nil,
            .gap(
                .outOfRange, from: Self.time, until: Self.time + .seconds(75),
                length: .seconds(75)))
        #expect(await destination.deliver(ledger: [gap]) == .stored)
        let body = String(decoding: transport.requests.last?.body ?? [], as: UTF8.self)
        #expect(body.contains("/users/user1/gaps/s3-a-1"))
        #expect(body.contains(#""cause":{"stringValue":"out-of-range"}"#))
        #expect(body.contains(#""seconds":{"doubleValue":75}"#))
    }

    @Test(
        arguments: [
            (200, Self.written(1), Self.stored), (200, Self.written(2), .unclear("200")),
            (200, "{}", .unclear("200")), (200, "<html>", .unclear("200")),
            (400, fault("INVALID_ARGUMENT", "x"), .malformed),
            (400, fault("INVALID_ARGUMENT", "maximum 500 writes allowed per request"), .tooLarge),
            (
                400, fault("FAILED_PRECONDITION", "Datastore Mode"),
                .held(.requestRefused, retryAt: nil)
            ),
            (403, fault("PERMISSION_DENIED", "Missing"), .held(.forbidden, retryAt: nil)),
            (404, fault("NOT_FOUND", "no database"), .held(.notFound, retryAt: nil)),
            (409, fault("ABORTED", "contention"), .unclear("409")),
            (413, "", .tooLarge),
            (429, fault("RESOURCE_EXHAUSTED", "Quota"), .throttled(retryAfter: nil)),
            (500, fault("INTERNAL", "x"), .unclear("500")),
            (503, fault("UNAVAILABLE", "x"), .throttled(retryAfter: nil)),
            (504, fault("DEADLINE_EXCEEDED", "x"), .unanswered("504")),
        ] as [(Int, String, DeliveryAnswer)])
    func anAnswerMeansThis(status: Int, body: String, meaning: DeliveryAnswer) async throws {
        let (destination, _) = try Self.destination { _ in (status, body) }
        let point = Self.point(.heartRate(bpm: 72, at: Self.time))
        #expect(await destination.deliver([point], alone: false) == meaning)
    }

    private static func fault(_ word: String, _ message: String) -> String {
        #"{"error":{"code":1,"message":"\#(message)","status":"\#(word)"}}"#
    }

    @Test func aMinuteIsADocumentUnlessSomebodyPaysForMore() throws {
        let kind = try DestinationRegistry.destination("firebase", Self.settings)
        #expect(kind.resolution == .sixtySeconds)
        #expect(try KindFixture.make("firebase").resolution == .raw)
        #expect(kind.place == Self.database && kind.example.contains("documents:commit"))
        #expect(!kind.example.contains("hush"))
    }

    @Test(
        arguments: [
            (["url": "https://p.firebaseio.com"], "url does not name a database of Firestore"),
            (["url": database + "/documents"], "url does not name a database of Firestore"),
            (
                ["share": "yes", "share-id": "0123456789abcdef0123456789abcdef"],
                "nothing can be shared"
            ),
            (["store": "mysql"], "store has an unknown value"),
        ])
    func aBadSettingIsNamed(change: [String: String], says: String) throws {
        let problem = try #require(throws: DestinationProblem.self) {
            try DestinationRegistry.destination("firebase", Self.settings.merging(change) { $1 })
        }
        #expect(problem.message.hasPrefix(says), "\(problem)")
    }
}
