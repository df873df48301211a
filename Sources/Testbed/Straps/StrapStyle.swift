/// The kind of sensor that a strap is: which fields its frames have and how it behaves off the skin.
public struct StrapStyle: Sendable, Hashable {
    /// The meaning of the two contact bits (HRS v1.0 §3.1.1.2).
    public enum Contact: Sendable, Hashable {
        /// The sensor cannot tell: both bits stay clear.
        case notSupported
        /// The sensor tells, except that it is off the skin in the given seconds of its own time.
        case supported(lostSeconds: [Range<Int>] = [])
    }

    /// The rate while the sensor is off the skin.
    public enum RateWithoutContact: Sendable, Hashable {
        /// Zero beats a minute.
        case zero
        /// The last rate that was measured, for as long as it lasts.
        case frozen
    }

    /// The contact bits.
    public var contact: Contact
    /// The rate off the skin.
    public var rateWithoutContact: RateWithoutContact
    /// Whether frames carry RR intervals.
    public var sendsRRIntervals: Bool
    /// Every how many frames the energy is included; nil for never.
    public var framesPerEnergy: Int?
    /// The patient's energy in kilojoules a minute; rest is about 5.
    public var kilojoulesPerMinute: Int
    /// Whether the rate is always written in 16 bits, not only above 255.
    public var alwaysWideRate: Bool
    /// Time between two frames in milliseconds.
    public var frameIntervalMilliseconds: Int

    /// A style with everything spelled out; the defaults are a chest strap's.
    public init(
        contact: Contact = .supported(), rateWithoutContact: RateWithoutContact = .zero,
        sendsRRIntervals: Bool = true, framesPerEnergy: Int? = 10, kilojoulesPerMinute: Int = 5,
        alwaysWideRate: Bool = false, frameIntervalMilliseconds: Int = 1000
    ) {
        self.contact = contact
        self.rateWithoutContact = rateWithoutContact
        self.sendsRRIntervals = sendsRRIntervals
        self.framesPerEnergy = framesPerEnergy.map { max($0, 1) }
        self.kilojoulesPerMinute = max(kilojoulesPerMinute, 0)
        self.alwaysWideRate = alwaysWideRate
        self.frameIntervalMilliseconds = max(frameIntervalMilliseconds, 1)
    }

    /// A chest strap: contact, RR intervals, energy every tenth frame.
    public static let chest = StrapStyle()

    /// A wrist sensor: no RR intervals, no energy, no contact bits.
    public static let wrist = StrapStyle(
        contact: .notSupported, sendsRRIntervals: false, framesPerEnergy: nil)

    /// Whether the sensor is on the skin at a time of its own.
    ///
    /// - Parameter milliseconds: time since the sensor was switched on.
    func hasContact(atMilliseconds milliseconds: Int) -> Bool {
        guard case .supported(let lostSeconds) = contact else { return true }
        return !lostSeconds.contains { $0.contains(milliseconds / 1000) }
    }
}
