import Basics
import Foundation
import Testing

@testable import Uplink

@Suite struct WritingTests {
    static let code = ObservationCode(
        system: "https://w3id.org/openmhealth", code: "omh:heart-rate:2.0")
    static let uuid = "4a8ba8cc-39a9-8a77-a93a-769dad24a760"
    static let point = DataPoint(
        uuid: uuid, .heartRate(bpm: 72, at: UTC(microseconds: 1_795_285_548_585_999)))
    static let average = DataPoint(
        uuid: uuid,
        .averageHeartRate(
            tenths: 723, count: 9,
            window: UTC(
                microseconds: 1_795_285_540_000_000)..<UTC(microseconds: 1_795_285_550_000_000)))
    static let interval = DataPoint(
        uuid: uuid, .interval(ticks: 843, end: UTC(microseconds: 1_795_285_548_585_999)))
    static let polar = StrapDatasheet(
        manufacturer: "Polar Electro Oy", model: "H10", firmware: "3.1.1")
    static let exotic = StrapDatasheet(
        manufacturer: "Mödel \"ℍ\" 💓/\\\u{7}", model: nil, firmware: "")

    private static func golden(_ name: String) throws -> [UInt8] {
        let url = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appendingPathComponent("Golden/\(name).json")
        var bytes = try [UInt8](Data(contentsOf: url))
        // Editors end files with a line break; documents do not have one.
        if bytes.last == 0x0A { bytes.removeLast() }
        return bytes
    }

    private static func entry(_ strap: StrapDatasheet = StrapDatasheet()) -> BundleWriter.Entry {
        BundleWriter.Entry(
            point: point, patient: "40001", writer: DataPointWriter(code: code, strap: strap))
    }

    private static let writer = BundleWriter(
        device: "70001", identifierSystem: "https://gw.example/ids")

    @Test(
        "data points are written as in the golden files",
        arguments: [
            ("data-point", StrapDatasheet()), ("data-point-polar", polar),
            ("data-point-exotic", exotic),
        ])
    func dataPoint(name: String, strap: StrapDatasheet) throws {
        let written = DataPointWriter(code: Self.code, strap: strap).dataPoint(Self.point)
        #expect(written == (try Self.golden(name)), "\(String(decoding: written, as: UTF8.self))")
    }

    /// Two straps of one model on one patient gave the exchange data that nobody could tell apart.
    @Test func twoStrapsOfOneModelDifferInTheirHeadersWithoutAFullAddress() throws {
        func header(_ address: String) -> String {
            var strap = Self.polar
            strap.alias = StrapDatasheet.alias(ofAddress: address)
            return String(
                decoding: DataPointWriter(code: Self.code, strap: strap).dataPoint(Self.point),
                as: UTF8.self)
        }
        let (one, other) = (header("A0:9E:1A:00:12:34"), header("A0:9E:1A:00:12:35"))
        #expect(one != other)
        #expect(one.contains("\"urn:x-edge-gateway:strap:12-34\""))
        #expect(!one.contains("9E") && !one.contains("1A"))
    }

    @Test func aTimeThatIsUncertainByASecondOrMoreIsSaidInTheHeader() {
        func text(_ uncertainty: Duration) -> String {
            let point = DataPoint(
                uuid: Self.point.uuid, Self.point.content, timeUncertainty: uncertainty)
            return String(
                decoding: DataPointWriter(code: Self.code, strap: Self.polar).dataPoint(point),
                as: UTF8.self)
        }
        let header = #","time_uncertainty":{"value":4.912,"unit":"sec"}"#
        #expect(text(.milliseconds(4_912)).contains(header))
        #expect(!text(.milliseconds(999)).contains("time_uncertainty"))
    }

    @Test(
        "averages and RR intervals are written as in the golden files",
        arguments: [("average", average), ("interval", interval)])
    func otherDataPoints(name: String, point: DataPoint) throws {
        let written = DataPointWriter(code: Self.code, strap: Self.polar).dataPoint(point)
        #expect(written == (try Self.golden(name)), "\(String(decoding: written, as: UTF8.self))")
        let entry = BundleWriter.Entry(
            point: point, patient: "40001",
            writer: DataPointWriter(code: Self.code, strap: Self.polar))
        let observation = String(decoding: Self.writer.observation(entry), as: UTF8.self)
        let code = point.isInterval ? "omh:rr-interval:1.0" : "omh:heart-rate:2.0"
        #expect(observation.contains(#""code":{"coding":[{"system":"#))
        #expect(observation.contains(#""code":"\#(code)"}]}"#))
    }

    @Test(
        "fractions are exact and without zeros at their end",
        arguments: [
            (0, 1, "0"), (720, 1, "72"), (723, 1, "72.3"), (5, 1, "0.5"), (-5, 1, "0"),
            (8_232_421_875, 7, "823.2421875"), (10_000_000_000, 7, "1000"),
            (10_000_001, 7, "1.0000001"),
        ])
    func decimals(value: Int, places: Int, text: String) {
        var json = JSONBytes()
        json.decimal(value, places: places)
        #expect(String(decoding: json.bytes, as: UTF8.self) == text)
    }

