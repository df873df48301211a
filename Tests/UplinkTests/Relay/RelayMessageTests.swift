import Basics
import OfflineQueue
import Testing

@testable import Uplink

/// What gateways and relays say to each other.
@Suite struct RelayMessageTests {
    private static let strap = StrapDatasheet(
        manufacturer: "Polar Electro Oy", model: "H10 „é“", firmware: "5.0.0")
    private static let time = UTC(microseconds: 1_795_334_400_123_456)

    private static func point(
        _ sample: Int64, _ content: DataPoint.Content, patient: String? = "40001",
        strap: StrapDatasheet = strap
    ) -> OutgoingPoint {
        OutgoingPoint(
            DataPoint(
                uuid: SampleIdentity(runNonce: 7, sample: sample).description, content),
            patient: patient, strap: strap)
    }

    private static let points = [
        point(1, .heartRate(bpm: 72, at: time)),
        point(
            2, .averageHeartRate(tenths: 723, count: 10, window: time..<time + .seconds(10)),
            patient: "40002"),
        point(3, .interval(ticks: 812, end: time), strap: StrapDatasheet()),
    ]

    private static func answers() -> [DeliveryAnswer] {
        let entries = [
            EntryAnswer(.stored, status: 201), EntryAnswer(.storedBefore, status: 409),
            EntryAnswer(.held(.noConsent), status: 403, diagnostics: "has not been „consented“"),
            EntryAnswer(.refused, status: 422), EntryAnswer(.notWanted(.noConsent)),
            EntryAnswer(.unclear),
        ]
        return [
            .entries(entries), .notSent(retryAt: nil), .notSent(retryAt: .seconds(130)),
            .throttled(retryAfter: .seconds(7)), .throttled(retryAfter: nil), .tooLarge,
            .malformed, .unclear("500"), .unanswered("no answer in time"),
            .held(.enrollAgain, retryAt: .seconds(160)), .held(.deviceUnknown, retryAt: nil),
        ]
    }

    @Test func aRequestIsReadAsItWasWritten() throws {
        let bytes = try #require(RelayRequest(Self.points, patience: .seconds(6)).bytes)
        let read = try RelayRequest(reading: bytes)
        #expect(read.patience == .seconds(6) && !read.isAlone)
        #expect(read.points.map(\.point) == Self.points.map(\.point))
        #expect(read.points.map(\.patient) == Self.points.map(\.patient))
        #expect(read.points.map(\.strap) == Self.points.map(\.strap))
        let alone = try #require(RelayRequest([Self.points[0]], isAlone: true).bytes)
        #expect(try RelayRequest(reading: alone).isAlone)
        let none = try RelayRequest(reading: try #require(RelayRequest([]).bytes))
        #expect(none.points.isEmpty, "a question without points tries the way")
    }

    @Test func aHundredPointsAreSmall() throws {
        let points = (0..<100).map { Self.point($0, .heartRate(bpm: 72, at: Self.time)) }
        #expect(try #require(RelayRequest(points).bytes).count < 16_000)
    }

    @Test func aPointWithoutAPatientIsNotWritten() {
        #expect(
            RelayRequest([Self.point(1, .heartRate(bpm: 60, at: Self.time), patient: nil)]).bytes
                == nil)
    }

