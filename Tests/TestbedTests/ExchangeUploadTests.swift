import Foundation
import Testbed
import Testing

@Suite("The exchange's HTTP layer and whole bundles")
struct ExchangeUploadTests {
    static let good = Sample.bundle(of: [Sample.observation()])

    // MARK: Paths

    static let bases: [(ExchangeVersion, String, Int)] = [
        (.head, "/FHIR/R5", 200), (.head, "/FHIR/R5/", 200), (.head, "/fhir/r5/", 404),
        (.head, "/fhir/r5", 404), (.head, "/FHIR/R5//", 404), (.head, "/FHIR/R5/Observation/", 404),
        (.v0013, "/FHIR/R5/", 200), (.v0013, "/fhir/r5/", 200), (.v0013, "/fhir/r5", 200),
    ]

    @Test("the FHIR base is where the version has it", arguments: bases)
    func base(version: ExchangeVersion, path: String, status: Int) async throws {
        let session = try await EnrolledExchange(version: version)
        let answer = await session.post(Self.good, to: path)
        #expect(answer?.status == status)
        if status == 404 { #expect(answer?.isHTML == true) }
        await session.exchange.stop()
    }

    @Test("without a token an existing base is 401 and a missing one 404: a client can probe")
    func probe() async throws {
        for (version, upper, lower) in [
            (ExchangeVersion.head, 401, 404), (.v0013, 401, 401), (.v0010, 404, 401),
        ] {
            let exchange = try await StandInExchange.start(version: version)
            let wire = Wire(port: exchange.port)
            #expect(await wire.send("GET", "/FHIR/R5/")?.status == upper)
            #expect(await wire.send("GET", "/fhir/r5/")?.status == lower)
            #expect(await wire.send("POST", "/FHIR/R5/", body: [])?.status == upper)
            await exchange.stop()
        }
        let old = try await StandInExchange.start(version: .v0010)
        #expect(await Wire(port: old.port).send("POST", "/fhir/r5", body: [])?.status == 301)
        await old.stop()
    }

    @Test("health answers the same on every version; a strange Host is 400")
    func health() async throws {
        let exchange = try await StandInExchange.start()
        let wire = Wire(port: exchange.port)
        #expect(await wire.send("GET", "/health")?.text == #"{"status":"ok","version":"v0.0.13"}"#)
        let strange = await wire.send("GET", "/health", ["Host": "jhe.example"])
        #expect(strange?.status == 400)
        #expect(strange?.isHTML == true)
        await exchange.stop()
    }

    // MARK: Headers and bodies

    /// One wrong request and its answer.
    struct Refusal: Sendable {
        var name: String
        var headers: [String: String] = [:]
        var body: [UInt8] = good
        var method = "POST"
        var version = ExchangeVersion.head
        var status: Int
        var saying: String? = nil
    }

    static let refusals: [Refusal] = [
        Refusal(
            name: "fhir+json body", headers: ["Content-Type": "application/fhir+json"], status: 415,
            saying: #"Unsupported media type \"application/fhir+json\""#),
        Refusal(name: "text body", headers: ["Content-Type": "text/plain"], status: 415),
        Refusal(name: "no content type", headers: ["Content-Type": ""], status: 415),
        Refusal(name: "accept html", headers: ["Accept": "text/html"], status: 406),
        Refusal(name: "accept xml", headers: ["Accept": "application/xml"], status: 406),
        Refusal(
            name: "accept fhir+json on v0.0.13", headers: ["Accept": "application/fhir+json"],
            version: .v0013, status: 406),
        Refusal(
            name: "gzip", headers: ["Content-Encoding": "gzip"],
            body: [0x1F, 0x8B, 0x08, 0x00, 0x00], status: 400,
            saying: "JSON parse error - 'utf-8' codec can't decode byte 0x8b in position 1"),
        Refusal(
            name: "byte order mark", body: [0xEF, 0xBB, 0xBF] + good, status: 400,
            saying: "JSON parse error - Unexpected UTF-8 BOM"),
        Refusal(
            name: "malformed JSON", body: Array("{\"entry\":[}".utf8), status: 400,
            saying: "JSON parse error - Expecting value: line 1 column 11 (char 10)"),
        Refusal(
            name: "NaN", body: Array("{\"entry\":NaN}".utf8), status: 400,
            saying: "JSON parse error - Out of range float"),
        Refusal(name: "GET", method: "GET", status: 405, saying: #"Method \"GET\" not allowed."#),
        Refusal(name: "PUT", method: "PUT", status: 405),
        Refusal(name: "empty body", body: [], status: 500),
        Refusal(name: "array", body: Array("[]".utf8), status: 500),
        Refusal(name: "no entry", body: Array("{}".utf8), status: 500),
        Refusal(
            name: "form body",
            headers: ["Content-Type": "application/x-www-form-urlencoded"], status: 500),
    ]

    @Test("a request is refused for", arguments: refusals.indices)
    func refused(index: Int) async throws {
        let row = Self.refusals[index]
        let session = try await EnrolledExchange(version: row.version)
        let answer = await session.wire.send(
            row.method, "/FHIR/R5/", session.authorization.merging(row.headers) { $1 },
            body: row.body)
        #expect(answer?.status == row.status, "\(row.name)")
        #expect((answer?.isHTML == true) == (row.status == 500), "\(row.name)")
        if let saying = row.saying {
            #expect(answer?.text.contains(saying) == true, "\(row.name): \(answer?.text ?? "")")
        }
        #expect(await session.exchange.storedCount() == 0)
        await session.exchange.stop()
    }

    @Test("what is allowed: charset, */*, fhir+json on head, Expect")
    func allowed() async throws {
        let session = try await EnrolledExchange()
        for (index, headers) in [
            ["Content-Type": "application/json; charset=utf-8"], ["Accept": "*/*"],
            ["Accept": "application/fhir+json"], ["Accept": "text/html, application/json;q=0.5"],
        ].enumerated() {
            let body = Sample.bundle(of: [Sample.observation(id: "a-\(index)")])
            #expect(await session.post(body, headers: headers)?.verdicts == ["201 Created"])
        }
        await session.exchange.stop()
    }

    @Test("a chunked body is not read: 500 HTML")
    func chunked() async throws {
        let session = try await EnrolledExchange()
        let size = String(Self.good.count, radix: 16)
        let head =
            "POST /FHIR/R5/ HTTP/1.1\r\nHost: 127.0.0.1:\(session.exchange.port)\r\n"
            + "Authorization: Bearer \(session.accessToken)\r\nContent-Type: application/json\r\n"
            + "Transfer-Encoding: chunked\r\n\r\n\(size)\r\n"
        let answer = await session.wire.send(
            raw: Array(head.utf8) + Self.good + Array("\r\n0\r\n\r\n".utf8))
        #expect(answer?.status == 500)
        #expect(answer?.isHTML == true)
        #expect(await session.exchange.storedCount() == 0)
        await session.exchange.stop()
    }

    // MARK: Whole bundles

    @Test(
        "one entry without attachment data refuses the whole request",
        arguments: [
            Sample.observation(data: "null"), #"{"resourceType":"Observation"}"#,
        ])
    func missingData(bad: String) async throws {
        let session = try await EnrolledExchange()
        let answer = await session.post(
            Sample.bundle(of: [Sample.observation(id: "good"), bad]))
        #expect(answer?.status == 400)
        #expect(answer?.text == #"["resource.valueAttachment.data must be not null."]"#)
        #expect(await session.exchange.storedCount() == 0)
        await session.exchange.stop()
    }

    static let unreadable: [(String, String)] = [
        ("missing status", Sample.entry(Sample.observation(status: nil))),
        ("null status", Sample.entry(Sample.observation(status: "null"))),
        ("unknown element", Sample.entry(Sample.observation(more: #","foo":1"#))),
        (
            "unknown element deep inside",
            Sample.entry(Sample.observation(codings: #"{"system":"a","foo":1}"#))
        ),
        (
            "bad effectiveDateTime",
            Sample.entry(Sample.observation(more: #","effectiveDateTime":"garbage""#))
        ),
        ("two values", Sample.entry(Sample.observation(more: #","valueQuantity":{"value":1}"#))),
        ("object in data", Sample.entry(Sample.observation(data: #"{"a":1}"#))),
        ("missing request", #"{"resource":\#(Sample.observation())}"#),
        (
            "missing request.url",
            #"{"resource":\#(Sample.observation()),"request":{"method":"POST"}}"#
        ),
        (
            "a Patient with an attachment",
            Sample.entry(
                #"{"resourceType":"Patient","valueAttachment":{"data":"e30="}}"#)
        ),
        (
            "missing code",
            Sample.entry(
                #"{"resourceType":"Observation","status":"final","valueAttachment":{"data":"e30="}}"#
            )
        ),
    ]

    @Test("one unreadable entry makes the whole bundle 500, nothing stored", arguments: unreadable)
    func poison(name: String, entry: String) async throws {
        let session = try await EnrolledExchange()
        let answer = await session.post(
            Sample.bundle([Sample.entry(Sample.observation(id: "good")), entry]))
        #expect(answer?.status == 500, "\(name)")
        #expect(answer?.isHTML == true)
        #expect(await session.exchange.storedCount() == 0)
        await session.exchange.stop()
    }

    @Test("the bundle's type must be there, and any will do")
    func type() async throws {
        let session = try await EnrolledExchange()
        let entries = [Sample.entry(Sample.observation(id: "t"))]
        #expect(await session.post(Sample.bundle(entries, type: ""))?.status == 500)
        for type in ["transaction", "collection", "bogus"] {
            let body = Sample.bundle(
                [Sample.entry(Sample.observation(id: "t-\(type)"))], type: #""type":"\#(type)","#)
            #expect(await session.post(body)?.verdicts == ["201 Created"])
        }
        await session.exchange.stop()
    }

    @Test("snake_case is taken for camelCase")
    func snakeCase() async throws {
        let session = try await EnrolledExchange()
        let text = String(decoding: Self.good, as: UTF8.self)
            .replacing("resourceType", with: "resource_type")
            .replacing("valueAttachment", with: "value_attachment")
            .replacing("contentType", with: "content_type")
        #expect(await session.post(Array(text.utf8))?.verdicts == ["201 Created"])
        await session.exchange.stop()
    }

    @Test("entries are committed one by one, answers come in order")
    func mixed() async throws {
        let session = try await EnrolledExchange()
        let verdicts = await session.post(
            Sample.bundle(of: [
                Sample.observation(id: "1"), Sample.observation(id: "1"),
                Sample.observation(id: "2", device: "Device/70006"), Sample.observation(id: "3"),
            ]))?.verdicts
        #expect(
            verdicts == [
                "201 Created",
                "409 Conflict: Identifier already exists: system=\(Sample.system) value=1",
                "400 Bad Request: Device Data Source id=70006 can not be found.", "201 Created",
            ])
        #expect(await session.exchange.storedCount() == 2)
        await session.exchange.stop()
    }

    @Test("an entry that is no POST gets two answers and is stored all the same")
    func notPost() async throws {
        let session = try await EnrolledExchange()
        let entries = [
            Sample.entry(Sample.observation(id: "put"), method: "PUT"),
            Sample.entry(Sample.observation(id: "post")),
        ]
        let verdicts = await session.post(Sample.bundle(entries))?.verdicts
        #expect(
            verdicts == [
                "400 Bad Request: Only POST/Create method supported.", "201 Created", "201 Created",
            ])
        #expect(await session.exchange.storedCount() == 2)
        await session.exchange.stop()
    }
}
