import BlueZ

/// How a sensor's frames come.
public struct SubscriptionState: Sendable, Equatable {
    /// By signals or by a socket; nil while it does not stream.
    public var way: NotificationWay?
    /// How often the socket was found full since the daemon started: bluetoothd may have dropped frames.
    public var fullSockets = 0

    /// One that does not stream.
    public init() {}
}
