import Basics
import GATTHeartRate

/// A strap's facts about itself in its Device Information Service, as far as it is known.
public struct StrapDatasheet: Sendable, Hashable {
    /// Who made it (0x2A29).
    public var manufacturer: String?
    /// Its model (0x2A24).
    public var model: String?
    /// Its firmware (0x2A26).
    public var firmware: String?
    /// The part that tells it from others of its model: the end of its address, as messages name it.
    public var alias: String?

    /// The known facts of a strap; none, by default.
    public init(
        manufacturer: String? = nil, model: String? = nil, firmware: String? = nil,
        alias: String? = nil
    ) {
        self.manufacturer = manufacturer
        self.model = model
        self.firmware = firmware
        self.alias = alias
    }

    /// The alias of the strap with this address: two of its six octets, which do not give the others away.
    public static func alias(ofAddress address: String) -> String {
        String(address.suffix(5)).replacing(":", with: "-")
    }
}

/// One Open mHealth data point to be.
public struct DataPoint: Sendable, Hashable {
    /// The content.
    public enum Content: Sendable, Hashable {
        /// A heart rate in beats per minute, measured at a time.
        case heartRate(bpm: Int, at: UTC)
        /// The average of `count` heart rates measured in a window, in tenths of a beat per minute.
        case averageHeartRate(tenths: Int, count: Int, window: Range<UTC>)
        /// The time between two beats, in ticks of 1/1024 s, and when the second of them was.
        case interval(ticks: UInt16, end: UTC)
    }

    /// The identity, a UUID. The same on every attempt to deliver it.
    public var uuid: String
    /// The content.
    public var content: Content
    /// How far its times may be wrong, where that is worth a word; nil elsewhere.
    public private(set) var timeUncertainty: Duration?

    /// The least uncertainty that is told: a heart rate is an average of some seconds itself.
    public static let timeUncertaintyToldMin = Duration.seconds(1)

    /// A data point with its identity.
    ///
    /// - Parameters:
    ///   - uuid: the same on every attempt to deliver it.
    ///   - content: what was measured.
    ///   - timeUncertainty: how far its times may be wrong, as far as that is known.
    public init(uuid: String, _ content: Content, timeUncertainty: Duration? = nil) {
        self.uuid = uuid
        self.content = content
        self.timeUncertainty = timeUncertainty.flatMap {
            $0 >= Self.timeUncertaintyToldMin ? $0 : nil
        }
    }

    /// Whether it is an RR interval, which has a code and a consent of its own.
    public var isInterval: Bool {
        if case .interval = content { true } else { false }
    }

    /// The low bits of the sample's number: the part of an identifier's last group before the kind.
    var number: Int { Int(uuid.suffix(12).dropLast(2), radix: 16) ?? 0 }

    /// Milliseconds since 1970, for systems that know a data point by sensor and millisecond alone. Straps send
    /// two frames in one, and what comes late makes another average of the same window. So the sample's number
    /// takes the place of the time's low three bits, in which neighbours differ, and says where in its window
    /// an average is: the same at every attempt.
    var ownMillisecond: Int64 {
        switch content {
        case .heartRate(_, let time), .interval(_, let time):
            let milliseconds = time.microseconds / 1000
            return milliseconds - milliseconds % 8 + Int64(number % 8)
        case .averageHeartRate(_, _, let window):
            let length = max((window.upperBound - window.lowerBound).microseconds / 1000, 1)
            return window.lowerBound.microseconds / 1000 + Int64(number) % length
        }
    }

    /// From when to when it was measured; one instant for a heart rate.
    var span: ClosedRange<UTC> {
        switch content {
        case .heartRate(_, let time): time...time
        case .averageHeartRate(_, _, let window): window.lowerBound...window.upperBound
        case .interval(let ticks, let end): Self.start(of: ticks, end: end)...end
        }
    }

    /// When an RR interval of so many ticks began.
    static func start(of ticks: UInt16, end: UTC) -> UTC {
        UTC(microseconds: end.microseconds - Int64(ticks) * 15_625 / 16)
    }

    /// The average of heart rates in tenths of a beat per minute, rounded half up; nil of none.
    static func averageTenths(_ rates: [Int]) -> Int? {
        rates.isEmpty ? nil : (rates.reduce(0, +) * 20 + rates.count) / (2 * rates.count)
    }
}
