/// Reasons that make a well-formed measurement hard to believe.
///
/// The first three are judged of one measurement alone, ``judge(_:)``; the next two take what came
/// before it, ``PlausibilityJudge``; the last three come from ``FrameIntake``. A flagged sample is stored like any
/// other. Whether it is delivered is the delivery's choice.
public struct Plausibility: OptionSet, Hashable, Sendable {
    public let rawValue: UInt16

    public init(rawValue: UInt16) { self.rawValue = rawValue }

    // The values are stored beside samples: new ones are added at the end, none is ever reused.

    /// The sensor says that it does not touch skin, so its rate is of nothing.
    public static let contactLost = Plausibility(rawValue: 1 << 0)
    /// The rate is 0: how straps say that they found no pulse.
    public static let zeroRate = Plausibility(rawValue: 1 << 1)
    /// The rate is not 0 and lies outside ``plausibleBPM``.
    public static let outOfRange = Plausibility(rawValue: 1 << 2)
    /// The RR intervals have been the same for longer than those of a heart stay: the sensor repeats
    /// itself. See ``PlausibilityJudge/sameFramesMax``.
    public static let frozenRR = Plausibility(rawValue: 1 << 3)
    /// The rate is further from the one before it than a heart gets in that time. See
    /// ``PlausibilityJudge/changePerSecondMax``.
    public static let impossibleJump = Plausibility(rawValue: 1 << 4)
    /// The time at which the frame was sent is not that of its arrival, but rebuilt: see ``FrameIntake``.
    public static let estimatedTime = Plausibility(rawValue: 1 << 5)
    /// The time may be off by more than ``TimedFrame/uncertaintyMicrosecondsMax``.
    public static let uncertainTime = Plausibility(rawValue: 1 << 6)
    /// The frame may be a copy of the one before it, or stand for two like it: see ``FrameIntake``.
    public static let possibleCopy = Plausibility(rawValue: 1 << 7)

    /// Those of a rate that is none: a person's heart has no such rate.
    public static let withoutRate: Plausibility = [.zeroRate, .outOfRange]

    /// The flags of a measurement without a usable heart rate; with `needsContact`, also of one without skin contact.
    public static func withoutRate(needsContact: Bool) -> Plausibility {
        needsContact ? withoutRate.union(.contactLost) : withoutRate
    }

    /// Every flag there is.
    public static let all: Plausibility = [
        .contactLost, .zeroRate, .outOfRange, .frozenRR, .impossibleJump, .estimatedTime,
        .uncertainTime, .possibleCopy,
    ]

    /// Rates in beats per minute that are believed of a person. Below 30 not even a trained athlete
    /// sleeps; 240 leaves room above the highest rate predicted by age (220).
    public static let plausibleBPM: ClosedRange<UInt16> = 30...240

    /// The flags of `measurement` by itself; empty when it is plausible.
    public static func judge(_ measurement: HeartRateMeasurement) -> Plausibility {
        var findings: Plausibility = []
        if measurement.contact == .notDetected { findings.insert(.contactLost) }
        if measurement.bpm == 0 {
            findings.insert(.zeroRate)
        } else if !plausibleBPM.contains(measurement.bpm) {
            findings.insert(.outOfRange)
        }
        return findings
    }

    /// The names of the members, in the order above. The spelling is part of the JSON contract.
    public var names: [String] {
        var names: [String] = []
        for (bit, name) in Self.allNames.enumerated() where rawValue & 1 << bit != 0 {
            names.append(name)
        }
        return names
    }

    /// The name of each bit, from the lowest on.
    private static var allNames: [String] {
        [
            "contactLost", "zeroRate", "outOfRange", "frozenRR", "impossibleJump", "estimatedTime",
            "uncertainTime", "possibleCopy",
        ]
    }

    /// The flag of this name, nil when there is none.
    public init?(name: String) {
        // Octets, since comparing strings takes Unicode tables that an embedded program lacks.
        let bit = Self.allNames.firstIndex { $0.utf8.elementsEqual(name.utf8) }
        guard let bit else { return nil }
        self.init(rawValue: 1 << UInt16(bit))
    }
}