    @Test func everyIntervalIsWrittenAsExactlyAsItWasSent() throws {
        for ticks in UInt16.min...UInt16.max {
            var json = JSONBytes()
            json.decimal(Int(ticks) * 9_765_625, places: 7)
            let value = try #require(Double(String(decoding: json.bytes, as: UTF8.self)))
            try #require(value * 1024 / 1000 == Double(ticks))
        }
    }

    @Test func averagesAreRoundedHalfUpToATenth() {
        #expect(DataPoint.averageTenths([]) == nil)
        #expect(DataPoint.averageTenths([72]) == 720)
        #expect(DataPoint.averageTenths([72, 73, 73]) == 727)
        #expect(DataPoint.averageTenths(Array(repeating: 60, count: 19) + [61]) == 601)
        #expect(DataPoint.averageTenths(Array(repeating: 60, count: 20) + [61]) == 600)
    }

    @Test func bundlesAreWrittenAsInTheGoldenFiles() throws {
        let two = Self.writer.bundle([Self.entry(), Self.entry(Self.polar)])
        #expect(two == (try Self.golden("bundle")), "\(String(decoding: two, as: UTF8.self))")
        let one = Self.writer.observation(Self.entry())
        #expect(one == (try Self.golden("observation")), "\(String(decoding: one, as: UTF8.self))")
        #expect(
            Self.writer.bundle([])
                == Array(#"{"resourceType":"Bundle","type":"batch","entry":[]}"#.utf8))
    }

    @Test func aDataPointHasTheSizeThatBatchesAreReckonedWith() {
        #expect(800...1000 ~= Self.writer.bundle([Self.entry()]).count)
        #expect(Self.writer.bundle([Self.entry(Self.exotic)]).allSatisfy { 0x20...0x7E ~= $0 })
    }

    @Test func theSameDocumentAsJSONEncoderForAnyValues() throws {
        var random = SeededRandom(seed: 20_261_121)
        for _ in 0..<500 {
            let uuid = UUID().uuidString.lowercased()
            let time = Int64.random(
                in: Timestamp.range.lowerBound
                    .microseconds...Timestamp.range.upperBound.microseconds,
                using: &random)
            let bpm = Int.random(in: 0...65_535, using: &random)
            let point = DataPoint(uuid: uuid, .heartRate(bpm: bpm, at: UTC(microseconds: time)))
            let strap = StrapDatasheet(
                manufacturer: random.text(), model: random.text(), firmware: random.text())
            let written = DataPointWriter(code: Self.code, strap: strap).dataPoint(point)
            let encoder = JSONEncoder()
            encoder.keyEncodingStrategy = .convertToSnakeCase
            let reference = try encoder.encode(
                ReferencePoint(uuid: uuid, time: time, bpm: bpm, strap))
            let ours = try #require(
                try JSONSerialization.jsonObject(with: Data(written)) as? NSObject)
            let theirs = try #require(
                try JSONSerialization.jsonObject(with: reference) as? NSObject)
            #expect(ours == theirs, "\(String(decoding: written, as: UTF8.self))")
            #expect(written.allSatisfy { 0x20...0x7E ~= $0 })
        }
    }

    @Test func stringsComeBackAsTheyWere() throws {
        var random = SeededRandom(seed: 7)
        for text in ["", "\"\\/\u{8}\u{0}\u{1F}\u{7F}", "é ß 漢字 🫀 👩‍⚕️ \u{FFFF}\u{10FFFF}"]
            + (0..<200).map({ _ in random.text() })
        {
            var json = JSONBytes()
            json.string(text)
            #expect(json.bytes.allSatisfy { 0x20...0x7E ~= $0 })
            let back = try JSONDecoder().decode(
                [String].self, from: Data([0x5B] + json.bytes + [0x5D]))
            #expect(back == [text])
        }
    }

    @Test func base64IsFoundationsForEveryLength() {
        var random = SeededRandom(seed: 11)
        for length in 0..<200 {
            let bytes = (0..<length).map { _ in UInt8.random(in: 0...255, using: &random) }
            var json = JSONBytes()
            json.base64(bytes)
            #expect(
                String(decoding: json.bytes, as: UTF8.self) == Data(bytes).base64EncodedString())
        }
    }

    @Test func integersOfAllSignsAndSizes() {
        for value in [0, 7, 10, -1, 72, 65_535, .max, .min] {
            var json = JSONBytes()
            json.integer(value)
            #expect(String(decoding: json.bytes, as: UTF8.self) == String(value))
        }
    }

    @Test(
        "times are RFC 3339 UTC with milliseconds, cut, and clamped to four-digit years",
        arguments: [
            (0, "1970-01-01T00:00:00.000Z"), (-1, "1970-01-01T00:00:00.000Z"),
            (999, "1970-01-01T00:00:00.000Z"), (1_000, "1970-01-01T00:00:00.001Z"),
            (951_782_399_999_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000_000, "2000-02-29T00:00:00.000Z"),
            (4_107_542_400_000_000, "2100-03-01T00:00:00.000Z"),
            (.max, "9999-12-31T23:59:59.999Z"), (.min, "1970-01-01T00:00:00.000Z"),
        ] as [(Int64, String)])
    func times(microseconds: Int64, text: String) {
        #expect(Self.formatted(microseconds) == text)
    }

    @Test func timesAreWhatFoundationMakesOfThem() {
        var random = SeededRandom(seed: 3)
        for _ in 0..<2000 {
            let seconds = Int64.random(in: 0...253_402_300_799, using: &random)
            let date = Date(timeIntervalSince1970: Double(seconds))
            let text = date.formatted(.iso8601).dropLast() + ".123Z"
            #expect(Self.formatted(seconds * 1_000_000 + 123_456) == text)
        }
    }

    private static func formatted(_ microseconds: Int64) -> String {
        var json = JSONBytes()
        Timestamp(UTC(microseconds: microseconds)).write(to: &json)
        return String(decoding: json.bytes, as: UTF8.self)
    }

    @Test func datasheetReferencesAreIRIs() {
        #expect(DataPointWriter.iri("Polar Electro Oy") == "Polar%20Electro%20Oy")
        #expect(DataPointWriter.iri("a/b:c%\n\u{0}") == "a%2Fb%3Ac%25%0A%00")
        #expect(DataPointWriter.iri("Mödel") == "Mödel")
        #expect(DataPointWriter.iri("\u{E000}") == "%EE%80%80")
        #expect(DataPointWriter.iri(String(repeating: "x", count: 600)).count == 64)
    }

    @Test func aVersionlessCodeGetsTheSchemaVersionWeWrite() throws {
        for (code, version) in [("omh:heart-rate", "2.0"), ("omh:heart-rate:2.1", "2.1")] {
            let writer = DataPointWriter(code: ObservationCode(system: "s", code: code))
            let text = String(decoding: writer.dataPoint(Self.point), as: UTF8.self)
            #expect(text.contains(#""name":"heart-rate","version":"\#(version)""#))
        }
    }

    @Test func whatIsNoUUIDCannotBreakOutOfTheDocument() throws {
        var point = Self.point
        point.uuid = #"","x":"# + "\u{1}"
        let text = String(decoding: DataPointWriter().dataPoint(point), as: UTF8.self)
        #expect(text.hasPrefix(#"{"header":{"uuid":"","schema_id""#))
    }
}

