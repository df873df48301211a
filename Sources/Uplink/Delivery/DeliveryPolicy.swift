import GATTHeartRate
import OfflineQueue

/// Decides what of a stored sample goes out.
public struct DeliveryPolicy: Sendable, Hashable {
    /// Samples with one of these are not delivered; they count as dropped, under its name.
    public var withheld: Plausibility

    /// The default: the sensor itself says that it measured nothing (no skin contact, a rate of 0),
    /// no heart beats like that, or its time is unknown.
    ///
    /// A sample that only seems odd beside other measurements goes out: a pacemaker's intervals freeze, and a
    /// tachycardia jumps, and just these must not be missing. What is dropped is never sent.
    public static let withheldByDefault: Plausibility = [
        .contactLost, .zeroRate, .outOfRange, .uncertainTime,
    ]

    /// Reasons for which a sample is not delivered; counted under these names.
    static let undecodable = "undecodable"

    /// Withholds samples that carry one of these flags.
    public init(withheld: Plausibility = Self.withheldByDefault) { self.withheld = withheld }

    /// An unknown flag name.
    public struct UnknownFlag: Error, Hashable, Sendable {
        /// The word.
        public var name: String
    }

    /// A policy from a list of flags to withhold, separated by commas or blanks, as in the
    /// configuration: `contactLost, zeroRate`. An empty list, or `none`, withholds nothing.
    public init(withholding list: String) throws(UnknownFlag) {
        var withheld: Plausibility = []
        let words = list.split { $0 == "," || $0.isWhitespace }
        for word in words where words != ["none"] {
            guard let flag = Plausibility(name: String(word)) else {
                throw UnknownFlag(name: String(word.prefix(64)))
            }
            withheld.insert(flag)
        }
        self.withheld = withheld
    }

    /// The measurement in a sample, or why it is withheld.
    ///
    /// The stretch before a sample was judged when it was stored, and is in its flags; what it tells
    /// by itself is judged again.
    func judge(_ sample: PendingSample) -> Result<HeartRateMeasurement, Withheld> {
        // A stored frame has passed the policy it was recorded under; lenient reads it the same.
        guard let measurement = try? HeartRateMeasurement(frame: sample.frame, policy: .lenient)
        else {
            return .failure(Withheld(reason: Self.undecodable))
        }
        let stored = Plausibility(rawValue: UInt16(truncatingIfNeeded: sample.flags))
        let found = stored.union(Plausibility.judge(measurement)).intersection(withheld)
        if let reason = found.names.first { return .failure(Withheld(reason: reason)) }
        return .success(measurement)
    }

    /// A sample that is not delivered, with the reason it is counted under.
    struct Withheld: Error {
        var reason: String
    }
}
