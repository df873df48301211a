import Basics
import OfflineQueue

/// One message to a broker.
struct MQTTMessage: Hashable, Sendable {
    var topic: String
    var payload: [UInt8]
    /// Whether the broker keeps the message for later subscribers.
    var isRetained = false
}

/// How samples go out.
enum MQTTFormat: String, Sendable, CaseIterable {
    /// A message a sample: a JSON object.
    case json
    /// A message a batch: a JSON array of the same objects.
    case array
    /// A message a batch, as ThingsBoard's gateway interface takes it.
    case thingsboard
}

/// The topics of one gateway.
struct MQTTTopics: Hashable, Sendable {
    /// The part before the gateway's name.
    var prefix: String
    /// The gateway's name.
    var gateway: String

    /// Everything of the gateway is below it.
    var root: String { "\(prefix)/\(gateway)" }
    /// `online` or `offline`, retained.
    var status: String { "\(root)/status" }
    /// Arrays of samples.
    var samples: String { "\(root)/samples" }
    /// The message that is sent to try whether messages are taken.
    var probe: String { "\(root)/probe" }
    /// The newest heart rate of a sensor, retained.
    func latest(_ sensor: Int64) -> String { "\(root)/sensor/\(sensor)/latest" }
    func sample(_ sensor: Int64, isInterval: Bool) -> String {
        "\(root)/sensor/\(sensor)/\(isInterval ? "rr-interval" : "heart-rate")"
    }
    /// Where Home Assistant looks for a sensor's description.
    func discovery(_ sensor: Int64) -> String {
        "homeassistant/sensor/\(uniqueID(sensor))/config"
    }
    /// Whether it looks for a description there.
    static func isDiscovery(_ topic: String) -> Bool { topic.hasPrefix("homeassistant/") }
    /// A sensor's name that no other gateway's has.
    func uniqueID(_ sensor: Int64) -> String { "edge-gateway_\(gateway)_\(sensor)" }

    /// ThingsBoard's gateway interface: the samples of devices.
    static let thingsboard = "v1/gateway/telemetry"
    /// The same: that a device is gone. ThingsBoard acknowledges it of a device that it does not know, and
    /// of a client that is a gateway there.
    static let thingsboardDisconnect = "v1/gateway/disconnect"
}

/// Makes messages of data points.
///
/// Beside the samples themselves there are retained messages of the gateway's state: whether it is
/// online, each strap's newest heart rate and, for Home Assistant, each strap's description.
struct MQTTWriter: Sendable {
    let topics: MQTTTopics
    let format: MQTTFormat
    let describesSensors: Bool
    /// The name of a data point's patient; nil: none.
    let patient: @Sendable (OutgoingPoint) -> String?

    /// A measurement later than this is newer than all that an earlier run of the gateway can have
    /// left at the broker; nil while the clock cannot tell.
    private var start: UTC?
    /// The newest heart rates that went out, by topic: when they were measured, and whether the broker took them.
    private var newest: [String: (time: UTC, isTaken: Bool)] = [:]
    /// The descriptions that the broker has taken over this connection, by topic.
    private var described: [String: [UInt8]] = [:]
    /// The names that people gave to the straps that are paired; nil as long as the gateway's state did not say so.
    /// Of who is not among them nothing is retained any more: samples of a strap that was forgotten may still wait.
    var names: [Int64: String]?

    /// A gateway has a handful of straps; beyond this what is known of them is forgotten.
    static let sensorsMax = 64
    /// Of each strap two, and the gateway's.
    private static let descriptionsMax = 2 * sensorsMax + 1
    /// Seconds after which a heart rate is no longer shown as the present one: four deliveries at the
    /// usual pace.
    static let freshSeconds = 120

    init(
        topics: MQTTTopics, format: MQTTFormat, describesSensors: Bool,
        patient: @escaping @Sendable (OutgoingPoint) -> String?
    ) {
        self.topics = topics
        self.format = format
        self.describesSensors = describesSensors
        self.patient = patient
    }

    var keepsState: Bool { format != .thingsboard }

    /// The message that the broker publishes when the gateway is gone.
    var will: MQTTMessage? {
        keepsState
            ? MQTTMessage(topic: topics.status, payload: Array("offline".utf8), isRetained: true)
            : nil
    }

