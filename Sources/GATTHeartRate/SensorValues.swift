/// Why the value of a one-octet characteristic could not be taken.
public enum ValueFault: Error, Hashable, Sendable {
    /// The value has this many octets instead of one.
    case length(Int)
    /// The octet is one that the specification reserves.
    case reserved(UInt8)
}

/// Where on the body the sensor says it is worn (0x2A38, HRS v1.0 §3.2).
public enum BodySensorLocation: UInt8, CaseIterable, Hashable, Sendable {
    case other = 0
    case chest = 1
    case wrist = 2
    case finger = 3
    case hand = 4
    case earLobe = 5
    case foot = 6

    /// Decodes a read of 0x2A38: one octet, 0…6. Any other length or octet is a fault.
    public init(value: Span<UInt8>) throws(ValueFault) {
        let octet = try onlyOctet(of: value)
        guard let location = BodySensorLocation(rawValue: octet) else { throw .reserved(octet) }
        self = location
    }

    /// Decodes a read of 0x2A38.
    public init(value: [UInt8]) throws(ValueFault) { try self.init(value: value.span) }

    /// The name in the spelling of configuration, CLI and JSON.
    public var name: String {
        switch self {
        case .other: return "other"
        case .chest: return "chest"
        case .wrist: return "wrist"
        case .finger: return "finger"
        case .hand: return "hand"
        case .earLobe: return "earLobe"
        case .foot: return "foot"
        }
    }
}

/// How full the sensor's battery is (0x2A19, BAS v1.0 §3.1).
public struct BatteryLevel: Hashable, Sendable {
    /// Charge in percent, 0…100.
    public let percent: UInt8

    /// Decodes a read or notification of 0x2A19: one octet, 0…100. Any other length or octet is a
    /// fault.
    public init(value: Span<UInt8>) throws(ValueFault) {
        let octet = try onlyOctet(of: value)
        guard octet <= 100 else { throw .reserved(octet) }
        percent = octet
    }

    /// Decodes a read or notification of 0x2A19.
    public init(value: [UInt8]) throws(ValueFault) { try self.init(value: value.span) }
}

/// The Heart Rate Control Point (0x2A39, HRS v1.0 §3.3): the one thing that a collector may ask of
/// a sensor.
public enum HeartRateControlPoint {
    /// The value to write to set the energy expended back to 0 kJ.
    public static let resetEnergyExpended: [UInt8] = [1]
}

private func onlyOctet(of value: Span<UInt8>) throws(ValueFault) -> UInt8 {
    guard value.count == 1 else { throw .length(value.count) }
    return value[0]
}