/// The data point as JSONEncoder sees it.
private struct ReferencePoint: Encodable {
    struct SchemaID: Encodable {
        var namespace = "omh"
        var name = "heart-rate"
        var version = "2.0"
    }
    struct Datasheet: Encodable {
        var datasheetType: String
        var datasheetReference: String
    }
    struct Header: Encodable {
        var uuid: String
        var schemaID = SchemaID()
        var sourceCreationDateTime: String
        var modality = "sensed"
        var externalDatasheets: [Datasheet]?
    }
    struct Rate: Encodable {
        var value: Int
        var unit = "beats/min"
    }
    struct Frame: Encodable {
        var dateTime: String
    }
    struct Body: Encodable {
        var heartRate: Rate
        var effectiveTimeFrame: Frame
    }
    var header: Header
    var body: Body

    init(uuid: String, time microseconds: Int64, bpm: Int, _ strap: StrapDatasheet) {
        let seconds = microseconds / 1_000_000
        let milliseconds = microseconds / 1000 % 1000
        let whole = Date(timeIntervalSince1970: Double(seconds)).formatted(.iso8601)
        let time = "\(whole.dropLast()).\(String(1000 + milliseconds).dropFirst())Z"
        let sheets = [
            ("manufacturer", strap.manufacturer), ("model", strap.model),
            ("firmware", strap.firmware),
        ].compactMap { type, value in
            value.flatMap { value in
                value.isEmpty
                    ? nil
                    : Datasheet(
                        datasheetType: type,
                        datasheetReference:
                            "urn:x-edge-gateway:\(type):\(DataPointWriter.iri(value))")
            }
        }
        header = Header(
            uuid: uuid, sourceCreationDateTime: time,
            externalDatasheets: sheets.isEmpty ? nil : sheets)
        body = Body(
            heartRate: Rate(value: bpm),
            effectiveTimeFrame: Frame(dateTime: time))
    }
}

extension SeededRandom {
    /// Up to 20 scalars of all planes.
    mutating func text() -> String {
        var text = ""
        for _ in 0..<Int.random(in: 0...20, using: &self) {
            let limit: UInt32 = [0x7F, 0xFF, 0xFFFF, 0x10FFFF][Int(next() % 4)]
            if let scalar = Unicode.Scalar(UInt32.random(in: 0...limit, using: &self)) {
                text.unicodeScalars.append(scalar)
            }
        }
        return text
    }
}
