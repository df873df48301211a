import Basics
import Foundation
import OfflineQueue
import Testing

@testable import Uplink

@Suite struct MQTTMessageTests {
    private static let time = UTC(microseconds: 1_763_798_400_123_456)

    private static func point(
        _ content: DataPoint.Content, sensor: Int64 = 3, sample: Int64 = 1,
        strap: StrapDatasheet = StrapDatasheet()
    ) -> OutgoingPoint {
        let uuid = SampleIdentity(runNonce: 7, sample: sample).description
        return OutgoingPoint(
            DataPoint(uuid: uuid, content), patient: "40001", sensorID: sensor, strap: strap)
    }

    private static func rate(
        _ bpm: Int, after seconds: Int64 = 0, sensor: Int64 = 3
    ) -> OutgoingPoint {
        point(.heartRate(bpm: bpm, at: time + .seconds(seconds)), sensor: sensor)
    }

    private static func writer(
        _ format: MQTTFormat = .json, discovery: Bool = false, patient: Bool = false
    ) -> MQTTWriter {
        MQTTWriter(
            topics: MQTTTopics(prefix: "edge-gateway", gateway: "ward"), format: format,
            describesSensors: discovery
        ) { patient ? $0.patient : nil }
    }

    private static func reading(after seconds: Int64 = 1, isTrusted: Bool = true) -> ClockReading {
        ClockReading(uptime: .zero, wall: time + .seconds(seconds), isTrusted: isTrusted)
    }

    private static func text(_ message: MQTTMessage) -> String {
        String(decoding: message.payload, as: UTF8.self)
    }

    // MARK: - Samples

