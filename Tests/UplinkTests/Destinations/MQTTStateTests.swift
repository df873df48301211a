import Foundation
import Testing

@testable import Uplink

/// What goes to a broker about the gateway itself, and what is read of it there.
@Suite struct MQTTStateTests {
    private static let noon = Date(timeIntervalSince1970: 1_796_126_400)
    private static let topics = MQTTTopics(prefix: "edge-gateway", gateway: "ward3")

    private static func state(
        _ straps: [GatewayState.Strap], _ report: String = "{}", forgotten: [Int64] = []
    ) -> GatewayState {
        GatewayState(
            report: Array(report.utf8), version: "1.0.0", straps: straps, forgotten: forgotten)
    }

    private static func strap(_ id: Int64, _ name: String = "Bed 7", streams: Bool = true)
        -> GatewayState.Strap
    {
        GatewayState.Strap(id: id, name: name, isStreaming: streams)
    }

    private static func text(_ messages: [MQTTMessage]) -> [String] {
        messages.map {
            "\($0.topic.dropFirst("edge-gateway/ward3/".count))="
                + String(decoding: $0.payload, as: UTF8.self)
        }
    }

    private static func taken(_ messages: [MQTTMessage]) -> [Int?] { messages.map { _ in 0 } }

    @Test func theReportGoesOutEachTimeAndAStrapOnlyWhenItChanges() {
        var messages = MQTTStateMessages(topics: Self.topics, describes: false)
        let first = messages.messages(Self.state([Self.strap(1), Self.strap(2, streams: false)]))
        #expect(
            Self.text(first) == ["sensor/1/link=streaming", "sensor/2/link=silent", "health={}"])
        #expect(first.allSatisfy { $0.isRetained })
        messages.note(first, Self.taken(first))
        let again = messages.messages(Self.state([Self.strap(1), Self.strap(2, streams: false)]))
        #expect(Self.text(again) == ["health={}"])
        let changed = messages.messages(Self.state([Self.strap(1, streams: false), Self.strap(2)]))
        #expect(
            Self.text(changed) == ["sensor/1/link=silent", "sensor/2/link=streaming", "health={}"])
    }

    @Test func theCoverageGoesOutOnlyWhenItChanges() {
        var messages = MQTTStateMessages(topics: Self.topics, describes: false)
        var state = Self.state([])
        state.coverage = Array("[1]".utf8)
        let first = messages.messages(state)
        #expect(Self.text(first) == ["health={}", "coverage=[1]"])
        #expect(first.allSatisfy { $0.isRetained })
        messages.note(first, Self.taken(first))
        #expect(Self.text(messages.messages(state)) == ["health={}"])
        state.coverage = Array("[2]".utf8)
        #expect(Self.text(messages.messages(state)) == ["health={}", "coverage=[2]"])
    }

    @Test func whatTheBrokerDidNotTakeGoesOutAgainAndSoDoesAllOverANewConnection() {
        var messages = MQTTStateMessages(topics: Self.topics, describes: false)
        let state = Self.state([Self.strap(1), Self.strap(2)])
        let first = messages.messages(state)
        messages.note(first, [135, nil, 0])
        #expect(messages.messages(state).count == 3)
        messages.note(first, Self.taken(first))
        #expect(messages.messages(state).count == 1)
        messages.begin()
        #expect(messages.messages(state).count == 3)
    }

    @Test func aStrapThatIsForgottenIsTakenAwayAlsoOverANewConnection() {
        var messages = MQTTStateMessages(topics: Self.topics, describes: false)
        let both = messages.messages(Self.state([Self.strap(1), Self.strap(2)]))
        messages.note(both, Self.taken(both))
        messages.begin()
        let one = messages.messages(Self.state([Self.strap(1)]))
        #expect(
            Self.text(one) == [
                "sensor/1/link=streaming", "sensor/2/latest=", "sensor/2/link=", "health={}",
            ])
        messages.note(one, Self.taken(one))
        #expect(Self.text(messages.messages(Self.state([Self.strap(1)]))) == ["health={}"])
    }

    /// What goes out with a strap's samples, and is retained.
    private static let topicsOfSamples = [
        "edge-gateway/ward3/sensor/1/latest", "homeassistant/sensor/edge-gateway_ward3_1/config",
    ]

    @Test func aStrapThatIsForgottenDoesNotLeaveItsHeartRateInHomeAssistant() {
        var messages = MQTTStateMessages(topics: Self.topics, describes: true)
        let both = messages.messages(Self.state([Self.strap(1), Self.strap(2)]))
        messages.note(both, Self.taken(both))
        let one = messages.messages(Self.state([Self.strap(2)]))
        let gone = one.filter { $0.payload.isEmpty }
        #expect(gone.allSatisfy { $0.isRetained })
        #expect(
            Set(gone.map(\.topic))
                == Set(
                    Self.topicsOfSamples + [
                        "edge-gateway/ward3/sensor/1/link",
                        "homeassistant/device/edge-gateway_ward3_1/config",
                    ]))
        messages.note(one, Self.taken(one))
        #expect(messages.messages(Self.state([Self.strap(2)])).map(\.topic) == [Self.topics.health])
    }

    /// Its messages stayed for good: the gateway knew only of those that it had sent itself since it started.
    @Test func aStrapThatWasForgottenWhileNothingWasShownIsTakenAwayAsSoonAsTheBrokerTakesIt() {
        var messages = MQTTStateMessages(topics: Self.topics, describes: true)
        let state = Self.state([Self.strap(2)], forgotten: [1])
        let first = messages.messages(state)
        let removals = first.filter(\.payload.isEmpty)
        #expect(
            Set(removals.map(\.topic))
                == Set(
                    Self.topicsOfSamples + [
                        "edge-gateway/ward3/sensor/1/link",
                        "homeassistant/device/edge-gateway_ward3_1/config",
                    ]))
        #expect(removals.allSatisfy { $0.isRetained })
        #expect(messages.messages(state).filter(\.payload.isEmpty) == removals, "not answered yet")
        messages.note(first, Self.taken(first))
        #expect(messages.messages(state).map(\.topic) == [Self.topics.health])
        messages.begin()
        #expect(messages.messages(state).allSatisfy { !$0.payload.isEmpty })
    }

    @Test func aStrapThatIsPairedAgainIsShownAgain() {
        var messages = MQTTStateMessages(topics: Self.topics, describes: false)
        let gone = messages.messages(Self.state([], forgotten: [1]))
        messages.note(gone, Self.taken(gone))
        let back = messages.messages(Self.state([Self.strap(1)]))
        #expect(Self.text(back) == ["sensor/1/link=streaming", "health={}"])
        messages.note(back, Self.taken(back))
        let again = messages.messages(Self.state([], forgotten: [1]))
        #expect(Self.text(again) == ["sensor/1/latest=", "sensor/1/link=", "health={}"])
    }

    /// All that is retained at the broker is among what is taken away when the destination is removed.
    @Test(arguments: ["on", "off"], ["on", "off"])
    func whenADestinationIsRemovedNothingStays(discovery: String, status: String) throws {
        let kind = try #require(
            try Self.kind(["discovery": discovery, "status": status]) as? MQTTKind)
        var all = Set(
            kind.example.split(separator: "\n").filter { $0.hasSuffix(" (retained)") }
                .map { String($0.dropLast(" (retained)".count)) })
        if status == "on" { all.insert("edge-gateway/ward3/coverage") }
        #expect(kind.retained([1]) == all)
        let removals = MQTTStateMessages.removals(kind.retained([1]))
        #expect(removals.count == all.count)
        #expect(removals.allSatisfy { $0.payload.isEmpty && $0.isRetained })
    }

    @Test func thingsBoardRetainsNothing() throws {
        let kind = try #require(try Self.kind(["format": "thingsboard"]) as? MQTTKind)
        #expect(kind.retained([1]).isEmpty)
    }

    /// Else it evaluates its templates on nothing, and says so in its log.
    @Test func homeAssistantIsToldThatAThingIsGoneBeforeItsTopicsAreEmptied() throws {
        var messages = MQTTStateMessages(topics: Self.topics, describes: true)
        let both = messages.messages(Self.state([Self.strap(1), Self.strap(2)]))
        messages.note(both, Self.taken(both))
        let one = messages.messages(Self.state([Self.strap(2)])).filter(\.payload.isEmpty)
        let kind = try #require(try Self.kind(["discovery": "on"]) as? MQTTKind)
        for removals in [one, MQTTStateMessages.removals(kind.retained([2]))] {
            let isDescription = removals.map { MQTTTopics.isDiscovery($0.topic) }
            let first = try #require(isDescription.firstIndex(of: false))
            #expect(isDescription.contains(true))
            #expect(!isDescription[first...].contains(true), "\(removals.map(\.topic))")
        }
    }

    // MARK: - Home Assistant

    /// Home Assistant, MQTT: device discovery payload; binary sensor and sensor, configuration variables.
    private static let rootKeys: Set<String> = [
        "device", "origin", "components", "availability", "availability_topic", "state_topic",
        "command_topic", "qos", "encoding",
    ]
    private static let deviceKeys: Set<String> = [
        "configuration_url", "connections", "hw_version", "identifiers", "manufacturer", "model",
        "model_id", "name", "serial_number", "suggested_area", "sw_version", "via_device",
    ]
    private static let componentKeys: [String: Set<String>] = [
        "binary_sensor": [
            "platform", "name", "unique_id", "device_class", "state_topic", "value_template",
            "payload_on", "payload_off", "expire_after", "icon", "json_attributes_topic",
            "json_attributes_template", "entity_category",
        ],
        "sensor": [
            "platform", "name", "unique_id", "device_class", "state_topic", "value_template",
            "state_class", "options", "unit_of_measurement", "expire_after", "icon",
            "json_attributes_topic",
            "json_attributes_template", "entity_category",
        ],
    ]

    private static func described(_ straps: [GatewayState.Strap]) throws -> [String: [String: Any]]
    {
        var states = MQTTStateMessages(topics: topics, describes: true)
        let messages = states.messages(state(straps)).filter {
            $0.topic.hasPrefix("homeassistant/")
        }
        return try Dictionary(
            uniqueKeysWithValues: messages.map {
                (
                    $0.topic,
                    try #require(
                        JSONSerialization.jsonObject(with: Data($0.payload)) as? [String: Any])
                )
            })
    }

    @Test func homeAssistantGetsTheGatewayAndItsStrapsAsItDocumentsDevices() throws {
        let found = try Self.described([Self.strap(3), Self.strap(4)])
        let gatewayTopic = "homeassistant/device/edge-gateway_ward3_gateway/config"
        let strapTopic = "homeassistant/device/edge-gateway_ward3_3/config"
        #expect(found.count == 3)
        for (topic, json) in found {
            #expect(
                topic.wholeMatch(of: /homeassistant\/device\/[a-zA-Z0-9_-]+\/config/) != nil)
            #expect(Set(json.keys).isSubset(of: Self.rootKeys), "\(json.keys)")
            #expect(json["origin"] as? [String: String] == ["name": "EdgeGateway"])
            #expect(json["availability_topic"] as? String == "edge-gateway/ward3/status")
            let device = try #require(json["device"] as? [String: Any])
            #expect(Set(device.keys).isSubset(of: Self.deviceKeys))
            let components = try #require(json["components"] as? [String: [String: Any]])
            for component in components.values {
                let platform = try #require(component["platform"] as? String)
                let keys = try #require(Self.componentKeys[platform])
                #expect(Set(component.keys).isSubset(of: keys), "\(component.keys)")
                #expect(component["unique_id"] is String)
                #expect(component["state_topic"] != nil || json["state_topic"] != nil)
            }
        }
        let gateway = try #require(found[gatewayTopic])
        #expect((gateway["device"] as? [String: Any])?["sw_version"] as? String == "1.0.0")
        let parts = try #require(gateway["components"] as? [String: [String: Any]])
        #expect(Set(parts.keys) == ["problem", "severity", "straps", "paired", "backlog"])
        #expect(parts["problem"]?["device_class"] as? String == "problem")
        let identifiers = found.values.flatMap {
            ($0["components"] as? [String: [String: Any]] ?? [:]).values
                .compactMap { $0["unique_id"] as? String }
        }
        #expect(Set(identifiers).count == identifiers.count)
        let strap = try #require(found[strapTopic])
        let device = try #require(strap["device"] as? [String: Any])
        // The same device as that of the strap's heart rate.
        #expect(device["identifiers"] as? [String] == ["edge-gateway_ward3_3"])
        #expect(device["via_device"] as? String == "edge-gateway_ward3_gateway")
        #expect(device["name"] as? String == "ward3 Bed 7")
    }

    @Test func theNameOfAStrapIsNoProgramOfHomeAssistants() throws {
        let evil = "{{ states('lock.door') }}\" \u{1B}[2J"
        let found = try Self.described([Self.strap(3, evil)])
        let strap = try #require(found["homeassistant/device/edge-gateway_ward3_3/config"])
        let parts = try #require(strap["components"])
        #expect(!"\(parts)".contains("states("))
        #expect((strap["device"] as? [String: Any])?["name"] as? String == "ward3 " + evil)
    }

    // MARK: - Settings

    private static func kind(_ more: [String: String]) throws -> any DestinationKind {
        try DestinationRegistry.destination(
            "mqtt",
            ["url": "mqtt://127.0.0.1", "gateway": "ward3"].merging(more) { $1 })
    }

    @Test func aPersonSeesWhatIsPublishedAndCanTurnItOff() throws {
        #expect(try Self.kind([:]).example.contains("edge-gateway/ward3/health (retained)"))
        #expect(try !Self.kind(["status": "off"]).example.contains("/health"))
        #expect(try !Self.kind(["format": "thingsboard"]).example.contains("/health"))
        #expect(throws: DestinationProblem.self) { try Self.kind(["status": "maybe"]) }
    }

    // MARK: - At the broker

    private static func message(
        _ topic: String, _ payload: String, isRetained: Bool = true
    ) -> MQTTMessage {
        MQTTMessage(topic: topic, payload: Array(payload.utf8), isRetained: isRetained)
    }

    /// Whether a person would see something new of it.
    private static func note(_ message: MQTTMessage, _ states: inout BrokerStates) -> Bool {
        states.note(message, at: noon)
    }

    @Test func aGatewayIsWhatItsTwoTopicsSayAndGoneWhenTheyAreEmpty() {
        var states = BrokerStates(prefix: "edge-gateway")
        #expect(Self.note(Self.message("edge-gateway/a/status", "online"), &states))
        #expect(Self.note(Self.message("edge-gateway/a/health", "{}"), &states))
        #expect(!Self.note(Self.message("edge-gateway/a/health", "{}"), &states))
        #expect(
            states.gateways["a"]
                == .init(isOnline: true, report: Array("{}".utf8), heard: nil))
        #expect(
            Self.note(
                Self.message("edge-gateway/a/status", "offline", isRetained: false), &states))
        #expect(states.gateways["a"]?.isOnline == false)
        // A will is no sign of life.
        #expect(states.gateways["a"]?.heard == nil)
        _ = states.note(
            Self.message("edge-gateway/a/health", "{}", isRetained: false), at: Self.noon)
        #expect(states.gateways["a"]?.heard == Self.noon)
        _ = states.note(Self.message("edge-gateway/a/status", ""), at: Self.noon)
        _ = states.note(Self.message("edge-gateway/a/health", ""), at: Self.noon)
        #expect(states.gateways.isEmpty)
    }

    @Test(arguments: [
        "edge-gateway/status", "edge-gateway//status", "edge-gateway/a/b/status", "other/a/status",
        "edge-gateway/a/samples", "edge-gateway/a/status/", "edge-gatewayx/a/status",
        "edge-gateway/" + String(repeating: "a", count: 65) + "/status",
    ])
    func otherTopicsAreNoGateways(topic: String) {
        var states = BrokerStates(prefix: "edge-gateway")
        #expect(!Self.note(Self.message(topic, "online"), &states))
        #expect(states.gateways.isEmpty)
    }

    @Test func moreGatewaysThanAScreenHasRoomForAreCountedAndNotKept() {
        var states = BrokerStates(prefix: "p")
        for number in 0...BrokerStates.gatewaysMax {
            _ = states.note(Self.message("p/\(number)/status", "online"), at: Self.noon)
        }
        #expect(states.gateways.count == BrokerStates.gatewaysMax && states.isFull)
        #expect(Self.note(Self.message("p/0/status", "offline"), &states))
    }

    @Test func reportsThatAreTooLargeOneByOneOrTogetherAreNotKept() {
        var states = BrokerStates(prefix: "p")
        let large = String(repeating: "x", count: BrokerStates.reportBytesMax)
        _ = states.note(Self.message("p/a/health", large + "x"), at: Self.noon)
        #expect(states.gateways["a"]?.isTooLarge == true && states.gateways["a"]?.report == nil)
        let count = BrokerStates.bytesMax / BrokerStates.reportBytesMax
        for number in 0...count {
            _ = states.note(Self.message("p/\(number)/health", large), at: Self.noon)
        }
        #expect(states.gateways.values.count { $0.report != nil } == count)
        #expect(states.gateways["\(count)"]?.isTooLarge == true)
        // What one gives up another may have.
        _ = states.note(Self.message("p/0/health", ""), at: Self.noon)
        _ = states.note(Self.message("p/\(count)/health", large), at: Self.noon)
        #expect(states.gateways["\(count)"]?.report != nil)
    }
}
