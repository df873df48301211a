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
                #"{"ward strap 3":[{"ts":1763798400121,"values":{"heart_rate":72}},"#
                    + #"{"ts":1763798400121,"values":{"rr_interval":1000}}]}"#,
                #"{"ward strap 4":[{"ts":1763798400121,"values":{"heart_rate":80}}]}"#,
            ])
        #expect(writer.will == nil && writer.greeting().isEmpty)
        #expect(writer.probes.map(\.topic) == ["v1/gateway/disconnect"])
    }

    /// ThingsBoard keeps one value a device, key and millisecond: the later one replaced the other.
    @Test func whatSharesAMillisecondOrAWindowStaysTwoAtThingsBoard() {
        let window = Self.time..<Self.time + .seconds(10)
        let contents: [(DataPoint.Content, [String])] = [
            (.averageHeartRate(tenths: 723, count: 5, window: window), ["1123", "1131"]),
            (.heartRate(bpm: 72, at: Self.time), ["0120", "0121"]),
            (.interval(ticks: 843, end: Self.time), ["0120", "0121"]),
        ]
        for (content, times) in contents {
            let second: Int64 = content == contents[0].0 ? 1_008 : 1_001
            var writer = Self.writer(.thingsboard)
            let messages = writer.messages(
                [Self.point(content, sample: 1_000), Self.point(content, sample: second)],
                Self.reading())
            let text = messages.map { Self.text($0) }.joined()
            let found = text.matches(of: /"ts":176379840(\d+)/).map { String($0.output.1) }
            #expect(found == times, "\(text)")
        }
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
        let newest = writer.messages([Self.rate(74, after: 2)], Self.reading(after: 3))
        #expect(Self.latest(newest) == ["3: 74"])
        #expect(
            Self.latest(writer.messages([Self.rate(73, after: 1)], Self.reading(after: 3))) == [])
        // What the broker did not take goes out again.
        writer.note(newest, newest.map { $0.isRetained ? 135 : 0 })
        #expect(
            Self.latest(writer.messages([Self.rate(74, after: 2)], Self.reading(after: 3)))
                == ["3: 74"])
        writer.note(newest, newest.map { _ in 0 })
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

    /// One that the rules refused did not go out again before the next connection.
    @Test func aDescriptionGoesOutUntilTheBrokerHasItAndOnceAConnection() {
        var writer = Self.writer(discovery: true)
        func count(answeredWith code: Int?) -> Int {
            let messages = writer.messages([Self.rate(72), Self.rate(73)], Self.reading())
            writer.note(messages, messages.map { _ in code })
            return messages.count { $0.topic.hasPrefix("homeassistant/") }
        }
        #expect(count(answeredWith: 135) == 1)
        #expect(count(answeredWith: nil) == 1)
        #expect(count(answeredWith: 0) == 1)
        #expect(count(answeredWith: 0) == 0)
        _ = writer.greeting()
        #expect(count(answeredWith: 0) == 1)
    }

    @Test func aStrapThatWasForgottenIsDescribedAnewWhenItIsPairedAgain() {
        var writer = Self.writer(discovery: true)
        let first = writer.messages([Self.rate(72)], Self.reading())
        writer.note(first, first.map { _ in 0 })
        let removals = MQTTStateMessages.removals([writer.topics.discovery(3)])
        writer.note(removals, [0])
        let again = writer.messages([Self.rate(73)], Self.reading())
        #expect(again.first?.topic == writer.topics.discovery(3))
    }

    @Test func aStrapThatWasForgottenDoesNotComeBackWithTheSamplesThatStillWait() {
        var writer = Self.writer(discovery: true)
        func topics(_ sensor: Int64) -> [String] {
            let messages = writer.messages(
                [Self.rate(72, sensor: sensor)], Self.reading(after: 1))
            return messages.map(\.topic)
        }
        let sample = "edge-gateway/ward/sensor/3/heart-rate"
        writer.begin(Self.reading())
        #expect(topics(3).contains(sample))
        writer.names = [4: "Bed 8"]
        _ = writer.greeting()
        #expect(topics(3) == [sample])
        #expect(topics(4).first == "homeassistant/sensor/edge-gateway_ward_4/config")
    }

    @Test func aStrapThatGetsAnotherNameIsDescribedAnew() throws {
        var writer = Self.writer(discovery: true)
        func name() throws -> String? {
            let messages = writer.messages([Self.rate(72)], Self.reading())
            writer.note(messages, messages.map { _ in 0 })
            guard let found = messages.first(where: { $0.topic.hasPrefix("homeassistant/") })
            else { return nil }
            let json = try JSONSerialization.jsonObject(with: Data(found.payload))
            return ((json as? [String: Any])?["device"] as? [String: Any])?["name"] as? String
        }
        #expect(try name() == "ward strap 3")
        writer.names = [3: "Bed 7"]
        #expect(try name() == "ward Bed 7")
        writer.names = [3: "Bed 7"]
        #expect(try name() == nil)
        writer.names = [3: "Bed 9"]
        #expect(try name() == "ward Bed 9")
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