    @Test func aSampleIsOneMessageWithADigestForAnIdentifierAndNoPatientUnlessAsked() throws {
        let start = UTC(microseconds: 1_763_798_400_000_000)
        let points = [
            Self.rate(72),
            Self.point(
                .averageHeartRate(tenths: 723, count: 9, window: start..<start + .seconds(10))),
            Self.point(.interval(ticks: 843, end: start)),
        ]
        var writer = Self.writer()
        let messages = writer.messages(points, Self.reading(isTrusted: false))
        #expect(
            messages.map(\.topic) == [
                "edge-gateway/ward/sensor/3/heart-rate", "edge-gateway/ward/sensor/3/heart-rate",
                "edge-gateway/ward/sensor/3/rr-interval",
            ])
        #expect(messages.allSatisfy { !$0.isRetained })
        let id = "f6e2ae2c-1f4d-8e2b-8d6b-6ff1a1bd7ea7"
        let texts = messages.map { Self.text($0) }
        let first = try #require(
            JSONSerialization.jsonObject(with: Data(texts[0].utf8)) as? [String: Any])
        let digest = try #require(first["id"] as? String)
        #expect(digest.count == id.count && UUID(uuidString: digest) != nil)
        #expect(Array(digest)[14] == "8" && digest != points[0].point.uuid)
        #expect(
            texts.map { $0.replacing(/"id":"[^"]*"/, with: "ID") } == [
                #"{ID,"sensor":3,"time":"2025-11-22T08:00:00.123456Z","bpm":72}"#,
                #"{ID,"sensor":3,"time":"2025-11-22T08:00:00.000000Z","until":"2025-11-22T08:00:10.000000Z","#
                    + #""bpm":72.3,"count":9}"#,
                #"{ID,"sensor":3,"time":"2025-11-22T07:59:59.176758Z","until":"2025-11-22T08:00:00.000000Z","#
                    + #""rr_ms":823.2421875}"#,
            ])
        var asked = Self.writer(patient: true)
        #expect(
            Self.text(asked.messages([points[0]], Self.reading())[0])
                .contains(#""sensor":3,"patient":"40001","#))
    }

    @Test func aSampleThatIsSentAgainIsTheSameMessage() {
        var first = Self.writer()
        var second = Self.writer()
        let points = [Self.rate(72), Self.rate(73, after: 1)]
        let again = second.messages(Array(points.dropFirst()), Self.reading(after: 60))
        #expect(first.messages(points, Self.reading())[1] == again[0])
    }

    @Test func anArrayHoldsABatchInOneMessage() throws {
        var writer = Self.writer(.array)
        let messages = writer.messages([Self.rate(72), Self.rate(73)], Self.reading(after: 900))
        #expect(messages.map(\.topic) == ["edge-gateway/ward/samples"])
        let array = try #require(
            JSONSerialization.jsonObject(with: Data(messages[0].payload)) as? [[String: Any]])
        #expect(array.map { $0["bpm"] as? Int } == [72, 73])
    }

    @Test func thingsBoardGetsAMessageAStrapForItAcknowledgesTheFirstDeviceOfAMessage() {
        var writer = Self.writer(.thingsboard)
        let points = [
            Self.rate(72), Self.rate(80, sensor: 4),
            Self.point(.interval(ticks: 1024, end: Self.time)),
        ]
        let messages = writer.messages(points, Self.reading())
        #expect(messages.allSatisfy { $0.topic == "v1/gateway/telemetry" && !$0.isRetained })
        #expect(
            messages.map { Self.text($0) } == [
                #"{"ward strap 3":[{"ts":1763798400123,"values":{"heart_rate":72}},"#
                    + #"{"ts":1763798400123,"values":{"rr_interval":1000}}]}"#,
                #"{"ward strap 4":[{"ts":1763798400123,"values":{"heart_rate":80}}]}"#,
            ])
        #expect(writer.will == nil && writer.greeting().isEmpty)
        #expect(writer.probes.map(\.topic) == ["v1/gateway/disconnect"])
    }

    // MARK: - State

    @Test func theGatewaysStateIsRetainedAndTheWillSaysThatItIsGone() {
        var writer = Self.writer()
        let online = writer.greeting()
        #expect(online.map(\.topic) == ["edge-gateway/ward/status"])
        #expect(online.map { Self.text($0) } == ["online"] && online[0].isRetained)
        #expect(writer.will?.topic == "edge-gateway/ward/status")
        #expect(writer.will.map { Self.text($0) } == "offline" && writer.will?.isRetained == true)
    }

    /// The heart rates that a writer calls the present ones.
    private static func latest(_ messages: [MQTTMessage]) -> [String] {
        messages.filter { $0.topic.hasSuffix("/latest") && $0.isRetained }.map { message in
            let sensor = message.topic.split(separator: "/")[3]
            let bpm = text(message).split(separator: "\"bpm\":").last?.prefix { $0.isNumber } ?? ""
            return "\(sensor): \(bpm)"
        }
    }

    @Test func theLatestHeartRateOfAStrapIsThatOfTheNewestSample() {
        var writer = Self.writer()
        writer.begin(Self.reading(after: -10))
        let points = [Self.rate(72), Self.rate(74, after: 2), Self.rate(73, after: 1)]
        let other = Self.rate(90, after: 1, sensor: 4)
        #expect(
            Self.latest(writer.messages(points + [other], Self.reading(after: 3)))
                == ["3: 74", "4: 90"])
    }

    @Test func theLatestHeartRateNeverGoesBackInTime() {
        var writer = Self.writer()
        writer.begin(Self.reading(after: -10))
        #expect(
            Self.latest(writer.messages([Self.rate(74, after: 2)], Self.reading(after: 3)))
                == ["3: 74"])
        #expect(
            Self.latest(writer.messages([Self.rate(73, after: 1)], Self.reading(after: 3))) == [])
        #expect(
            Self.latest(writer.messages([Self.rate(74, after: 2)], Self.reading(after: 3))) == [])
        #expect(
            Self.latest(writer.messages([Self.rate(75, after: 3)], Self.reading(after: 3)))
                == ["3: 75"])
    }

    @Test func afterARestartOnlyWhatWasMeasuredSinceIsTheLatest() {
        var writer = Self.writer()
        writer.begin(Self.reading(after: 5))
        #expect(
            Self.latest(
                writer.messages(
                    [Self.rate(72), Self.rate(73, after: 5)], Self.reading(after: 6))) == [])
        #expect(
            Self.latest(writer.messages([Self.rate(74, after: 6)], Self.reading(after: 7)))
                == ["3: 74"])
    }

    @Test func anHourOldHeartRateIsNotTheLatest() {
        var writer = Self.writer()
        writer.begin(Self.reading(after: -10))
        #expect(
            Self.latest(
                writer.messages(
                    [Self.rate(72), Self.rate(73, after: 3_500)], Self.reading(after: 3_600)))
                == ["3: 73"])
        #expect(
            Self.latest(
                writer.messages([Self.rate(74, after: 3_600)], Self.reading(after: 7_200))) == [])
    }

    @Test func withoutATrustedClockNothingIsTheLatest() {
        var writer = Self.writer()
        writer.begin(Self.reading(after: -10, isTrusted: false))
        let points = [Self.rate(72, after: 1)]
        #expect(
            Self.latest(writer.messages(points, Self.reading(after: 1, isTrusted: false))) == [])
        // What an earlier run left at the broker may be newer than this.
        #expect(Self.latest(writer.messages(points, Self.reading(after: 2))) == [])
        #expect(
            Self.latest(writer.messages([Self.rate(73, after: 3)], Self.reading(after: 4)))
                == ["3: 73"])
    }

    @Test func moreStrapsThanAreRememberedDoNotBringOldHeartRatesBack() {
        var writer = Self.writer()
        writer.begin(Self.reading(after: -10))
        for sensor in 0...Int64(MQTTWriter.sensorsMax) {
            _ = writer.messages(
                [Self.rate(72, after: 20, sensor: sensor)], Self.reading(after: 21))
        }
        #expect(
            Self.latest(
                writer.messages([Self.rate(70, after: 19, sensor: 0)], Self.reading(after: 22)))
                == [])
    }

    // MARK: - Home Assistant

    /// What Home Assistant documents for a sensor that is discovered (MQTT sensor, configuration variables; MQTT,
    /// discovery messages).
    private static let sensorKeys: Set<String> = [
        "availability", "availability_mode", "availability_template", "availability_topic",
        "default_entity_id", "device", "device_class", "enabled_by_default", "encoding",
        "entity_category", "entity_picture", "expire_after", "force_update", "icon",
        "json_attributes_template", "json_attributes_topic", "last_reset_value_template", "name",
        "options", "origin", "payload_available", "payload_not_available", "platform", "qos",
        "state_class", "state_topic", "suggested_display_precision", "unique_id",
        "unit_of_measurement", "value_template",
    ]
    private static let deviceKeys: Set<String> = [
        "configuration_url", "connections", "hw_version", "identifiers", "manufacturer", "model",
        "model_id", "name", "serial_number", "suggested_area", "sw_version", "via_device",
    ]

    @Test func homeAssistantGetsADescriptionOfEachStrapAsItDocumentsIt() throws {
        var writer = Self.writer(discovery: true)
        let strap = StrapDatasheet(
            manufacturer: "Polar \"Electro\" Oy", model: "H10", firmware: "5.0.0")
        let point = Self.point(.heartRate(bpm: 72, at: Self.time), strap: strap)
        let messages = writer.messages(
            [point, Self.rate(73), Self.rate(80, sensor: 4)], Self.reading())
        let found = messages.filter { $0.topic.hasPrefix("homeassistant/") }
        #expect(found.count == 2 && found.allSatisfy(\.isRetained))
        #expect(
            try found.allSatisfy {
                try /homeassistant\/sensor\/[a-zA-Z0-9_-]+\/config/.wholeMatch(in: $0.topic) != nil
            })
        // Home Assistant has to know the sensor before its samples come.
        #expect(messages.first?.topic.hasPrefix("homeassistant/") == true)
        let json = try #require(
            JSONSerialization.jsonObject(with: Data(found[0].payload)) as? [String: Any])
        #expect(Set(json.keys).isSubset(of: Self.sensorKeys), "\(json.keys)")
        #expect(json["unique_id"] as? String == "edge-gateway_ward_3")
        #expect(json["state_topic"] as? String == "edge-gateway/ward/sensor/3/latest")
        #expect(json["availability_topic"] as? String == writer.will?.topic)
        #expect(json["state_class"] as? String == "measurement")
        #expect(json["unit_of_measurement"] as? String == "bpm")
        #expect(json["expire_after"] as? Int == 120)
        #expect((json["icon"] as? String)?.hasPrefix("mdi:") == true)
        let device = try #require(json["device"] as? [String: Any])
        #expect(Set(device.keys).isSubset(of: Self.deviceKeys))
        #expect(device["identifiers"] as? [String] == ["edge-gateway_ward_3"])
        #expect(device["name"] as? String == "ward strap 3")
        #expect(device["manufacturer"] as? String == strap.manufacturer)
        #expect((json["origin"] as? [String: String])?["name"] == "EdgeGateway")
        let everything = messages.map { $0.topic + Self.text($0) }.joined()
        #expect(!everything.contains("40001"))
    }

    @Test func aDescriptionGoesOutOnceAConnection() {
        var writer = Self.writer(discovery: true)
        func count(_ messages: [MQTTMessage]) -> Int {
            messages.count { $0.topic.hasPrefix("homeassistant/") }
        }
        #expect(count(writer.messages([Self.rate(72)], Self.reading())) == 1)
        #expect(count(writer.messages([Self.rate(73)], Self.reading())) == 0)
        _ = writer.greeting()
        #expect(count(writer.messages([Self.rate(74)], Self.reading())) == 1)
    }

    @Test func aProbeLeavesNothingRetained() {
        let probes = Self.writer(discovery: true).probes
        #expect(
            probes.map(\.topic) == [
                "edge-gateway/ward/probe", "homeassistant/sensor/edge-gateway_ward_0/config",
            ])
        #expect(probes.allSatisfy { $0.payload.isEmpty && $0.isRetained })
    }
}

