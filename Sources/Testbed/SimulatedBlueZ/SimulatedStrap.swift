/// A Bluetooth sensor and its patient.
public struct SimulatedStrap: Sendable {
    /// The bond that the sensor asks for before its measurement may be read or subscribed to.
    public enum Security: Sendable, Hashable {
        /// Nothing, as nearly all straps.
        case open
        /// A bond; "Just Works" pairing makes it.
        case encrypted
        /// A bond with a code that the sensor shows and the person types into the gateway.
        case passkeyShown(UInt32)
        /// A bond with a code that the gateway shows and the person types into the sensor.
        case passkeyTyped(UInt32)
        /// A bond after both have shown this code and the person has compared.
        case comparison(UInt32)
    }

    /// Static random or public address, `AA:BB:CC:DD:EE:FF`.
    public var address: String
    /// `random` or `public`.
    public var addressType: String
    /// The address it tells whom it is bonded with, where the one above is a private one.
    public var identity: String?
    /// Advertised name.
    public var name: String
    /// Signal strength in dBm around which it wavers.
    public var rssi: Int16
    /// Whether it is switched on when the simulation starts.
    public var isOnAir: Bool
    /// The bond that it asks for.
    public var security: Security
    /// UUIDs in its adverts.
    public var advertisedServices: [String]
    /// Whether it has heart rate, battery and device information at all.
    public var hasHeartRate: Bool
    /// Battery in percent; nil for a sensor without Battery Service.
    public var battery: UInt8?
    /// Body Sensor Location (HRS v1.0 §3.2); nil for a sensor that does not tell.
    public var bodyLocation: UInt8?
    /// Device Information strings by the short UUID of their characteristic.
    public var deviceInformation: [UInt16: String]
    /// The patient.
    public var heart: RecordedHeart
    /// Where in the series the patient's heart is when the simulation starts.
    public var firstBeat: Int
    /// How the frames look.
    public var style: StrapStyle
    /// Frames that are not as they should be.
    public var noise: FrameNoise

    /// A chest strap.
    ///
    /// - Parameters:
    ///   - address: its Bluetooth address.
    ///   - name: what it advertises.
    ///   - heart: the patient.
    ///   - firstBeat: where in the series the patient's heart is.
    ///   - style: how the frames look.
    public init(
        address: String, name: String, heart: RecordedHeart, firstBeat: Int = 0,
        style: StrapStyle = .chest
    ) {
        self.address = address
        self.name = name
        self.heart = heart
        self.firstBeat = firstBeat
        self.style = style
        addressType = "random"
        rssi = -60
        isOnAir = true
        security = .open
        advertisedServices = [GattTable.heartRate]
        hasHeartRate = true
        battery = 87
        bodyLocation = 1
        deviceInformation = [
            0x2a29: "Testbed", 0x2a24: "Simulated strap", 0x2a25: "S-0001", 0x2a26: "1.2.3",
        ]
        noise = .none
    }

    /// A beacon that is not a heart-rate sensor: a tag, a lamp, a neighbour's watch.
    static func beacon(_ number: Int, heart: RecordedHeart) -> SimulatedStrap {
        func octet(_ shift: Int) -> String {
            let text = String((number >> shift) & 0xff, radix: 16, uppercase: true)
            return text.count < 2 ? "0" + text : text
        }
        var beacon = SimulatedStrap(
            address: "D0:BE:AC:\(octet(16)):\(octet(8)):\(octet(0))", name: "Beacon \(number)",
            heart: heart)
        beacon.hasHeartRate = false
        beacon.advertisedServices = [GattTable.uuid(0xfeaa)]
        return beacon
    }
}

/// Frames that are not as they should be, mixed into a strap's own.
public struct FrameNoise: Sendable, Hashable {
    /// After every so many frames a malformed one; nil for never.
    public var framesPerMalformed: Int?
    /// Every so many frames one is sent twice; nil for never.
    public var framesPerDuplicate: Int?
    /// After every so many frames an empty one; nil for never.
    public var framesPerEmpty: Int?

    /// Noise of the given kinds.
    public init(
        framesPerMalformed: Int? = nil, framesPerDuplicate: Int? = nil, framesPerEmpty: Int? = nil
    ) {
        self.framesPerMalformed = framesPerMalformed
        self.framesPerDuplicate = framesPerDuplicate
        self.framesPerEmpty = framesPerEmpty
    }

    /// A strap without fault.
    public static let none = FrameNoise()

    /// Frames whose flags promise more than they hold, that end in half an interval, or that use
    /// reserved bits.
    public static let malformed: [[UInt8]] = [
        [0x00], [0x01], [0x01, 0x48], [0x08], [0x08, 0x48], [0x08, 0x48, 0x01], [0x10],
        [0x10, 0x48, 0xff], [0x1f, 0x48], [0xff], [0xe0, 0x48], [0x1e], [0x09, 0x00],
        [0x10, 0x3e, 0xb1, 0x03, 0xde],
    ]

    /// The bytes that go out in place of the frame with this number, counted from 1.
    func around(_ bytes: [UInt8], number: Int) -> [[UInt8]] {
        func isDue(_ period: Int?) -> Bool { period.map { $0 > 0 && number % $0 == 0 } ?? false }
        var frames = [bytes]
        if isDue(framesPerDuplicate) { frames.append(bytes) }
        if isDue(framesPerMalformed), let period = framesPerMalformed {
            frames.append(Self.malformed[(number / period - 1) % Self.malformed.count])
        }
        if isDue(framesPerEmpty) { frames.append([]) }
        return frames
    }
}