    /// Messages that the broker takes only if it would take the others, and that leave nothing behind: an
    /// empty retained message takes away what was retained, and nothing is.
    var probes: [MQTTMessage] {
        if format == .thingsboard {
            var json = JSONBytes()
            json.raw(#"{"device":"#)
            json.string("\(topics.gateway) probe")
            json.raw("}")
            return [MQTTMessage(topic: MQTTTopics.thingsboardDisconnect, payload: json.bytes)]
        }
        let described = describesSensors ? [topics.discovery(0)] : []
        return ([topics.probe] + described).map {
            MQTTMessage(topic: $0, payload: [], isRetained: true)
        }
    }

    /// The first messages of a connection. The broker may have lost what it retained.
    mutating func greeting() -> [MQTTMessage] {
        described = [:]
        guard keepsState else { return [] }
        return [MQTTMessage(topic: topics.status, payload: Array("online".utf8), isRetained: true)]
    }

    /// The broker answered these messages with these codes; nil where it did not.
    mutating func note(_ messages: [MQTTMessage], _ codes: [Int?]) {
        for (message, code) in zip(messages, codes) where message.isRetained {
            guard let code, MQTTReason(.puback, code).meaning == .stored else { continue }
            newest[message.topic]?.isTaken = true
            guard MQTTTopics.isDiscovery(message.topic) else { continue }
            if described.count >= Self.descriptionsMax { described = [:] }
            described[message.topic] = message.payload.isEmpty ? nil : message.payload
        }
    }

    private func isPaired(_ sensor: Int64) -> Bool { names.map { $0[sensor] != nil } ?? true }

    /// Takes the time as that of the gateway's start, if the clock is right and no time was taken before.
    mutating func begin(_ now: ClockReading) {
        if now.isTrusted, start == nil { start = now.wall }
    }

    /// The messages that deliver `points`.
    mutating func messages(_ points: [OutgoingPoint], _ now: ClockReading) -> [MQTTMessage] {
        begin(now)
        var messages: [MQTTMessage] = []
        if describesSensors { messages += descriptions(points) }
        switch format {
        case .json:
            for point in points {
                var json = JSONBytes()
                json.sample(point, patient: patient(point))
                let topic = topics.sample(point.sensorID, isInterval: point.point.isInterval)
                messages.append(MQTTMessage(topic: topic, payload: json.bytes))
            }
        case .array:
            var json = JSONBytes()
            json.reserve(points.count * 160)
            json.array(points) { $1.sample($0, patient: patient($0)) }
            messages.append(MQTTMessage(topic: topics.samples, payload: json.bytes))
        case .thingsboard: messages += telemetry(points)
        }
        if keepsState, now.isTrusted { messages += latest(points, now.wall) }
        return messages
    }

    /// The newest heart rate of each strap, where it is of now and newer than all that went out before.
    private mutating func latest(_ points: [OutgoingPoint], _ now: UTC) -> [MQTTMessage] {
        let oldest = max(start ?? now, now - .seconds(Self.freshSeconds))
        var best: [Int64: (time: UTC, point: OutgoingPoint)] = [:]
        for point in points where isPaired(point.sensorID) {
            guard let time = point.point.heartRateTime, time > oldest else { continue }
            if let known = best[point.sensorID], known.time >= time { continue }
            best[point.sensorID] = (time, point)
        }
        let due = best.sorted { $0.key < $1.key }.compactMap { sensor, found in
            let topic = topics.latest(sensor)
            let before = newest[topic]
            // What the broker did not take goes out again with its sample.
            let isNew = before.map { $0.time < found.time || $0.time == found.time && !$0.isTaken }
            return isNew ?? true ? (topic, found) : nil
        }
        if newest.count >= Self.sensorsMax {
            start = newest.values.map(\.time).reduce(oldest, max)
            newest = [:]
        }
        return due.map { topic, found in
            newest[topic] = (found.time, false)
            var json = JSONBytes()
            json.sample(found.point, patient: patient(found.point))
            return MQTTMessage(topic: topic, payload: json.bytes, isRetained: true)
        }
    }

    // MARK: - Home Assistant

    private func descriptions(_ points: [OutgoingPoint]) -> [MQTTMessage] {
        var told: Set<Int64> = []
        return points.compactMap { point in
            guard isPaired(point.sensorID), told.insert(point.sensorID).inserted else { return nil }
            let message = description(of: point)
            return described[message.topic] == message.payload ? nil : message
        }
    }

    private func description(of point: OutgoingPoint) -> MQTTMessage {
        let id = topics.uniqueID(point.sensorID)
        var json = JSONBytes()
        json.raw(#"{"name":"Heart rate","unique_id":"#)
        json.string(id)
        json.raw(#","state_topic":"#)
        json.string(topics.latest(point.sensorID))
        // Home Assistant counts `expire_after` from when it gets a message: a retained one would be shown
        // as the present heart rate after each of its restarts.
        json.raw(#","value_template":"{{ value_json.bpm if as_timestamp(now()) "#)
        json.raw("- as_timestamp(value_json.until | default(value_json.time)) < ")
        json.integer(Self.freshSeconds)
        json.raw(#" else None }}","expire_after":"#)
        json.integer(Self.freshSeconds)
        json.raw(#","availability_topic":"#)
        json.string(topics.status)
        json.raw(#","unit_of_measurement":"bpm","state_class":"measurement","#)
        json.raw(#""icon":"mdi:heart-pulse","device":{"identifiers":["#)
        json.string(id)
        json.raw(#"],"name":"#)
        json.string(
            "\(topics.gateway) \(names?[point.sensorID] ?? "strap \(point.sensorID)")")
        json.details(of: point.strap, firmware: #","sw_version":"#)
        json.raw(#"},"origin":{"name":"EdgeGateway"}}"#)
        return MQTTMessage(
            topic: topics.discovery(point.sensorID), payload: json.bytes, isRetained: true)
    }

    // MARK: - ThingsBoard

    /// `{"ward strap 1":[{"ts":1763798400123,"values":{"heart_rate":72}}]}`, a message a strap:
    /// ThingsBoard acknowledges a message as soon as it has the first device's part of it.
    private func telemetry(_ points: [OutgoingPoint]) -> [MQTTMessage] {
        let bySensor = Dictionary(grouping: points, by: \.sensorID).sorted { $0.key < $1.key }
        return bySensor.map { sensor, points in
            var json = JSONBytes()
            json.raw("{")
            json.string("\(topics.gateway) strap \(sensor)")
            json.raw(":")
            json.array(points) { $1.telemetry($0, patient: patient($0)) }
            json.raw("}")
            return MQTTMessage(topic: MQTTTopics.thingsboard, payload: json.bytes)
        }
    }
}

extension DataPoint {
    /// When a heart rate was measured; nil of an RR interval.
    fileprivate var heartRateTime: UTC? {
        switch content {
        case .heartRate(_, let time): time
        case .averageHeartRate(_, _, let window): window.upperBound
        case .interval: nil
        }
    }
}

extension JSONBytes {
    /// Appends a data point as one flat object:
    ///
    ///     {"id":"…","sensor":3,"time":"2025-11-22T08:00:00.123456Z","bpm":72}
    fileprivate mutating func sample(_ point: OutgoingPoint, patient: String?) {
        raw(#"{"id":""#)
        digest(of: point.point.uuid)
        raw(#"","sensor":"#)
        integer(Int(point.sensorID))
        if let patient {
            raw(#","patient":"#)
            string(patient)
        }
        raw(#","time":""#)
        switch point.point.content {
        case .heartRate(let bpm, let time):
            Timestamp(time).writeMicroseconds(to: &self)
            raw(#"","bpm":"#)
            integer(bpm)
        case .averageHeartRate(let tenths, let count, let window):
            Timestamp(window.lowerBound).writeMicroseconds(to: &self)
            raw(#"","until":""#)
            Timestamp(window.upperBound).writeMicroseconds(to: &self)
            raw(#"","bpm":"#)
            decimal(tenths, places: 1)
            raw(#","count":"#)
            integer(count)
        case .interval(let ticks, let end):
            Timestamp(DataPoint.start(of: ticks, end: end)).writeMicroseconds(to: &self)
            raw(#"","until":""#)
            Timestamp(end).writeMicroseconds(to: &self)
            raw(#"","rr_ms":"#)
            decimal(Int(ticks) * 9_765_625, places: 7)
        }
        raw("}")
    }

    /// Appends a data point as ThingsBoard knows it: by device, key and millisecond.
    fileprivate mutating func telemetry(_ point: OutgoingPoint, patient: String?) {
        raw(#"{"ts":"#)
        integer(Int(point.point.ownMillisecond))
        switch point.point.content {
        case .heartRate(let bpm, _):
            raw(#","values":{"heart_rate":"#)
            integer(bpm)
        case .averageHeartRate(let tenths, _, _):
            raw(#","values":{"heart_rate":"#)
            decimal(tenths, places: 1)
        case .interval(let ticks, _):
            raw(#","values":{"rr_interval":"#)
            decimal(Int(ticks) * 9_765_625, places: 7)
        }
        if let patient {
            raw(#","patient":"#)
            string(patient)
        }
        raw("}}")
    }
}