// MARK: - Reasons

@Suite struct MQTTReasonTests {
    struct Row: Sendable, CustomTestStringConvertible {
        var packet: MQTTReason.Packet
        var code: Int
        var meaning: AnswerMeaning
        var testDescription: String { "\(packet.rawValue) \(code)" }

        init(_ packet: MQTTReason.Packet, _ code: Int, _ meaning: AnswerMeaning) {
            (self.packet, self.code, self.meaning) = (packet, code, meaning)
        }
    }

    static let rows = [
        Row(.connack, 0, .stored),
        Row(.puback, 0, .stored),
        Row(.puback, 16, .stored),
        Row(.disconnect, 0, .unclear),
        Row(.connack, 128, .unclear),
        Row(.puback, 128, .unclear),
        Row(.disconnect, 130, .unclear),
        Row(.puback, 131, .unclear),
        Row(.connack, 132, .held(.requestRefused)),
        Row(.connack, 133, .held(.requestRefused)),
        Row(.connack, 134, .unauthorized),
        Row(.connack, 135, .unauthorized),
        Row(.puback, 135, .held(.forbidden)),
        Row(.disconnect, 135, .held(.forbidden)),
        Row(.connack, 136, .throttled),
        Row(.connack, 137, .throttled),
        Row(.connack, 138, .held(.forbidden)),
        Row(.disconnect, 139, .unclear),
        Row(.connack, 140, .unauthorized),
        Row(.disconnect, 141, .unclear),
        Row(.disconnect, 142, .held(.requestRefused)),
        Row(.puback, 144, .held(.notFound)),
        Row(.disconnect, 149, .tooLarge),
        Row(.disconnect, 150, .throttled),
        Row(.puback, 151, .held(.planExceeded)),
        Row(.disconnect, 152, .held(.forbidden)),
        Row(.puback, 153, .suspect),
        Row(.connack, 154, .held(.requestRefused)),
        Row(.connack, 155, .held(.requestRefused)),
        Row(.connack, 156, .held(.notFound)),
        Row(.connack, 157, .held(.notFound)),
        Row(.connack, 159, .throttled),
        Row(.disconnect, 255, .unclear),
    ]

