import Basics

/// The reports of a `Central`.
public enum CentralEvent: Sendable, Hashable {
    /// A notification came.
    case frame(SensorFrame)
    /// A link came into another state.
    case link(LinkChange)
    /// A sensor was heard.
    case sighting(Sighting)
    /// The adapter appeared or changed.
    case adapter(Adapter)
    /// The adapter is gone.
    case adapterRemoved(address: String)
    /// bluetoothd came or went.
    case daemon(isPresent: Bool)
    /// The bus came or went.
    case bus(isPresent: Bool)
    /// A sensor's battery, in percent; nil: it tells it no more, though its link is up.
    case battery(address: String, percent: Int?)
    /// bluetoothd is on the bus and has not answered since then; nil: it does again.
    case daemonHung(since: Uptime?)
    /// bluetoothd was asked something at one uptime and answered it at another.
    case daemonAnswered(askedAt: Uptime, at: Uptime)
    /// bluetoothd is on the bus, and it or the bus refuses to tell what objects it has, with this error.
    case daemonRefused(DBusFault)
    /// A call failed, as some do on any day.
    case callFailed(CallFailure)
    /// bluetoothd knows a sensor by its identity address from now on.
    case renamed(from: String, to: String)
    /// All that had come when ``Central/catchUp()`` returned this number precedes it.
    case caughtUp(number: UInt32)
    /// An adapter is reset because it does not come out of "busy", or hears nothing at all.
    case adapterReset(address: String)
}

/// The bytes of one notification.
public struct SensorFrame: Sendable, Hashable {
    /// The address of the sensor. Never logged in full.
    public let address: String
    /// The octets of the notification, decodable or not.
    public let bytes: [UInt8]
    /// When it arrived.
    public let uptime: Uptime
}

/// A link that came into another state.
public struct LinkChange: Sendable, Hashable {
    /// The address of the sensor. Never logged in full.
    public let address: String
    /// The state it is in now.
    public let state: LinkState
    /// Why it is in that state.
    public let reason: LinkReason
    /// The sensor is heard, and no link to it comes about.
    public let isUnreachable: Bool
    /// When.
    public let uptime: Uptime

    /// A change of a link's state.
    public init(
        address: String, state: LinkState, reason: LinkReason, isUnreachable: Bool = false,
        uptime: Uptime
    ) {
        self.address = address
        self.state = state
        self.reason = reason
        self.isUnreachable = isUnreachable
        self.uptime = uptime
    }
}

/// A sensor that was heard, or is connected.
public struct Sighting: Sendable, Hashable {
    /// Its Bluetooth address, upper case with colons. Never logged in full.
    public let address: String
    /// The name it advertises, as received; nil if it gave none.
    public let name: String?
    /// dBm; nil when it is connected and not advertising.
    public let rssi: Int?
    /// Whether it is connected, by whichever program.
    public let isConnected: Bool
    /// Whether there is a bond with it.
    public let isPaired: Bool
    /// The address of the adapter that heard it.
    public let adapter: String
}

/// The present state of a link.
public struct LinkSnapshot: Sendable, Hashable {
    /// The address of the sensor. Never logged in full.
    public let address: String
    /// The state it is in.
    public let state: LinkState
    /// Why it is in that state.
    public let reason: LinkReason
    /// dBm of its last advertisement; nil while it does not advertise.
    public let rssi: Int?
    /// The reason that keeps it from streaming, where that is known.
    public let trouble: LinkTrouble?
    /// The address of its adapter, once it has been heard.
    public let adapter: String?
    /// Since when the link is up.
    public let upSince: Uptime?
    /// The age at which the sensor ends its links again and again.
    public let fixedAge: Duration?
}

/// The reason that keeps a sensor from streaming.
public enum LinkTrouble: Sendable, Hashable {
    /// There is a bond here, and the sensor does not let itself be connected to with it.
    case bondRefused
    /// It requires a bond, and this machine has none with it.
    case bondMissing
    /// It is heard, and since then no link to it comes about.
    case unreachable(since: Uptime)
    /// Its adapter carries no further link.
    case noPlace
    /// Another program has its notifications to itself.
    case taken
    /// bluetoothd connects to it over classic Bluetooth.
    case classic
    /// It is not heard, and a sensor of its name is, under this address.
    case otherAddress(String)
}

/// The present state of an adapter.
public struct AdapterSnapshot: Sendable, Hashable {
    /// The adapter, as bluetoothd describes it.
    public let adapter: Adapter
    /// Since when it hears nothing at all though it listens to everyone.
    public let silentSince: Uptime?
    /// It has refused a further link, and still has as many.
    public let isFull: Bool
    /// Links that it carries.
    public let linkCount: Int
}

/// The settings of a `Central`.
public struct CentralSettings: Sendable {
    /// The 128-bit UUID, lower case, of the service whose sensors are looked for.
    public var service: String
    /// Use this adapter only, by address; nil for all.
    public var adapterAddress: String?
    /// Whether adapters are powered on.
    public var power = PowerPolicy.always
    /// Adapters, by address, that an earlier run switched off and may not have switched on again.
    public var adaptersOwed: Set<String> = []
    /// Called with the adapters that this run has switched off and not yet switched on again.
    public var notesAdaptersOwed: (@Sendable (Set<String>) -> Void)?
    /// How old a frame may be when the store commits it: while nobody else waits, frames gather for a little less,
    /// but for half a second at least.
    public var frameAgeMax = Duration.seconds(5)
    /// The patience and pauses of its links.
    public var policy = LinkPolicy()
    /// Of the jitter of back-offs.
    public var seed = UInt64.random(in: .min ... .max)
    /// Resets the controller with this address more thoroughly than by its power, and tells whether
    /// that was done; nil where nothing can.
    public var resetsController: (@Sendable (String) async -> Bool)?
    /// Runs the tasks through which what comes from the bus passes; nil for Swift's shared pool.
    public var tasks: (any TaskExecutor)?
    /// Adapter resets in an hour at most: a broken one does not get better by more.
    public var adapterResetsPerHourMax = 4

    /// How many frames gather at most before they are handed over.
    public static let gatheredFramesMax = BusThread.gatheredMax

    /// How long frames gather at most before they are handed over, by ``frameAgeMax``.
    public static func gatherPauseMax(frameAgeMax: Duration) -> Duration {
        FrameAudience.theStore(within: frameAgeMax).gatherPause
    }

    /// The defaults for one service.
    public init(service: String) {
        self.service = service.lowercased()
    }
}
