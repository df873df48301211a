import Foundation

/// The topic of each gateway that is read at a broker, beside the one that says if it is online.
public enum BrokerTopic: String, Sendable {
    /// How it is.
    case health
    /// How much of the last days there is data for.
    case coverage
}

/// The states of the gateways below one prefix at a broker. Without I/O. Any client that may publish there may have
/// written them: they are bounded in every direction.
public struct BrokerStates: Sendable {
    /// One gateway.
    public struct Gateway: Sendable, Hashable {
        /// Whether its connection stands; nil if the broker does not say.
        public var isOnline: Bool?
        /// Its last message at the topic of ``BrokerTopic``, if one came.
        public var report: [UInt8]?
        /// Whether what it holds is larger than any report.
        public var isTooLarge = false
        /// When the last message came that the broker had not retained from before, the last will aside.
        public var heard: Date?
    }

    /// By the name in the topic.
    public private(set) var gateways: [String: Gateway] = [:]
    /// Whether there are more gateways than are kept.
    public private(set) var isFull = false

    /// The beginning of the topics.
    public let prefix: String
    private let topic: BrokerTopic
    private var bytes = 0

    /// One screen has no use for more.
    public static let gatewaysMax = 2_000
    /// The longest report that is read, and that a gateway publishes: it has some kilobytes; of a ward with 200 straps
    /// in trouble, 100.
    public static let reportBytesMax = 256 << 10
    /// All reports together: 2,000 of 32 KiB.
    static let bytesMax = 64 << 20
    /// The longest name of a gateway in a topic, in bytes: settings have at most 63.
    static let nameBytesMax = 64

    init(prefix: String, reads topic: BrokerTopic = .health) {
        self.prefix = prefix
        self.topic = topic
    }

    /// Takes a message that came at `now`. Returns whether a person would see something new.
    mutating func note(_ message: MQTTMessage, at now: Date) -> Bool {
        let root = prefix + "/"
        guard message.topic.hasPrefix(root) else { return false }
        let parts = message.topic.dropFirst(root.count)
            .split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 2, 1...Self.nameBytesMax ~= parts[0].utf8.count,
            ["status", topic.rawValue].contains(String(parts[1]))
        else { return false }
        let name = String(parts[0])
        guard gateways[name] != nil || gateways.count < Self.gatewaysMax else {
            isFull = true
            return false
        }
        let before = gateways[name]
        var gateway = before ?? Gateway()
        let isWill = parts[1] == "status" && message.payload != Array("online".utf8)
        if !message.isRetained, !isWill { gateway.heard = now }
        if parts[1] == "status" {
            gateway.isOnline = message.payload.isEmpty ? nil : !isWill
        } else {
            bytes -= gateway.report?.count ?? 0
            gateway.report = nil
            gateway.isTooLarge =
                message.payload.count > Self.reportBytesMax
                || bytes + message.payload.count > Self.bytesMax
            if !message.payload.isEmpty, !gateway.isTooLarge {
                gateway.report = message.payload
                bytes += message.payload.count
            }
        }
        let isThere = gateway.isOnline != nil || gateway.report != nil || gateway.isTooLarge
        gateways[name] = isThere ? gateway : nil
        return gateway.isOnline != before?.isOnline || gateway.report != before?.report
    }
}
