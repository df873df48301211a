import Basics

/// The state of the link to one sensor.
public enum LinkState: Sendable, Hashable {
    /// Not heard yet, or not there any more.
    case absent
    /// Heard, or lost a moment ago: waits for its turn or for the end of a back-off.
    case seen
    case connecting
    /// Connected; bluetoothd reads its services.
    case resolving
    /// Services known; notifications asked for.
    case subscribing
    /// Notifications are on. Before the first frame the time is that of the subscription.
    case streaming(lastFrameAt: Uptime)
    case suspended(Suspension)
    /// Asked to end, and not ended yet.
    case draining

    /// The event that a suspended link waits for.
    public enum Suspension: String, Sendable, Hashable {
        /// The adapter is off or not there.
        case adapter
        /// bluetoothd or the bus is not there.
        case daemon
        /// Attempts failed: waits until the sensor is heard again.
        case outOfRange
        /// The adapter carries no further link: waits for a place on it, or on another that hears
        /// the sensor.
        case adapterFull
    }

    /// The state's name without what it waits for: `streaming`, `suspended`.
    public var kind: String { if case .suspended = self { "suspended" } else { name } }

    /// The state's name, as in logs: `streaming`, `suspended(adapter)`.
    public var name: String {
        switch self {
        case .absent: "absent"
        case .seen: "seen"
        case .connecting: "connecting"
        case .resolving: "resolving"
        case .subscribing: "subscribing"
        case .streaming: "streaming"
        case .suspended(let what): "suspended(\(what.rawValue))"
        case .draining: "draining"
        }
    }
}

/// Why a link came into its present state.
public enum LinkReason: Sendable, Hashable {
    /// An advert was heard.
    case heard
    /// It was connected already, by an earlier run of this program or by the sensor's pairing.
    case adopted
    /// The step before succeeded.
    case progress
    case connectTimeout
    case resolveTimeout
    case subscribeTimeout
    /// Subscribed, worn, and no frame.
    case noFirstFrame
    /// No frame for too long.
    case stale
    /// The sensor or the radio ended the link.
    case linkLost
    /// bluetoothd removed the device.
    case removed
    case adapterOff
    case daemonGone
    case released
    case error(BlueZErrorClass)

    /// The reason's name, as in listings and counters.
    public var name: String {
        switch self {
        case .heard: "heard"
        case .adopted: "adopted"
        case .progress: "progress"
        case .connectTimeout: "connect-timeout"
        case .resolveTimeout: "resolve-timeout"
        case .subscribeTimeout: "subscribe-timeout"
        case .noFirstFrame: "no-first-frame"
        case .stale: "stale"
        case .linkLost: "link-lost"
        case .removed: "removed"
        case .adapterOff: "adapter-off"
        case .daemonGone: "daemon-gone"
        case .released: "released"
        case .error(let kind): "error(\(kind.rawValue))"
        }
    }
}
