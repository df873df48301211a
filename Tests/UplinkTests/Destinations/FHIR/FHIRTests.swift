import Basics
import Foundation
import OfflineQueue
import Testing

@testable import Uplink

@Suite struct FHIRTests {
    private static let time = UTC(microseconds: 1_763_798_400_123_456)

    private static func resources(_ request: HTTPRequest?) throws -> [[String: Any]] {
        let body = try #require(request).body
        let bundle = try #require(
            try JSONSerialization.jsonObject(with: Data(body)) as? [String: Any])
        #expect(bundle["type"] as? String == "batch")
        return try #require(bundle["entry"] as? [[String: Any]])
    }

    // MARK: - Observations

    @Test func aHeartRateIsAnObservationThatIsCreatedOnce() throws {
        let kind = try KindFixture.http("fhir", ["patient": "id"])
        let point = KindFixture.point(.heartRate(bpm: 72, at: Self.time))
        #expect(
            KindFixture.body(kind, [point]) == #"""
                {"resourceType":"Bundle","type":"batch","entry":[{"resource":{"resourceType":\#
                "Observation","identifier":[{"system":"urn:ietf:rfc:3986","value":\#
                "urn:uuid:6dccaac6-dad2-8b6e-a4ea-402790ebee55"}],"status":"final","category":[\#
                {"coding":[{"system":"http://terminology.hl7.org/CodeSystem/observation-category",\#
                "code":"vital-signs"}]}],"code":{"coding":[{"system":"http://loinc.org","code":\#
                "8867-4","display":"Heart rate"},{"system":"urn:iso:std:iso:11073:10101","code":\#
                "147842","display":"MDC_ECG_HEART_RATE"}]},"subject":{"reference":"Patient/40001"},\#
                "effectiveDateTime":"2025-11-22T08:00:00.123Z","valueQuantity":{"value":72,"unit":\#
                "beats/minute","system":"http://unitsofmeasure.org","code":"/min"},"device":{"type":\#
                "Device","identifier":{"system":"urn:x-edge-gateway:strap","value":"ward3-3"}}},\#
                "request":{"method":"POST","url":"Observation","ifNoneExist":\#
                "identifier=urn:ietf:rfc:3986|urn:uuid:6dccaac6-dad2-8b6e-a4ea-402790ebee55"}}]}
                """#)
        let request = kind.request([point], KindFixture.context)
        #expect(request.target == "/r4" && request.contentType == "application/fhir+json")
        #expect(request.headers.contains { $0 == ("Prefer", "return=minimal") })
    }

    @Test func anAverageSaysOfHowManyRatesItIs() throws {
        let kind = try KindFixture.http("fhir")
        let point = KindFixture.point(
            .averageHeartRate(
                tenths: 723, count: 58, window: Self.time..<(Self.time + .seconds(60))))
        let entry = try #require(
            try Self.resources(kind.request([point], KindFixture.context)).first)
        let resource = try #require(entry["resource"] as? [String: Any])
        #expect(
            resource["effectivePeriod"] as? [String: String]
                == ["start": "2025-11-22T08:00:00.123Z", "end": "2025-11-22T08:01:00.123Z"])
        let components = try #require(resource["component"] as? [[String: Any]])
        #expect(components.count == 1 && components[0]["valueInteger"] as? Int == 58)
        #expect(kind.resolution == .sixtySeconds)
    }

    @Test(
        arguments: [
            (["patient": "none"], nil),
            (["patient": "id"], #""subject":{"reference":"Patient/40001"}"#),
            (
                ["patient": "id", "patient-system": "urn:oid:1.2.3"],
                #""subject":{"type":"Patient","identifier":{"system":"urn:oid:1.2.3","value":"40001"}}"#
            ),
        ] as [([String: String], String?)])
    func aPatientIsNamedAsTheServerKnowsIt(settings: [String: String], subject: String?) throws {
        let kind = try KindFixture.http("fhir", settings)
        let body = KindFixture.body(kind, [KindFixture.point(.heartRate(bpm: 72, at: Self.time))])
        #expect(body.contains("subject") == (subject != nil))
        if let subject { #expect(body.contains(subject)) }
        #expect(body.contains("40001") == (subject != nil))
    }

    @Test func aStrapMayBeADeviceOfTheServers() throws {
        let kind = try KindFixture.http("fhir", ["device": "Device/polar-7"])
        let body = KindFixture.body(kind, [KindFixture.point(.heartRate(bpm: 72, at: Self.time))])
        #expect(body.contains(#""device":{"reference":"Device/polar-7"}"#))
    }

    @Test func aGapIsAnObservationWithoutAValueThatSaysWhy() throws {
        let kind = try KindFixture.http("fhir")
        let entries = [
            LedgerEntry(
                id: "a", sensorID: 3, patient: nil,
                .gap(
                    .outOfRange, from: Self.time, until: Self.time + .seconds(75),
                    length: .seconds(75))),
            LedgerEntry(
                id: "b", sensorID: 3, patient: nil,
                .gap(.clockUnknown, from: nil, until: nil, length: nil)),
        ]
        let written = try Self.resources(kind.request(ledger: entries, KindFixture.context))
        let resources = written.compactMap { $0["resource"] as? [String: Any] }
        let reason = try #require(resources[0]["dataAbsentReason"] as? [String: Any])
        let codings = try #require(reason["coding"] as? [[String: String]])
        #expect(codings.map { $0["code"] } == ["unknown", "out-of-range"])
        #expect(resources[0]["valueQuantity"] == nil && resources[0]["effectivePeriod"] != nil)
        // Vital signs must have a time, or say that it is not known.
        #expect(resources[1]["_effectiveDateTime"] != nil)
        #expect(written.count == 2)
    }

    // MARK: - Verdicts

    private static func parts(
        clock: StillClock = StillClock(),
        _ answer: @escaping @Sendable (HTTPRequest) -> Result<HTTPAnswer, TransportFault>
    ) -> (DestinationParts, ScriptedTransport) {
        let transport = ScriptedTransport(answer)
        return (
            DestinationParts(transport: transport, clock: clock, logger: .quiet), transport
        )
    }

    private static let points = (0..<3).map {
        KindFixture.point(.heartRate(bpm: 72, at: time), sample: $0)
    }

    @Test(
        arguments: [
            (200, "", EntryVerdict.storedBefore), (201, "", .stored),
            (412, KindFixture.outcome("multiple-matches", "2 match"), .storedBefore),
            (400, KindFixture.outcome("structure", "status is missing"), .unclear),
            (422, KindFixture.outcome("invariant", "vs-2"), .unclear),
            (
                400,
                KindFixture.outcome(
                    "processing",
                    "HAPI-1094: Resource Patient/1 not found, specified in path: Observation.subject"
                ), .held(.patientUnknown)
            ),
            (
                422, KindFixture.outcome("not-found", "no", element: "Observation.subject"),
                .held(.patientUnknown)
            ),
            (409, KindFixture.outcome("conflict", "Device/42 is gone"), .held(.deviceUnknown)),
            (409, KindFixture.outcome("duplicate", "unique constraint"), .unclear),
            (401, "", .held(.credentialsRefused)), (403, "", .held(.forbidden)),
            (404, KindFixture.outcome("not-supported", "no such type"), .held(.notFound)),
            (429, "", .unclear), (500, "", .unclear), (503, "", .unclear), (0, "", .unclear),
        ] as [(Int, String, EntryVerdict)])
    func anEntryMeansThis(status: Int, outcome: String, verdict: EntryVerdict) async throws {
        let (parts, _) = Self.parts { _ in
            .json(200, KindFixture.batch([(201, ""), (status, outcome), (200, "")]))
        }
        let destination = try KindFixture.make("fhir").make(parts)
        guard
            case .entries(let entries) = await destination.deliver(Self.points, alone: false)
        else {
            Issue.record("no entries")
            return
        }
        let isTaken = [.stored, .storedBefore].contains(verdict)
        #expect(entries.map(\.verdict) == [.stored, verdict, .storedBefore])
        #expect(await destination.fault == nil)
        let partial = await destination.partialFault
        #expect((partial == nil) == isTaken, "\(partial ?? "")")
    }

    @Test func aServerThatTakesNoneIsQuotedWithoutThePatient() async throws {
        let (parts, _) = Self.parts { _ in
            .json(
                200,
                KindFixture.batch([
                    (
                        422,
                        KindFixture.outcome("invariant", "not of Patient abc-def: needs performer")
                    )
                ]))
        }
        let destination = try KindFixture.make("fhir", ["patient": "id"]).make(parts)
        let point = KindFixture.point(.heartRate(bpm: 72, at: Self.time), patient: "abc-def")
        _ = await destination.deliver([point], alone: false)
        #expect(
            await destination.fault
                == "some samples are refused: invariant: not of Patient ...: needs performer")
        #expect(destination.servesMany)
    }

    @Test(
        arguments: [
            "{}", "[]", "<html>", #"{"resourceType":"Bundle","type":"searchset","entry":[]}"#,
            #"{"resourceType":"Bundle","type":"batch-response"}"#,
            #"{"resourceType":"Bundle","type":"batch-response","entry":[{"response":{"status":"201"}}]}"#,
        ])
    func anAnswerThatIsNotOneVerdictASampleSaysNothing(body: String) async throws {
        let (parts, _) = Self.parts { _ in .json(200, body) }
        let answer = try await KindFixture.make("fhir").make(parts)
            .deliver(Self.points, alone: false)
        #expect(answer == .unclear("200"))
    }

    /// The whole ledger waited for one entry.
    @Test func aPatientWhomTheServerDoesNotKnowIsSaidEntryByEntry() async throws {
        let (parts, _) = Self.parts { _ in
            .json(
                200,
                KindFixture.batch([
                    (201, ""), (422, KindFixture.outcome("not-found", "Patient/2 is unknown")),
                    (200, ""),
                ]))
        }
        let entries = (1...3).map {
            LedgerEntry(
                id: "e\($0)", sensorID: 3, patient: nil,
                .gap(.clockUnknown, from: nil, until: nil, length: nil))
        }
        let answer = try await KindFixture.make("fhir").make(parts).deliver(ledger: entries)
        let wanted: [LedgerVerdict] = [.stored, .waits, .stored]
        guard case .partly(wanted, let fault) = answer else {
            Issue.record("\(answer)")
            return
        }
        #expect(fault.hasSuffix("Patient/# is unknown"))
    }

    /// An entry that the server's rules refuse held up all later ones of its assignment.
    @Test func anEntryThatIsRefusedBesideOthersThatAreStoredIsOver() async throws {
        let refused = (400, KindFixture.outcome("invalid", "a period is missing"))
        let entries = (1...2).map {
            LedgerEntry(
                id: "e\($0)", sensorID: 3, patient: nil,
                .gap(.clockUnknown, from: nil, until: nil, length: nil))
        }
        for (said, wanted) in [
            ([refused, refused], [.waits, .waits]), ([refused, (201, "")], [.refused, .stored]),
            ([(503, ""), (201, "")], [.waits, .stored]),
        ] as [([(Int, String)], [LedgerVerdict])] {
            let (parts, _) = Self.parts { _ in .json(200, KindFixture.batch(said)) }
            let answer = try await KindFixture.make("fhir").make(parts).deliver(ledger: entries)
            guard case .partly(wanted, _) = answer else {
                Issue.record("\(answer) instead of \(wanted)")
                continue
            }
        }
    }

    @Test func aBatchOfTheLedgerThatIsTooLargeMayGoInParts() async throws {
        let entry = LedgerEntry(
            id: "e", sensorID: 3, patient: nil,
            .gap(.clockUnknown, from: nil, until: nil, length: nil))
        for answer in [.json(413, "{}"), .failure(.timeout)]
            as [Result<HTTPAnswer, TransportFault>]
        {
            let (parts, _) = Self.parts { _ in answer }
            let said = try await KindFixture.make("fhir").make(parts).deliver(ledger: [entry])
            guard case .tooMany = said else {
                Issue.record("\(said)")
                continue
            }
        }
    }

    // MARK: - Trying it

    @Test func aServerThatCanDoAllIsAdded() async throws {
        let (parts, transport) = Self.parts { request in
            request.target.hasSuffix("/metadata")
                ? .json(200, KindFixture.capabilities()) : .json(200, KindFixture.searchset)
        }
        let report = try await KindFixture.make("fhir").probe(parts)
        #expect(report.checked[0].contains("FHIR 4.0.1") && report.unchecked.count == 1)
        #expect(
            transport.lines == [
                "GET /r4/Observation?identifier=urn:ietf:rfc:3986%7Curn:uuid:"
                    + "00000000-0000-8000-8000-000000000000&_count=1", "GET /r4/metadata",
            ])
        let isSignedIn = transport.requests.allSatisfy { request in
            request.headers.contains { $0 == ("Authorization", "Bearer hush") }
        }
        #expect(isSignedIn)
    }

    @Test(
        arguments: [
            (KindFixture.capabilities(version: "5.0.0"), "the server speaks FHIR 5.0.0"),
            (KindFixture.capabilities(version: "3.0.2"), "the server speaks FHIR 3.0.2"),
            (KindFixture.capabilities(format: "xml"), "the server speaks no JSON"),
            (KindFixture.capabilities(system: "history-system"), "the server takes no batches"),
            (KindFixture.capabilities(resource: "Patient"), "the server has no Observations"),
            (KindFixture.capabilities(codes: "read,search-type"), "the server creates no"),
            (KindFixture.capabilities(codes: "create,read"), "the server does not search"),
            (KindFixture.capabilities(conditional: "false"), "the server knows no repetition"),
            (KindFixture.capabilities(conditional: "null"), "the server knows no repetition"),
            (KindFixture.capabilities(parameter: "code"), "the server does not search"),
            (#"{"resourceType":"Patient"}"#, "the server at this address is no FHIR server"),
            ("{}", "the server at this address is no FHIR server"),
            ("<html>", "fhir.hospital.example gives no"),
        ])
    func whatAServerSaysThatItCannotDoIsRefused(statement: String, says: String) async throws {
        let (parts, _) = Self.parts { request in
            request.target.hasSuffix("/metadata")
                ? .json(200, statement) : .json(200, KindFixture.searchset)
        }
        let problem = await #expect(throws: DestinationProblem.self) {
            _ = try await KindFixture.make("fhir").probe(parts)
        }
        #expect(problem?.message.hasPrefix(says) == true, "\(problem?.message ?? "")")
    }

    // MARK: - Signing in

    @Test func aClientSignsInWithItsKeyWhereTheServerSays() async throws {
        let key = try #require(SigningKey.make())
        let (grants, wanted) = (Box(0), Box(1))
        let (parts, transport) = Self.parts { request in
            switch request.target {
            case "/r4/.well-known/smart-configuration":
                return .json(200, #"{"token_endpoint":"https://login.example/token"}"#)
            case "/token":
                let count = grants.change { count in
                    count += 1
                    return count
                }
                return .json(
                    200, #"{"access_token":"t\#(count)","token_type":"bearer","expires_in":300}"#)
            default:
                let bearer = ("Authorization", "Bearer t\(wanted.now)")
                return request.headers.contains { $0 == bearer }
                    ? .json(200, KindFixture.batch([(201, ""), (201, ""), (201, "")]))
                    : .json(401, "{}")
            }
        }
        let settings = ["token": "", "client-id": "gw", "key": key.text.revealed]
        let destination = try KindFixture.make("fhir", settings).make(parts)
        let stored = DeliveryAnswer.entries(Array(repeating: EntryAnswer(.stored), count: 3))
        #expect(await destination.deliver(Self.points, alone: false) == stored)
        // The token ends, and the key brings another.
        wanted.set(2)
        #expect(await destination.deliver(Self.points, alone: false) == stored)
        #expect(grants.now == 2)
        let form = try #require(transport.requests.first { $0.target == "/token" })
        #expect(form.origin.host == "login.example")
        let body = String(decoding: form.body, as: UTF8.self)
        #expect(body.contains("grant_type=client_credentials"))
        #expect(body.contains("scope=system%2FObservation.read%20system%2FObservation.write"))
        #expect(!body.contains(key.text.revealed.prefix(40)))
    }

    private static func keyed(_ more: [String: String] = [:]) throws -> any DestinationKind {
        let key = try #require(SigningKey.make())
        return try KindFixture.make(
            "fhir",
            [
                "token": "", "client-id": "gw", "key": key.text.revealed,
                "token-url": "https://login.example/token",
            ].merging(more) { $1 })
    }

    /// After a power cut a machine without a battery clock signed tokens that had ended long ago. The server did not
    /// know the client then, and a person was told to register the key anew.
    @Test func aClockThatIsNotTrustedSignsNothingAndHoldsNothing() async throws {
        let (parts, transport) = Self.parts(clock: StillClock(isTrusted: false)) { _ in
            .json(401, #"{"error":"invalid_client"}"#)
        }
        let answer = try await Self.keyed().make(parts).deliver(Self.points, alone: false)
        guard case .notSent(.some) = answer else {
            Issue.record("\(answer)")
            return
        }
        #expect(transport.requests.isEmpty)
    }

    @Test(
        arguments: [
            ("Wed, 18 Nov 2026 11:06:40 GMT", true), ("Wed, 18 Nov 2026 11:09:00 GMT", false),
            ("Wed, 18 Nov 2026 11:04:20 GMT", false), ("Wed, 18 Nov 2026 11:07:10 GMT", true),
        ])
    func aKeyIsHeldOnlyWhereTheClocksAgree(date: String, isHeld: Bool) async throws {
        let (parts, _) = Self.parts { _ in
            .success(
                HTTPAnswer(
                    status: 400, contentType: "application/json", date: date,
                    body: Array(#"{"error":"invalid_grant"}"#.utf8)))
        }
        let answer = try await Self.keyed().make(parts).deliver(Self.points, alone: false)
        switch answer {
        case .held(.credentialsRefused, _): #expect(isHeld)
        case .notSent(.some): #expect(!isHeld)
        default: Issue.record("\(answer)")
        }
    }

    /// The slash was cut off, in the address as in what the token is for.
    @Test(arguments: [true, false])
    func aTokenEndpointKeepsTheSlashAtItsEnd(isSetting: Bool) async throws {
        let place = "https://Login.example/o/token/"
        let (parts, transport) = Self.parts { request in
            switch request.target {
            case "/r4/.well-known/smart-configuration":
                .json(200, #"{"token_endpoint":"\#(place)"}"#)
            case "/o/token/":
                .json(200, #"{"access_token":"t","token_type":"bearer","expires_in":300}"#)
            case "/r4": .json(200, KindFixture.batch([(201, ""), (201, ""), (201, "")]))
            default: .json(404, "{}")
            }
        }
        let kind = try Self.keyed(["token-url": isSetting ? place : ""])
        let answer = await kind.make(parts).deliver(Self.points, alone: false)
        #expect(answer == .entries(Array(repeating: EntryAnswer(.stored), count: 3)))
        let form = try #require(transport.requests.first { $0.method == .post })
        #expect(form.origin.host == "login.example" && form.target == "/o/token/")
        let body = String(decoding: form.body, as: UTF8.self)
        let token = try #require(body.split(separator: "client_assertion=").last)
        let claims = token.split(separator: ".")[1].replacing("-", with: "+")
            .replacing("_", with: "/")
        let json = try #require(
            Data(
                base64Encoded: claims + String(repeating: "=", count: (4 - claims.count % 4) % 4)))
        let told = try #require(try JSONSerialization.jsonObject(with: json) as? [String: Any])
        #expect(told["aud"] as? String == place)
    }

    @Test func aKeyThatTheServerDoesNotKnowIsHeld() async throws {
        let key = try #require(SigningKey.make())
        let (parts, _) = Self.parts { request in
            request.target == "/token"
                ? .json(401, #"{"error":"invalid_client"}"#) : .json(200, KindFixture.searchset)
        }
        let kind = try KindFixture.make(
            "fhir",
            [
                "token": "", "client-id": "gw", "key": key.text.revealed,
                "token-url": "https://login.example/token",
            ])
        let problem = await #expect(throws: DestinationProblem.self) {
            _ = try await kind.probe(parts)
        }
        #expect(problem?.message == HoldReason.credentialsRefused.meaning)
        #expect(problem?.advice.contains("destination key --show FILE") == true)
    }
}
