/// The retained messages that say how a gateway is, and what of them the broker has.
struct MQTTStateMessages: Sendable {
    let topics: MQTTTopics
    /// Whether they are described to Home Assistant.
    let describes: Bool

    /// The messages at the broker, by topic; empty where that is not known.
    private var known: [String: [UInt8]] = [:]
    /// The forgotten straps whose messages are in ``known``, or were taken away.
    private var forgotten: Set<Int64> = []

    /// More straps than a gateway can have. Those beyond have no messages of their own.
    static let strapsMax = 256
    /// Seconds after which Home Assistant calls the state unavailable: three messages are missing.
    static let freshSeconds = 180

    init(topics: MQTTTopics, describes: Bool) {
        self.topics = topics
        self.describes = describes
    }

    /// A new connection: the broker may have lost what it retained.
    mutating func begin() { known = known.mapValues { _ in [] } }

    /// The messages that make the broker say `state`: the report always, of the rest what is new. Straps that
    /// are gone are taken away, with what went out beside their samples.
    mutating func messages(_ state: GatewayState) -> [MQTTMessage] {
        // They may have been forgotten while nothing could be published.
        for sensor in state.forgotten where forgotten.insert(sensor).inserted {
            for topic in topics.retained(of: sensor, describes: describes, showsState: true) {
                known[topic, default: []] = []
            }
        }
        var wanted: [(topic: String, payload: [UInt8])] = []
        if describes { wanted.append((topics.gatewayDiscovery, description(state))) }
        var kept: Set = [topics.health]
        for strap in state.straps.prefix(Self.strapsMax) {
            if describes { wanted.append((topics.strapDiscovery(strap.id), description(strap))) }
            let word = strap.isStreaming ? "streaming" : "silent"
            wanted.append((topics.link(strap.id), Array(word.utf8)))
            for topic in topics.retained(of: strap.id, describes: describes, showsState: false) {
                // Whether a sample of it went out is not known here, and an earlier run of the gateway may have left it.
                known[topic, default: []] = []
                kept.insert(topic)
            }
        }
        kept.formUnion(wanted.map(\.topic))
        if !state.coverage.isEmpty { kept.insert(topics.coverage) }
        // A broker may end the connection at a message that is too large for it: the state goes before.
        let isCoverageNew = !state.coverage.isEmpty && known[topics.coverage] != state.coverage
        return wanted.filter { known[$0.topic] != $0.payload }.map(Self.retained)
            + Self.removals(Set(known.keys).subtracting(kept))
            + [Self.retained((topics.health, state.report))]
            + (isCoverageNew ? [Self.retained((topics.coverage, state.coverage))] : [])
    }

    /// The broker answered these messages with these codes; nil where it did not.
    mutating func note(_ messages: [MQTTMessage], _ codes: [Int?]) {
        for (message, code) in zip(messages, codes) {
            guard let code, MQTTReason(.puback, code).meaning == .stored else { continue }
            known[message.topic] = message.payload.isEmpty ? nil : message.payload
        }
    }

    /// The messages that take away what the broker retains at these topics. Descriptions go first: what Home Assistant
    /// still knows it would read from a message that is empty.
    static func removals(_ topics: Set<String>) -> [MQTTMessage] {
        let (descriptions, rest) = (
            topics.filter(MQTTTopics.isDiscovery), topics.filter { !MQTTTopics.isDiscovery($0) }
        )
        return (descriptions.sorted() + rest.sorted()).map { retained(($0, [])) }
    }

    private static func retained(_ message: (topic: String, payload: [UInt8])) -> MQTTMessage {
        MQTTMessage(topic: message.topic, payload: message.payload, isRetained: true)
    }

    // MARK: - Home Assistant

