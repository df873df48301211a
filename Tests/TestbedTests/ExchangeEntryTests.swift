import Foundation
import Testbed
import Testing

@Suite("The exchange's checks of one observation")
struct ExchangeEntryTests {
    /// One wrong observation and its verdict, the same in a bundle and alone.
    struct Refusal: Sendable {
        var name: String
        var observation: String
        var status: Int
        var saying: String
    }

    static let refusals: [Refusal] = [
        Refusal(
            name: "LOINC only",
            observation: Sample.observation(
                codings: #"{"system":"http://loinc.org","code":"8867-4"}"#),
            status: 400, saying: "A FhirSource is required to write this resource"),
        Refusal(
            name: "no subject", observation: Sample.observation(subject: nil), status: 400,
            saying: "Subject is required and must be a reference to a Patient ID and start with "
                + "'Patient/'"),
        Refusal(
            name: "absolute subject",
            observation: Sample.observation(subject: "https://x/Patient/40001"), status: 400,
            saying: "Subject is required and must be a reference"),
        Refusal(
            name: "unknown patient", observation: Sample.observation(subject: "Patient/99999"),
            status: 400, saying: "Patient id=99999 can not be found."),
        Refusal(
            name: "patient id is no number",
            observation: Sample.observation(subject: "Patient/abc"),
            status: 422, saying: "Field 'id' expected a number but got 'abc'."),
        Refusal(
            name: "another practitioner's patient",
            observation: Sample.observation(subject: "Patient/40002"), status: 403,
            saying: "The Subject Patient does not match the current user."),
        Refusal(
            name: "no device", observation: Sample.observation(device: nil), status: 400,
            saying: "Device is required"),
        Refusal(
            name: "unknown device", observation: Sample.observation(device: "Device/1"),
            status: 400,
            saying: "Device Data Source id=1 can not be found."),
        Refusal(
            name: "an app, not a device", observation: Sample.observation(device: "Device/70005"),
            status: 400, saying: "Device Data Source id=70005 can not be found."),
        Refusal(
            name: "a medical device", observation: Sample.observation(device: "Device/70006"),
            status: 400, saying: "Device Data Source id=70006 can not be found."),
        Refusal(
            name: "two codings",
            observation: Sample.observation(
                codings: Sample.coding() + #",{"system":"http://loinc.org","code":"8867-4"}"#),
            status: 400, saying: "Exactly one Code must be provided."),
        Refusal(
            name: "unknown code",
            observation: Sample.observation(codings: Sample.coding("omh:heart-rate:1.0")),
            status: 400,
            saying: "Code not found: system=https://w3id.org/openmhealth code=omh:heart-rate:1.0"),
        Refusal(
            name: "no consent",
            observation: Sample.observation(codings: Sample.coding("omh:rr-interval:1.0")),
            status: 403,
            saying: "Observation data with coding_system=https://w3id.org/openmhealth "
                + "coding_code=omh:rr-interval:1.0 has not been consented for any studies by this "
                + "Patient."),
        Refusal(
            name: "not base64", observation: Sample.observation(data: #""@@@@""#), status: 400,
            saying: "valueAttachment.data must be Base 64 Encoded Binary JSON."),
        Refusal(
            name: "base64 without padding", observation: Sample.observation(data: #""e30""#),
            status: 400, saying: "valueAttachment.data must be Base 64"),
        Refusal(
            name: "base64 of no JSON", observation: Sample.observation(dataPoint: "{"), status: 400,
            saying: "valueAttachment.data must be Base 64"),
        Refusal(
            name: "raw UTF-8 beyond ASCII",
            observation: Sample.observation(dataPoint: #"{"header":"ü"}"#), status: 400,
            saying: "valueAttachment.data must be Base 64"),
        Refusal(
            name: "a bare body",
            observation: Sample.observation(
                dataPoint: #"{"heart_rate":{"value":72,"unit":"beats/min"}}"#), status: 422,
            saying: #"{'omh_data': ["None is not of type 'object'"]}"#),
        Refusal(
            name: "NaN",
            observation: Sample.observation(dataPoint: Sample.dataPoint(uuid: "u", bpm: "NaN")),
            status: 422, saying: #"Token "NaN" is invalid"#),
        Refusal(
            name: "a NUL",
            observation: Sample.observation(dataPoint: Sample.dataPoint(uuid: #"\u0000"#)),
            status: 422, saying: "unsupported Unicode escape sequence"),
        Refusal(
            name: "a list for a data point", observation: Sample.observation(dataPoint: "[]"),
            status: 422, saying: "object has no attribute 'get'"),
    ]

    @Test("an observation is refused for", arguments: refusals.indices)
    func refused(index: Int) async throws {
        let row = Self.refusals[index]
        let session = try await EnrolledExchange()
        let verdict = await session.post(Sample.bundle(of: [row.observation]))?.verdicts.first
        #expect(verdict?.hasPrefix("\(row.status) ") == true, "\(row.name): \(verdict ?? "")")
        #expect(verdict?.contains(row.saying) == true, "\(row.name): \(verdict ?? "")")
        let single = await session.post(Array(row.observation.utf8), to: "/FHIR/R5/Observation")
        #expect(single?.status == row.status, "\(row.name): \(single?.text ?? "")")
        let issue = single?.json?["issue"]?.array?.first
        #expect(issue?["code"]?.string == "processing")
        #expect(issue?["diagnostics"]?.string?.contains(row.saying) == true)
        #expect(await session.exchange.storedCount() == 0)
        await session.exchange.stop()
    }

    @Test("earlier checks win: subject before device before identifier before code before data")
    func order() async throws {
        let session = try await EnrolledExchange()
        _ = await session.post(Sample.bundle(of: [Sample.observation(id: "x")]))
        let verdicts = await session.post(
            Sample.bundle(of: [
                Sample.observation(id: "x", subject: "Patient/9", device: nil, data: #""@""#),
                Sample.observation(id: "x", device: nil, data: #""@""#),
                Sample.observation(id: "x", codings: Sample.coding("omh:nope:1.0"), data: #""@""#),
                Sample.observation(id: "y", codings: Sample.coding("omh:nope:1.0"), data: #""@""#),
                Sample.observation(id: "y", data: #""@""#),
            ]))?.verdicts.map { String($0.drop { $0 != ":" }.prefix(20)) }
        #expect(
            verdicts == [
                ": Patient id=9 can n", ": Device is required", ": Identifier already",
                ": Code not found: sy", ": valueAttachment.da",
            ])
        await session.exchange.stop()
    }

    @Test("an unreadable observation alone gets an honest 400")
    func single() async throws {
        let session = try await EnrolledExchange()
        let bad = await session.post(
            Array(Sample.observation(status: nil).utf8), to: "/FHIR/R5/Observation")
        #expect(bad?.status == 400)
        let text = bad?.json?["issue"]?.array?.first?["diagnostics"]?.string
        #expect(text?.contains("__root__ -> status\n  field required") == true)
        let good = await session.post(Array(Sample.observation().utf8), to: "/FHIR/R5/Observation")
        #expect(good?.status == 201)
        #expect(good?.json?["resourceType"]?.string == "Observation")
        #expect(good?.json?["subject"]?["reference"]?.string == "Patient/40001")
        let again = await session.post(Array(Sample.observation().utf8), to: "/FHIR/R5/Observation")
        #expect(again?.status == 409)
        await session.exchange.stop()
    }

    @Test("identifiers are unique on the whole server; without one all is stored")
    func identifiers() async throws {
        let peter = try await EnrolledExchange()
        let key = ExchangeSeed.standard.practitionerKeys[0]
        let form = [
            "grant_type": "client_credentials", "client_id": key.clientID,
            "client_secret": key.secret,
        ]
        var both = peter
        both.accessToken = try #require(
            await peter.wire.post("/o/token/", form: form)?.json?["access_token"]?.string)
        let verdicts = await both.post(
            Sample.bundle(of: [
                Sample.observation(id: "shared"),
                Sample.observation(id: "shared", subject: "Patient/40002"),
                Sample.observation(identifier: #"[{"value":"no system"}]"#),
                Sample.observation(identifier: #"[{"value":"no system"}]"#),
                Sample.observation(identifier: "[]"), Sample.observation(identifier: "[]"),
            ]))?.verdicts.map { $0.prefix(3) }
        #expect(verdicts == ["201", "409", "201", "409", "201", "201"])
        // The two rows without an identifier are the same data point twice.
        #expect(await peter.exchange.duplicates.values.contains { $0 >= 2 })
        await peter.exchange.stop()
    }

    @Test("an identifier stays taken when its row is forgotten, and no row has its number again")
    func forgetting() async throws {
        let session = try await EnrolledExchange()
        func post(_ ids: String...) async -> [String]? {
            await session.post(Sample.bundle(of: ids.map { Sample.observation(id: $0) }))?
                .verdicts.map { String($0.prefix(3)) }
        }
        #expect(await post("a", "b") == ["201", "201"])
        await session.exchange.forgetStored()
        #expect(await session.exchange.stored.map(\.id) == [60002])
        #expect(await post("a", "b", "c") == ["409", "409", "201"])
        #expect(await session.exchange.stored.map(\.id) == [60002, 60003])
        await session.exchange.stop()
    }

    @Test("the same identifier twice in one observation is a conflict that leaves an orphan")
    func twiceInOne() async throws {
        let session = try await EnrolledExchange()
        let twice = #"[{"system":"s","value":"v"},{"system":"s","value":"v"}]"#
        let verdicts = await session.post(
            Sample.bundle(of: [Sample.observation(identifier: twice)]))?.verdicts
        #expect(verdicts?.first?.contains("409 Conflict: duplicate key value violates") == true)
        #expect(await session.exchange.orphans == 1)
        await session.exchange.stop()
    }

    @Test("not checked: status word, plausibility, time, schema_id, the study's devices")
    func notChecked() async throws {
        let session = try await EnrolledExchange()
        let verdicts = await session.post(
            Sample.bundle(of: [
                Sample.observation(id: "1", status: "\"bogus\""),
                Sample.observation(id: "2", dataPoint: Sample.dataPoint(uuid: "2", bpm: "-5")),
                Sample.observation(
                    id: "3", dataPoint: Sample.dataPoint(uuid: "3", time: "garbage")),
                Sample.observation(id: "4", device: "Device/70002"),
                Sample.observation(
                    id: "5", more: #","issued":"2026-11-21T18:25:48Z","category":[]"#),
            ]))?.verdicts
        #expect(verdicts == Array(repeating: "201 Created", count: 5))
        await session.exchange.stop()
    }

    @Test("diagnostics of v0.0.10 are long and quote the measurement")
    func oldDiagnostics() async throws {
        let session = try await EnrolledExchange(version: .v0010, patient: 40001)
        let verdict = await session.post(
            Sample.bundle(of: [Sample.observation(dataPoint: #"{"header":{},"body":{}}"#)]),
            to: "/fhir/r5/")?.verdicts.first
        #expect(verdict?.contains("Failed validating") == true)
        #expect(verdict?.contains("On instance:") == true)
        await session.exchange.stop()
    }
}
