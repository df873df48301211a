import Foundation
import Testbed
import Testing

@Suite("The exchange's rules for data points")
struct ExchangeDataPointTests {
    static let time = "2026-11-21T18:25:48.585Z"
    static let later = "2026-11-21T18:26:48.585Z"
    static let minute: ExchangeJSON = ["value": 60, "unit": "sec"]

    static func header(_ name: String = "heart-rate", _ version: String = "2.0") -> ExchangeJSON {
        [
            "uuid": "4a8ba8cc-39a9-4a77-a93a-769dad24a760",
            "schema_id": [
                "namespace": "omh", "name": .string(name), "version": .string(version),
            ], "source_creation_date_time": .string(time), "modality": "sensed",
            "acquisition_rate": ["value": 1, "unit": "Hz"],
            "external_datasheets": [
                ["datasheet_type": "hardware", "datasheet_reference": "urn:x"]
            ],
        ]
    }

    static func heartRate(
        frame: ExchangeJSON = ["date_time": .string(time)],
        more: KeyValuePairs<String, ExchangeJSON> = [:]
    ) -> ExchangeJSON {
        var body: [ExchangeJSON.Member] = [
            .init(name: "heart_rate", value: ["value": 72, "unit": "beats/min"]),
            .init(name: "effective_time_frame", value: frame),
        ]
        body += more.map { .init(name: $0.key, value: $0.value) }
        return ["header": header(), "body": .object(body)]
    }

    static func interval(_ members: KeyValuePairs<String, ExchangeJSON>) -> ExchangeJSON {
        ["time_interval": .members(members)]
    }

    // MARK: The messages

    static let errors: [(String, ExchangeJSON, String)] = [
        (
            "no uuid", ["header": [:], "body": [:]],
            #"{'omh_data': ["'uuid' is a required property"]}"#
        ),
        (
            "unit", ["header": header(), "body": ["heart_rate": ["value": 1, "unit": "bpm"]]],
            #"{'omh_data': ["'bpm' is not one of ['beats/min']"]}"#
        ),
        (
            "value as text",
            ["header": header(), "body": ["heart_rate": ["value": "72", "unit": "beats/min"]]],
            #"{'omh_data': ["'72' is not of type 'number'"]}"#
        ),
        (
            "no time frame",
            ["header": header(), "body": ["heart_rate": ["value": 1, "unit": "beats/min"]]],
            #"{'omh_data': ["'effective_time_frame' is a required property"]}"#
        ),
        (
            "interval in no form", heartRate(frame: interval(["duration": minute])),
            "is not valid under any of the given schemas"
        ),
        (
            "both date_time and interval",
            heartRate(frame: [
                "date_time": .string(time),
                "time_interval": ["start_date_time": .string(time), "duration": minute],
            ]), "is valid under each of"
        ),
        (
            "statistic mean", heartRate(more: ["descriptive_statistic": "mean"]),
            "'mean' is not one of ['average'"
        ),
    ]

    @Test("the first error is answered in the schema validator's words", arguments: errors)
    func message(name: String, document: ExchangeJSON, saying: String) async throws {
        let session = try await EnrolledExchange()
        let verdict = await session.post(
            Sample.bundle(of: [Sample.observation(dataPoint: document.text)]))?.verdicts.first
        #expect(verdict?.hasPrefix("422 Unprocessable Entity: {'omh_data': [") == true)
        #expect(verdict?.contains(saying) == true, "\(name): \(verdict ?? "")")
        await session.exchange.stop()
    }

    // MARK: The stand-in against the schemas themselves

    static let heartRates: [ExchangeJSON] = [
        heartRate(),
        heartRate(frame: interval(["start_date_time": .string(time), "duration": minute])),
        heartRate(frame: interval(["end_date_time": .string(time), "duration": minute])),
        heartRate(
            frame: interval(["start_date_time": .string(time), "end_date_time": .string(later)]),
            more: ["descriptive_statistic": "average"]),
        heartRate(
            frame: interval(["date": "2026-11-21", "part_of_day": "night"]),
            more: [
                "temporal_relationship_to_physical_activity": "at rest",
                "temporal_relationship_to_sleep": "on waking",
            ]),
        heartRate(
            frame: interval([
                "start_date_time": .string(time), "end_date_time": .string(later),
                "duration": minute,
            ])),
        heartRate(
            frame: interval([
                "start_date_time": .string(time), "duration": ["value": 1, "unit": "s"],
            ])),
    ]

    static let rrInterval: ExchangeJSON = [
        "header": header("rr-interval", "1.0"),
        "body": [
            "rr_interval": ["value": 812.5, "unit": "ms"],
            "effective_time_frame": ["date_time": .string(time)],
        ],
    ]

    /// The document itself and every version of it with one member gone or replaced.
    static func mutants(of value: ExchangeJSON) -> [ExchangeJSON] {
        let others: [ExchangeJSON] = [
            nil, true, 5, -1.5, "x", "", [], [:], ["x"], ["value": 1], ["unit": "ms"], "sec",
            "Hz", "2026-11-21", ["number_of_times": 1, "time_window": ["value": 1, "unit": "d"]],
        ]
        var all = [value]
        guard case .object(let members) = value else { return all + others }
        for (index, member) in members.enumerated() {
            var without = members
            without.remove(at: index)
            all.append(.object(without))
            for inner in mutants(of: member.value) where inner != member.value {
                var changed = members
                changed[index].value = inner
                all.append(.object(changed))
            }
        }
        return all + [nil, "x", []]
    }

