import Basics

/// Whether another client has this gateway's name at a broker, as after a memory card was copied: two clients of one
/// identifier end each other's connection for ever, and what both publish is mixed up. Without I/O.
///
/// A broker of MQTT 5 says so; others only end the connection. Then the broker is asked, under another identifier,
/// whether the gateway is online: if it is while it has no connection, it is another one.
struct NameRivalry: Sendable {
    /// The broker's state of the gateway while it has no connection.
    enum Look: Hashable, Sendable {
        case online, offline
        /// Its rules do not let the gateway read.
        case unknown
    }

    /// A connection that is cut sooner counts.
    static let quick = Duration.seconds(30)
    /// So many in a row are no chance.
    static let cutsMax = 4
    /// From one look to the next.
    static let pause = Duration.seconds(60)
    /// A broker that tells nothing is tried again after this: each time the other client is sent away.
    static let blindPause = Duration.seconds(600)

    private var cuts = 0
    private var isBlind = false
    /// Whether nothing is published for now.
    private(set) var isSuspected = false
    /// The earliest time of the next look.
    private(set) var nextLook = Uptime.zero

    /// A connection was over after so long. `isTakenOver`: the broker said that another client came.
    mutating func ended(after age: Duration, isTakenOver: Bool, _ now: Uptime) {
        cuts = isTakenOver ? Self.cutsMax : age < Self.quick ? cuts + 1 : 0
        guard cuts >= Self.cutsMax, !isSuspected else { return }
        isSuspected = true
        isBlind = false
        // The broker takes a moment to say that this connection is gone.
        nextLook = isTakenOver ? now + Self.pause : now
    }

    /// The broker was asked. One that is not reached cuts everybody's connections: it is no sign of another client.
    mutating func looked(_ look: Look, _ now: Uptime) {
        guard isSuspected else { return }
        switch look {
        case .online:
            isBlind = false
            nextLook = now + Self.pause
        case .unknown where !isBlind:
            isBlind = true
            nextLook = now + Self.blindPause
        case .offline, .unknown: self = NameRivalry()
        }
    }
}