    @Test(arguments: rows)
    func aReasonCodeMeansThis(_ row: Row) {
        #expect(MQTTReason(row.packet, row.code).meaning == row.meaning)
    }

    @Test(
        arguments: [
            (1, AnswerMeaning.held(.requestRefused)), (2, .held(.requestRefused)), (3, .throttled),
            (4, .unauthorized), (5, .unauthorized), (6, .unclear), (255, .unclear),
        ])
    func aReturnCodeOfMQTT311MeansThis(code: Int, meaning: AnswerMeaning) {
        #expect(MQTTReason(returnCode: code).meaning == meaning)
    }

    @Test func everyHoldThatTheTableGivesHasWordsForWhatToDo() {
        let reasons = MQTTReason.table.compactMap { row -> HoldReason? in
            if case .held(let reason) = row.meaning { reason } else { nil }
        }
        for reason in Set(reasons + [.credentialsRefused]) {
            #expect(MQTTKind.remedy(reason) != nil, "\(reason)")
        }
    }

    // MARK: - Sessions

    private static func session(_ count: Int) -> MQTTSession {
        var session = MQTTSession()
        session.note(.answered(code: 0))
        session.begin(count: count)
        for index in 0..<count { session.send(index, id: Int32(index + 1)) }
        return session
    }