    @Test(
        arguments: [
            ("", RelayRequest.Fault.unreadable), ("[]", .version), ("{}", .version),
            (#"{"v":2,"patience_ms":60000,"points":[],"straps":[]}"#, .version),
            (#"{"v":1,"points":[],"straps":[]}"#, .value),
            (#"{"v":1,"patience_ms":9000000000000000000,"points":[]}"#, .value),
            (#"{"v":1,"patience_ms":-1,"points":[]}"#, .value),
            (#"{"v":1,"patience_ms":60000,"alone":true,"points":[]}"#, .value),
            (#"{"v":1,"patience_ms":60000,"points":[7]}"#, .value),
        ])
    func whatIsNoRequestIsRefused(text: String, fault: RelayRequest.Fault) {
        #expect(throws: fault) { _ = try RelayRequest(reading: Array(text.utf8)) }
    }

    @Test(
        arguments: [
            ("\"bpm\":72", "\"bpm\":-1"), ("\"bpm\":72", "\"bpm\":65536"),
            ("\"bpm\":72", "\"bpm\":72.5"), ("\"bpm\":72", "\"bpm\":\"72\""),
            ("\"bpm\":72", "\"bpm\":72,\"rr_ticks\":5"),
            ("\"patient\":\"40001\"", "\"patient\":\"4/1\""),
            ("\"patient\":\"40001\"", "\"patient\":7"), ("\"strap\":0", "\"strap\":1"),
            ("\"strap\":0", "\"strap\":-1"), ("\"strap\":0,", ""), ("\"id\":\"", "\"id\":\"0"),
            ("-8", "-4"),
            ("\"at_us\":", "\"at_us\":-"), ("\"at_us\":1", "\"at_us\":9999991"),
        ])
    func aValueOutOfItsRangeRefusesTheRequest(good: String, bad: String) throws {
        let bytes = try #require(RelayRequest([Self.points[0]]).bytes)
        let text = String(decoding: bytes, as: UTF8.self)
        #expect(text.contains(good))
        #expect(throws: RelayRequest.Fault.value) {
            _ = try RelayRequest(
                reading: Array(text.replacing(good, with: bad, maxReplacements: 1).utf8))
        }
    }

    @Test func tooManyPointsRefuseTheRequest() throws {
        let points = (0..<101).map { Self.point($0, .heartRate(bpm: 72, at: Self.time)) }
        let bytes = try #require(RelayRequest(points).bytes)
        #expect(throws: RelayRequest.Fault.value) { _ = try RelayRequest(reading: bytes) }
        let large = Array(repeating: UInt8(ascii: " "), count: RelayRequest.bytesMax + 1)
        #expect(throws: RelayRequest.Fault.unreadable) { _ = try RelayRequest(reading: large) }
    }

    @Test func anAnswerIsReadAsItWasGiven() throws {
        for answer in Self.answers() {
            let read = try #require(RelayAnswer(reading: RelayAnswer(answer, .seconds(100)).bytes))
            // Another machine has another uptime: what is left of a pause counts.
            let expected: DeliveryAnswer =
                switch answer {
                case .notSent(.some): .notSent(retryAt: .seconds(35))
                case .held(let reason, .some): .held(reason, retryAt: .seconds(65))
                default: answer
                }
            #expect(read.answer(count: 6, .seconds(5)) == expected)
        }
    }

    @Test func anAnswerOfAnotherNumberOfEntriesIsNotBelieved() throws {
        let answer = RelayAnswer(.entries([EntryAnswer(.stored)]))
        #expect(answer.answer(count: 2, .zero) == .unclear("relay-miscounted"))
    }

    @Test(
        arguments: [
            "", "[]", #"{"v":1}"#, #"{"v":2,"answer":"malformed"}"#, #"{"v":1,"answer":"fine"}"#,
            #"{"v":1,"answer":"entries"}"#, #"{"v":1,"answer":"held","reason":"mood"}"#,
        ])
    func whatIsNoAnswerIsNone(text: String) {
        #expect(RelayAnswer(reading: Array(text.utf8)) == nil)
    }

    /// A relay that said `paused` kept the delivery from being started ever again.
    @Test func onlyAReasonOfAnExchangeIsBelieved() throws {
        for reason in HoldReason.allCases {
            let whole = RelayAnswer(reading: RelayAnswer(.held(reason, retryAfter: nil)).bytes)
            let entry = RelayAnswer(
                reading: RelayAnswer(.entries([EntryAnswer(.held(reason))])).bytes)
            guard case .entries(let entries)? = entry?.content else { return #expect(Bool(false)) }
            #expect((whole != nil) == reason.isOfExchange)
            #expect(entries.map(\.verdict) == [reason.isOfExchange ? .held(reason) : .unclear])
        }
        #expect(!HoldReason.paused.isOfExchange)
        for row in EntryVerdict.table {
            if case .held(let reason) = row.verdict { #expect(reason.isOfExchange) }
        }
    }

    @Test func whatARelaySaysIsBounded() throws {
        let long = String(repeating: "\u{1B}", count: 5_000)
        let text =
            #"{"v":1,"answer":"entries","entries":[{"verdict":"mood","status":-7,"#
            + #""diagnostics":"\#(String(repeating: "x", count: 9_000))"},7]}"#
        let read = try #require(RelayAnswer(reading: Array(text.utf8)))
        guard case .entries(let entries) = read.content else { return #expect(Bool(false)) }
        #expect(entries.map(\.verdict) == [.unclear, .unclear] && entries[0].status == 0)
        #expect(entries[0].diagnostics.count == EntryAnswer.diagnosticsLengthMax)
        let word = try #require(RelayAnswer(reading: RelayAnswer(.unclear(long)).bytes))
        #expect(word.content == .unclear(String(repeating: "?", count: 64)))
        let pause = try #require(
            RelayAnswer(
                reading: Array(
                    #"{"v":1,"answer":"throttled","retry_after_ms":9223372036854775807}"#.utf8)))
        #expect(pause.content == .throttled(retryAfter: .seconds(3_600)))
    }

    /// Bytes that were changed, cut and doubled are read or refused, and never trap.
    @Test(arguments: [1, 2, 3, 4] as [UInt64])
    func spoiledBytesAreReadOrRefused(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let request = try #require(RelayRequest(Self.points).bytes)
        let sources = [request] + Self.answers().map { RelayAnswer($0, .zero).bytes }
        for _ in 0..<3_000 {
            var bytes = try #require(sources.randomElement(using: &random))
            for _ in 0..<Int.random(in: 1...6, using: &random) where !bytes.isEmpty {
                let place = Int.random(in: 0..<bytes.count, using: &random)
                switch Int.random(in: 0..<5, using: &random) {
                case 0: bytes[place] = UInt8.random(in: 0...255, using: &random)
                case 1: bytes.remove(at: place)
                case 2: bytes.insert(contentsOf: bytes[..<place].suffix(20), at: place)
                case 3: bytes.removeLast(bytes.count - place)
                default:
                    bytes[place] =
                        [0x22, 0x2D, 0x39, 0x5B, 0x7B].randomElement(using: &random) ?? 0
                }
            }
            if let read = try? RelayRequest(reading: bytes) {
                #expect(read.points.count <= RelayRequest.pointsMax)
                // What was taken can be written into a document of the exchange.
                let writer = BundleWriter(device: "1", identifierSystem: "urn:x")
                _ = writer.bundle(
                    read.points.map {
                        BundleWriter.Entry(
                            point: $0.point, patient: $0.patient ?? "",
                            writer: DataPointWriter(strap: $0.strap))
                    })
            }
            _ = RelayAnswer(reading: bytes)?.answer(count: 6, .zero)
        }
    }
}
