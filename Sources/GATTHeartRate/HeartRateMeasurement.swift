/// Whether the sensor says that it touches skin (flags bits 1 and 2, HRS v1.0 §3.1.1.1).
public enum SensorContact: UInt8, Hashable, Sendable {
    /// The sensor does not tell. Bit 1 means nothing then, whatever it is.
    case notSupported
    /// The sensor can tell, and has no or poor contact.
    case notDetected
    /// The sensor has contact.
    case detected

    /// True or false where the sensor can tell, nil where it cannot.
    public var detected: Bool? {
        switch self {
        case .notSupported: return nil
        case .notDetected: return false
        case .detected: return true
        }
    }
}

/// One Heart Rate Measurement (0x2A37, HRS v1.0 §3.1): a decoded frame.
///
/// Decoding is total: any sequence of octets of any length gives a measurement or a ``FrameFault``,
/// never a trap, and allocates nothing for frames of up to nine RR intervals.
public struct HeartRateMeasurement: Hashable, Sendable {
    /// Heart rate in beats per minute, 0…65535. Not judged; see ``Plausibility``.
    public let bpm: UInt16
    /// The sensor's statement about its contact with the skin.
    public let contact: SensorContact
    /// Energy expended since the last reset in kJ, nil when the frame has none. Stays at 65535 once
    /// there (HRS v1.0 §3.1.1.3).
    public let energyKilojoules: UInt16?
    /// RR intervals in ticks of 1/1024 s, oldest first.
    public let rrIntervals: RRIntervals
    /// Oddities of the frame that were accepted.
    public let anomalies: FrameAnomalies

    // Always inlined, since otherwise the compiler splits the function in two, and callers in other
    // modules pay for a second copy of the result.

    /// Decodes the octets of one notification.
    ///
    /// The length is not bounded here: with an ATT_MTU above 23, frames of more than 20 octets are
    /// lawful.
    @inline(__always)
    public init(frame: Span<UInt8>, policy: DecodePolicy = .clinical) throws(FrameFault) {
        guard frame.count > 0 else { throw .empty }
        let flags = FrameFlags(rawValue: frame[0])
        var anomalies: FrameAnomalies = flags.isDisjoint(with: .reserved) ? [] : .rfu
        // The first octet not read yet; never more than frame.count.
        var next = 1

        let bpm: UInt16
        if flags.contains(.wideRate) {
            guard frame.count - next >= 2 else { throw .heartRateTruncated }
            bpm = littleEndian16(frame, at: next)
            next += 2
        } else {
            guard frame.count - next >= 1 else { throw .heartRateTruncated }
            bpm = UInt16(frame[next])
            next += 1
        }

        var energy: UInt16?
        if flags.contains(.energy) {
            if frame.count - next >= 2 {
                energy = littleEndian16(frame, at: next)
                next += 2
            } else {
                guard !policy.refused.contains(.energyTruncated) else { throw .energyTruncated }
                anomalies.insert(.energyTruncated)
                // Half an energy is not the first half of an interval either.
                next = frame.count
            }
        }

        let left = frame.count - next
        if flags.contains(.rrIntervals) {
            if left == 0 { anomalies.insert(.rrMissing) }
            if left % 2 != 0 { anomalies.insert(.oddTail) }
        } else if left > 0 {
            anomalies.insert(.trailing)
        }
        let refused = anomalies.intersection(policy.refused)
        guard refused.isEmpty else { throw .refused(refused) }

        // Nothing throws from here on, so no half-made value has to be taken down again.
        self.bpm = bpm
        contact = flags.contact
        energyKilojoules = energy
        rrIntervals = RRIntervals(
            littleEndian: frame, from: flags.contains(.rrIntervals) ? next : frame.count)
        self.anomalies = anomalies
    }

    /// Decodes the octets of one notification, given as an array.
    public init(
        frame: borrowing [UInt8], policy: DecodePolicy = .clinical
    ) throws(FrameFault) {
        try self.init(frame: frame.span, policy: policy)
    }
}

/// The first octet of a frame (HRS v1.0 §3.1.1.1).
private struct FrameFlags: OptionSet {
    let rawValue: UInt8

    /// The rate is two octets wide instead of one.
    static let wideRate = FrameFlags(rawValue: 1 << 0)
    static let contactDetected = FrameFlags(rawValue: 1 << 1)
    static let contactSupported = FrameFlags(rawValue: 1 << 2)
    static let energy = FrameFlags(rawValue: 1 << 3)
    static let rrIntervals = FrameFlags(rawValue: 1 << 4)
    static let reserved = FrameFlags(rawValue: 0b1110_0000)

    var contact: SensorContact {
        if !contains(.contactSupported) { return .notSupported }
        return contains(.contactDetected) ? .detected : .notDetected
    }
}

/// The two octets at `offset` as one number. The caller has checked that both are there.
func littleEndian16(_ octets: Span<UInt8>, at offset: Int) -> UInt16 {
    UInt16(octets[offset]) | UInt16(octets[offset &+ 1]) << 8
}