    @Test func aRoundIsSettledWhenEveryMessageIsAnswered() {
        var session = Self.session(2)
        session.note(.acknowledged(id: 2, code: 0))
        #expect(!session.isSettled && session.codes == [nil, 0])
        session.note(.acknowledged(id: 1, code: 16))
        #expect(session.isSettled && session.codes == [16, 0])
    }

    @Test func answersToOtherMessagesChangeNothing() {
        var session = Self.session(2)
        session.note(.acknowledged(id: 9, code: 0))
        session.note(.acknowledged(id: 1, code: 0))
        session.note(.acknowledged(id: 1, code: 135))
        #expect(session.codes == [0, nil] && !session.isSettled)
    }

    @Test func theFirstWordAboutTheEndCounts() {
        var session = Self.session(1)
        session.note(.dismissed(code: 142))
        session.note(.failed(.cut))
        session.note(.acknowledged(id: 1, code: 0))
        #expect(session.end == .refused(MQTTReason(.disconnect, 142)) && session.codes == [nil])
    }

    @Test func theDeliveryLearnsWhatARoundCameTo() {
        func answer(
            _ codes: [Int?], _ end: MQTTSession.End? = nil, wasSent: Bool = true,
            isAlone: Bool = false
        ) -> DeliveryAnswer {
            MQTTOutcome(codes: codes, wasSent: wasSent, end: end)
                .answer(count: codes.count, isAlone: isAlone)
        }
        let stored = EntryAnswer(.stored)
        #expect(answer([0, 16]) == .entries([stored, stored]))
        #expect(answer([0, 135]) == .held(.forbidden, retryAt: nil))
        #expect(answer([0, 153]) == .malformed)
        #expect(
            answer([153], isAlone: true)
                == .entries([EntryAnswer(.unclear, status: 153, diagnostics: "PUBACK 153")]))
        #expect(answer([149, 149]) == .tooLarge)
        #expect(answer([131, nil]) == .unclear("PUBACK 131"))
        #expect(answer([0, nil], .fault(.cut)) == .unanswered("\(TransportFault.cut)"))
        #expect(answer([nil], .fault(.connect), wasSent: false) == .notSent(retryAt: nil))
        #expect(
            answer([nil], .refused(MQTTReason(.disconnect, 150))) == .throttled(retryAfter: nil))
    }

    // MARK: - Addresses

    @Test(
        arguments: [
            ("mqtt://127.0.0.1", "mqtt://127.0.0.1:1883"),
            ("mqtts://Host.example", "mqtts://host.example:8883"),
            ("MQTT://host:99/", "mqtt://host:99"), ("mqtt://[::1]:7", "mqtt://[::1]:7"),
            ("http://host", nil), ("mqtt://", nil), ("mqtt://host:0", nil),
            ("mqtt://host/path", nil),
            ("mqtt://host?x", nil), ("ws://host", nil), ("host:1883", nil), ("mqtt://a b", nil),
        ] as [(String, String?)])
    func aBrokersAddressIsASchemeAHostAndPerhapsAPort(text: String, found: String?) {
        #expect(BrokerAddress(text).map { "\($0)" } == found)
    }

    @Test func plainTextLeavesThisMachineOnlyWhenThatIsAllowed() throws {
        let near = try #require(BrokerAddress("mqtt://127.0.0.1"))
        let far = try #require(BrokerAddress("mqtt://host.example"))
        let secure = try #require(BrokerAddress("mqtts://host.example"))
        #expect(near.isAllowed(.loopback) && !far.isAllowed(.loopback) && far.isAllowed(.allowed))
        #expect(secure.isAllowed(.never) && !near.isAllowed(.never))
        #expect(try #require(BrokerAddress("mqtt://[::1]")).host == "::1")
    }
}
