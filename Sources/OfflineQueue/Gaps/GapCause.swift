/// Why there is no data for a while; the raw values are stored and shown.
public enum GapCause: String, Sendable, Hashable, CaseIterable, Codable {
    /// The strap says that it does not touch skin.
    case noContact = "no-contact"
    /// The strap is not heard.
    case outOfRange = "out-of-range"
    /// The strap is heard and is being connected, resolved or subscribed to.
    case connecting
    /// The link was lost and the strap has not been heard since.
    case linkLost = "link-lost"
    /// The link is up and no frame comes; also the cause where nothing else was noted.
    case silent
    /// Frames came that hold no measurement; they are kept.
    case undecodable
    /// There is no adapter, or it is powered off.
    case adapterDown = "adapter-down"
    /// The adapter carries no further link.
    case adapterFull = "adapter-full"
    /// bluetoothd or the system bus does not answer.
    case daemonGone = "daemon-gone"
    /// The gateway did not run, or was killed and lost what it held in memory.
    case gatewayOff = "gateway-off"
    /// Frames came and neither disk nor memory could take them.
    case queueFull = "queue-full"
    /// Time across boots whose length nobody knows.
    case clockUnknown = "clock-unknown"
}
