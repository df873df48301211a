/// What a `Central` tells.
public enum CentralEvent: Sendable, Hashable {
    case frame(SensorFrame)
    case link(LinkChange)
    case sighting(Sighting)
    /// The adapter appeared or changed.
    case adapter(Adapter)
    case adapterRemoved(address: String)
    /// bluetoothd came or went.
    case daemon(isPresent: Bool)
    /// The bus came or went.
    case bus(isPresent: Bool)
    /// An adapter was power-cycled because it did not come out of "busy".
    case adapterReset(address: String)
}

/// The bytes of one notification.
public struct SensorFrame: Sendable, Hashable {
    public let address: String
    public let bytes: [UInt8]
    /// `CLOCK_BOOTTIME` µs of arrival.
    public let uptimeMicroseconds: Int64
    /// The link generation it came over: changes with every connect.
    public let linkGeneration: UInt64
}

/// A link that came into another state.
public struct LinkChange: Sendable, Hashable {
    public let address: String
    public let state: LinkState
    public let reason: LinkReason
    public let linkGeneration: UInt64
    /// `CLOCK_BOOTTIME` µs.
    public let uptimeMicroseconds: Int64
}

/// A sensor that was heard, or is connected.
public struct Sighting: Sendable, Hashable {
    public let address: String
    /// `public` or `random`.
    public let addressType: String
    public let name: String?
    /// dBm; nil when it is connected and not advertising.
    public let rssi: Int?
    /// 128-bit UUIDs, lower case.
    public let services: [String]
    public let isConnected: Bool
    public let isPaired: Bool
    /// The address of the adapter that heard it.
    public let adapter: String
    /// `CLOCK_BOOTTIME` µs.
    public let uptimeMicroseconds: Int64
}

/// What `Central.inspect` found.
public struct Inspection: Sendable {
    public let sighting: Sighting
    /// For each UUID that was asked for, its value or why there is none.
    public let values: [String: Result<[UInt8], DBusFault>]
}

/// A link as it stands.
public struct LinkSnapshot: Sendable, Hashable {
    public let address: String
    public let state: LinkState
    public let reason: LinkReason
    public let linkGeneration: UInt64
    public let name: String?
    public let rssi: Int?
    public let isPaired: Bool
    /// The address of its adapter, once it has been heard.
    public let adapter: String?
}

/// Where a `Central` gets its time from.
public struct CentralClock: Sendable {
    /// `CLOCK_BOOTTIME` µs.
    public var now: @Sendable () -> Int64
    /// Sleeps; returns early when the task is cancelled.
    public var sleep: @Sendable (Duration) async -> Void

    /// Makes a clock.
    public init(
        now: @escaping @Sendable () -> Int64, sleep: @escaping @Sendable (Duration) async -> Void
    ) {
        self.now = now
        self.sleep = sleep
    }

    /// The machine's own.
    public static let system = CentralClock(
        now: { Uptime.microseconds() }, sleep: { try? await Task.sleep(for: $0) })
}

/// The settings of a `Central`.
public struct CentralSettings: Sendable {
    /// The 128-bit UUID, lower case, of the service whose sensors are looked for.
    public var service: String
    /// Use this adapter only, by address; nil for all.
    public var adapterAddress: String?
    /// Power adapters on when they appear switched off.
    public var powersAdaptersOn = true
    public var policy = LinkPolicy()
    /// Of the jitter of back-offs.
    public var seed = UInt64.random(in: .min ... .max)
    /// Adapter resets in an hour at most: a broken one does not get better by more.
    public var adapterResetsPerHourMax = 4

    /// The defaults for one service.
    public init(service: String) {
        self.service = service.lowercased()
    }
}