    /// The environment that `Tests/Conformance/setup` makes.
    static let root = URL(filePath: #filePath).resolvingSymlinksInPath()
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
    static let python = root.appending(path: ".build-oracles/bin/python")
    static let hasOracle = FileManager.default.isExecutableFile(atPath: python.path)

    @Test(
        "on thousands of changed documents the stand-in agrees with the schemas the server uses",
        .enabled(if: hasOracle, "run Tests/Conformance/setup"))
    func agreesWithTheSchemas() async throws {
        let session = try await EnrolledExchange()
        await session.exchange.grantConsent(patient: 40001, code: "omh:rr-interval:1.0")
        var cases: [(code: String, document: ExchangeJSON)] = []
        for document in Self.heartRates {
            cases += Self.mutants(of: document).map { ("omh:heart-rate:2.0", $0) }
        }
        cases += Self.mutants(of: Self.rrInterval).map { ("omh:rr-interval:1.0", $0) }
        // The server stores a null without looking at it; there is nothing to compare.
        cases.removeAll { $0.document == nil }
        #expect(cases.count > 1000)

        let oracle = try await Self.oracleVerdicts(
            of: cases.map { code, document in
                ["kind": "datapoint", "code": .string(code), "document": document]
            })
        try #require(oracle.count == cases.count)
        // Both answers must be common, or agreeing is easy.
        #expect(oracle.count { $0 == "accepted" } > 100)
        #expect(oracle.count { $0 != "accepted" } > 1000)
        let pageSize = 200
        for start in stride(from: 0, to: cases.count, by: pageSize) {
            let page = cases[start..<min(start + pageSize, cases.count)]
            let body = Sample.bundle(
                of: page.map {
                    Sample.observation(
                        identifier: "[]", codings: Sample.coding($0.code),
                        dataPoint: $0.document.text)
                })
            let verdicts = try #require(await session.post(body, patience: 60)?.verdicts)
            try #require(verdicts.count == page.count)
            for (index, verdict) in zip(page.indices, verdicts) {
                #expect(
                    verdict.hasPrefix("201") == (oracle[index] == "accepted"),
                    "\(cases[index].document.text): \(verdict), the schemas say \(oracle[index])")
            }
        }
        await session.exchange.stop()
    }

    static let observation: ExchangeJSON = [
        "resourceType": "Observation", "id": "x", "status": "final",
        "identifier": [["use": "usual", "system": "https://gw.example/ids", "value": "1"]],
        "code": [
            "coding": [["system": "https://w3id.org/openmhealth", "code": "omh:heart-rate:2.0"]]
        ],
        "subject": ["reference": "Patient/40001"], "device": ["reference": "Device/70007"],
        "effectiveDateTime": .string(time), "issued": .string(time),
        "meta": ["source": "urn:x", "lastUpdated": .string(time)],
        "category": [["text": "vital-signs"]], "performer": [["display": "x"]],
        "effectivePeriod": nil, "note": [["text": "x"]],
        "valueAttachment": [
            "contentType": "application/json",
            "data": .string(Data(heartRate().bytes).base64EncodedString()),
        ],
    ]

    @Test(
        "what the server's own FHIR library refuses of an observation, the stand-in refuses too",
        .enabled(if: hasOracle, "run Tests/Conformance/setup"))
    func agreesWithTheFHIRLibrary() async throws {
        let session = try await EnrolledExchange()
        var documents = Self.mutants(of: Self.observation).filter { $0.object != nil }
        for extra in ["valueString", "effectivePeriod", "Status", "bodySite", "component"] {
            for value: ExchangeJSON in ["x", [:], ["x"], [["foo": 1]], 5] {
                let others = (Self.observation.object ?? []).filter { $0.name != extra }
                documents.append(.object(others + [.init(name: extra, value: value)]))
            }
        }
        let oracle = try await Self.oracleVerdicts(
            of: documents.map { ["kind": "observation", "document": $0] })
        try #require(oracle.count == documents.count)
        #expect(oracle.count { $0 == "accepted" } > 30)
        #expect(oracle.count { $0 != "accepted" } > 100)
        let good = await session.post(Sample.bundle(of: [Self.observation.text]))
        #expect(good?.verdicts == ["201 Created"])
        // In a bundle, what cannot be read is distinguished from what is refused for another reason.
        for (document, verdict) in zip(documents, oracle)
        where verdict.hasPrefix("refused: Observation: ") {
            let answer = await session.post(Sample.bundle(of: [document.text]))
            let status = try #require(answer?.status)
            #expect([400, 500].contains(status), "\(document.text): the library: \(verdict)")
        }
        await session.exchange.stop()
    }

    /// "accepted" or "refused: …" for each line of documents.py.
    static func oracleVerdicts(of lines: [ExchangeJSON]) async throws -> [String] {
        let file = FileManager.default.temporaryDirectory
            .appending(path: "documents-\(UUID().uuidString).jsonl")
        defer { try? FileManager.default.removeItem(at: file) }
        try lines.map { $0.text + "\n" }.joined().write(to: file, atomically: true, encoding: .utf8)
        let outcome = try await Command.run(
            python.path,
            [root.appending(path: "Tests/Conformance/documents.py").path, "--verdicts", file.path])
        #expect(outcome.status == 0, "\(outcome.complaint)")
        return outcome.output.split(separator: "\n").map(String.init)
    }
}
