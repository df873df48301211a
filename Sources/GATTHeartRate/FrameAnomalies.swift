/// Oddities of a frame that could be decoded all the same.
public struct FrameAnomalies: OptionSet, Hashable, Sendable {
    public let rawValue: UInt8

    public init(rawValue: UInt8) { self.rawValue = rawValue }

    /// The RR list ends in half an interval. The complete intervals are kept.
    public static let oddTail = FrameAnomalies(rawValue: 1 << 0)
    /// The flags announce RR intervals and not one octet of them follows.
    public static let rrMissing = FrameAnomalies(rawValue: 1 << 1)
    /// A flag reserved for future use (bits 5–7) is set. A receiver ignores these
    /// (HRS v1.0 §3.1.1.1).
    public static let rfu = FrameAnomalies(rawValue: 1 << 2)
    /// Octets are left over that no flag announces. They are ignored.
    public static let trailing = FrameAnomalies(rawValue: 1 << 3)
    /// The flags announce energy and fewer than two octets follow; the energy is unknown.
    public static let energyTruncated = FrameAnomalies(rawValue: 1 << 4)

    /// The names of the members, in the order above. The spelling is part of the JSON contract.
    public var names: [String] {
        let all = ["oddTail", "rrMissing", "rfu", "trailing", "energyTruncated"]
        var names: [String] = []
        for (bit, name) in all.enumerated() where rawValue & 1 << bit != 0 { names.append(name) }
        return names
    }
}

/// Which anomalies turn a frame into a fault.
///
/// The three policies are nested: what ``strict`` accepts, ``clinical`` accepts with the same
/// values, and so on to ``lenient``. All three accept reserved flags and trailing octets, since the
/// specification tells receivers to ignore what they do not know.
public struct DecodePolicy: Hashable, Sendable {
    /// A frame with one of these is refused.
    public let refused: FrameAnomalies

    /// A policy that refuses frames with any of `anomalies`.
    public init(refusing anomalies: FrameAnomalies) { refused = anomalies }

    /// Every announced field must be there and complete. For judging a sensor.
    public static let strict = DecodePolicy(refusing: [.oddTail, .rrMissing, .energyTruncated])
    /// The default. The rate and the complete RR intervals are kept where the RR list is damaged; a
    /// frame cut off within the energy is refused: it was damaged on its way, or its flags are
    /// wrong, and then the rate may be as well.
    public static let clinical = DecodePolicy(refusing: .energyTruncated)
    /// Every frame with a complete rate is kept. For looking at what a broken sensor sends.
    public static let lenient = DecodePolicy(refusing: [])
}

/// Why a frame is not a measurement.
public enum FrameFault: Error, Hashable, Sendable {
    /// No octets at all.
    case empty
    /// The frame ends before the heart rate does.
    case heartRateTruncated
    /// The frame ends before the announced energy does.
    case energyTruncated
    /// The frame has anomalies that the policy does not accept; these are they.
    case refused(FrameAnomalies)

    /// One word for logs, counters and JSON; a refusal lists its anomalies after it, with spaces.
    public var reason: String {
        switch self {
        case .empty: return "empty"
        case .heartRateTruncated: return "heartRateTruncated"
        case .energyTruncated: return "energyTruncated"
        case .refused(let anomalies):
            var reason = "refused"
            for name in anomalies.names { reason += " " + name }
            return reason
        }
    }
}