    /// The gateway as a device. What it shows is read from the report.
    private func description(_ state: GatewayState) -> [UInt8] {
        var json = JSONBytes()
        json.raw(#"{"device":{"identifiers":["#)
        json.string(topics.gatewayID)
        json.raw(#"],"name":"#)
        json.string(topics.gateway)
        json.raw(#","model":"EdgeGateway","sw_version":"#)
        json.string(state.version)
        json.raw(#"},"origin":{"name":"EdgeGateway"},"availability_topic":"#)
        json.string(topics.status)
        json.raw(#","state_topic":"#)
        json.string(topics.health)
        json.raw(#","components":{"#)
        json.raw(#""problem":{"platform":"binary_sensor","device_class":"problem","#)
        json.raw(#""value_template":"{{ 'OFF' if value_json.well else 'ON' }}","#)
        json.raw(#""json_attributes_topic":"#)
        json.string(topics.health)
        json.raw(#","json_attributes_template":"{{ {'items': value_json['items']} | tojson }}""#)
        component(&json, "problem")
        json.raw(#","severity":{"platform":"sensor","name":"Severity","device_class":"enum","#)
        json.raw(#""options":["none","warning","error"],"value_template":"#)
        json.raw(#""{% set all = value_json['items'] | map(attribute='severity') | list %}"#)
        json.raw(#"{{ 'error' if 'error' in all else 'warning' if all else 'none' }}""#)
        component(&json, "severity")
        json.raw(#","straps":{"platform":"sensor","name":"Straps connected","#)
        json.raw(#""value_template":"{{ value_json.sensors.streaming }}","#)
        json.raw(#""state_class":"measurement","icon":"mdi:heart-pulse""#)
        component(&json, "straps")
        json.raw(#","paired":{"platform":"sensor","name":"Straps paired","#)
        json.raw(#""value_template":"{{ value_json.sensors.paired }}","#)
        json.raw(#""state_class":"measurement","icon":"mdi:heart-multiple""#)
        component(&json, "paired")
        json.raw(#","backlog":{"platform":"sensor","name":"Samples waiting","#)
        json.raw(#""value_template":"{{ value_json.backlog | sum(attribute='samples') }}","#)
        json.raw(#""state_class":"measurement","icon":"mdi:tray-full""#)
        component(&json, "backlog")
        json.raw("}}")
        return json.bytes
    }

    /// Ends a component of the gateway's device.
    private func component(_ json: inout JSONBytes, _ name: String) {
        json.raw(#","unique_id":"#)
        json.string("\(topics.gatewayID)_\(name)")
        json.raw(#","expire_after":"#)
        json.integer(Self.freshSeconds)
        json.raw("}")
    }

    /// A strap as a device of its own, the same as that of its heart rate. Its name stands in no template: a
    /// template is a program.
    private func description(_ strap: GatewayState.Strap) -> [UInt8] {
        let id = topics.uniqueID(strap.id)
        var json = JSONBytes()
        json.raw(#"{"device":{"identifiers":["#)
        json.string(id)
        json.raw(#"],"name":"#)
        json.string("\(topics.gateway) \(strap.name)")
        json.raw(#","via_device":"#)
        json.string(topics.gatewayID)
        json.raw(#"},"origin":{"name":"EdgeGateway"},"availability_topic":"#)
        json.string(topics.status)
        json.raw(#","components":{"link":{"platform":"binary_sensor","name":"Connection","#)
        json.raw(#""device_class":"connectivity","payload_on":"streaming","#)
        json.raw(#""payload_off":"silent","state_topic":"#)
        json.string(topics.link(strap.id))
        json.raw(#","unique_id":"#)
        json.string("\(id)_link")
        json.raw("}}}")
        return json.bytes
    }
}

extension MQTTTopics {
    /// How the gateway is, as JSON, retained.
    var health: String { "\(root)/health" }
    /// How much of the last days there is data for, as JSON, retained.
    var coverage: String { "\(root)/coverage" }
    /// Where the broker retains something of a sensor. `showsState`: also what does not go out with its samples.
    func retained(of sensor: Int64, describes: Bool, showsState: Bool) -> [String] {
        [latest(sensor)] + (describes ? [discovery(sensor)] : [])
            + (showsState ? [link(sensor)] : [])
            + (showsState && describes ? [strapDiscovery(sensor)] : [])
    }
    /// `streaming` or `silent`, retained.
    func link(_ sensor: Int64) -> String { "\(root)/sensor/\(sensor)/link" }
    /// The gateway's name among Home Assistant's devices.
    fileprivate var gatewayID: String { "edge-gateway_\(gateway)_gateway" }
    /// Where Home Assistant looks for the gateway's description.
    var gatewayDiscovery: String { "homeassistant/device/\(gatewayID)/config" }
    /// Where it looks for that of a strap's link.
    func strapDiscovery(_ sensor: Int64) -> String {
        "homeassistant/device/\(uniqueID(sensor))/config"
    }
}
