import GATTHeartRate
import Testing

/// A frame whose meaning was worked out by hand from HRS v1.0 §3.1.
struct GoldenFrame: Sendable, CustomTestStringConvertible {
    let frame: [UInt8]
    let bpm: UInt16
    let contact: SensorContact
    let energy: UInt16?
    let intervals: RRIntervals

    init(
        _ hex: String, bpm: UInt16, contact: SensorContact = .notSupported, energy: UInt16? = nil,
        intervals: RRIntervals = []
    ) {
        frame = octets(hex)
        self.bpm = bpm
        self.contact = contact
        self.energy = energy
        self.intervals = intervals
    }

    var testDescription: String { hex(frame) }

    /// Frames without anomalies: every policy gives the same.
    static let wellFormed: [GoldenFrame] = [
        GoldenFrame("00 48", bpm: 72),
        GoldenFrame("00 00", bpm: 0),
        GoldenFrame("00 ff", bpm: 255),
        GoldenFrame("01 4800", bpm: 72),
        GoldenFrame("01 0001", bpm: 256),
        GoldenFrame("01 ffff", bpm: 65535),
        // Bit 1 without bit 2 says nothing.
        GoldenFrame("02 48", bpm: 72, contact: .notSupported),
        GoldenFrame("04 48", bpm: 72, contact: .notDetected),
        GoldenFrame("06 48", bpm: 72, contact: .detected),
        GoldenFrame("07 4800", bpm: 72, contact: .detected),
        GoldenFrame("08 48 0000", bpm: 72, energy: 0),
        GoldenFrame("08 48 3412", bpm: 72, energy: 0x1234),
        GoldenFrame("09 4800 ffff", bpm: 72, energy: 65535),
        GoldenFrame("10 3e b103", bpm: 62, intervals: [945]),
        GoldenFrame("10 48 0000", bpm: 72, intervals: [0]),
        GoldenFrame("11 4800 0004", bpm: 72, intervals: [1024]),
        GoldenFrame("16 4e 2403 1003", bpm: 78, contact: .detected, intervals: [804, 784]),
        GoldenFrame("18 48 0200 5503", bpm: 72, energy: 2, intervals: [853]),
        GoldenFrame("19 4800 0200 5503 ffff", bpm: 72, energy: 2, intervals: [853, 65535]),
        GoldenFrame(
            "1e 48 0200 5503 5603", bpm: 72, contact: .detected, energy: 2, intervals: [853, 854]),
        GoldenFrame(
            "1d 4800 0200 5503", bpm: 72, contact: .notDetected, energy: 2, intervals: [853]),
        // The most that fits in 20 octets: nine intervals, eight beside an energy.
        GoldenFrame(
            "10 b4 5101 5201 5301 5401 5501 5601 5701 5801 5901", bpm: 180,
            intervals: [337, 338, 339, 340, 341, 342, 343, 344, 345]),
        GoldenFrame(
            "18 b4 0100 5101 5201 5301 5401 5501 5601 5701 5801", bpm: 180, energy: 1,
            intervals: [337, 338, 339, 340, 341, 342, 343, 344]),
        // Longer frames come with a larger ATT_MTU.
        GoldenFrame(
            "10 b4 0100 0200 0300 0400 0500 0600 0700 0800 0900 0a00 0b00", bpm: 180,
            intervals: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]),
    ]
}

/// A frame with something odd about it, and what each policy makes of it.
struct DisputedFrame: Sendable, CustomTestStringConvertible {
    let frame: [UInt8]
    let anomalies: FrameAnomalies
    let intervals: RRIntervals
    let strict: FrameFault?
    let clinical: FrameFault?

    init(
        _ hex: String, _ anomalies: FrameAnomalies, intervals: RRIntervals = [],
        strict: FrameFault? = nil, clinical: FrameFault? = nil
    ) {
        frame = octets(hex)
        self.anomalies = anomalies
        self.intervals = intervals
        self.strict = strict
        self.clinical = clinical
    }

    var testDescription: String { hex(frame) }

    /// All of them have 62 bpm, and lenient accepts them all.
    static let all: [DisputedFrame] = [
        // Published by a sensor in the field.
        DisputedFrame(
            "10 3e b103 de", .oddTail, intervals: [945], strict: .refused(.oddTail)),
        DisputedFrame("10 3e de", .oddTail, strict: .refused(.oddTail)),
        DisputedFrame("11 3e00 de", .oddTail, strict: .refused(.oddTail)),
        DisputedFrame("18 3e 0100 de", .oddTail, strict: .refused(.oddTail)),
        DisputedFrame("10 3e", .rrMissing, strict: .refused(.rrMissing)),
        DisputedFrame("18 3e 0100", .rrMissing, strict: .refused(.rrMissing)),
        DisputedFrame(
            "08 3e", .energyTruncated, strict: .energyTruncated, clinical: .energyTruncated),
        DisputedFrame(
            "08 3e 01", .energyTruncated, strict: .energyTruncated, clinical: .energyTruncated),
        DisputedFrame(
            "18 3e 01", [.energyTruncated, .rrMissing], strict: .energyTruncated,
            clinical: .energyTruncated),
        DisputedFrame("20 3e", .rfu),
        DisputedFrame("40 3e", .rfu),
        DisputedFrame("80 3e", .rfu),
        DisputedFrame("f0 3e b103", .rfu, intervals: [945]),
        DisputedFrame(
            "30 3e b103 de", [.rfu, .oddTail], intervals: [945], strict: .refused(.oddTail)),
        DisputedFrame("00 3e de", .trailing),
        DisputedFrame("00 3e b103", .trailing),
        DisputedFrame("08 3e 0100 ff", .trailing),
        DisputedFrame("20 3e 0100", [.rfu, .trailing]),
    ]
}
