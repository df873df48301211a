/// How notifications are to come: the setting `bluetooth.notifications`.
public enum NotificationChoice: String, Sendable, Hashable, CaseIterable {
    /// As signals over the bus, with every version of BlueZ.
    case signal
    /// Over a socket, and as signals where none is to be had.
    case socket
    /// Over a socket where the version of BlueZ is known to do that well.
    case auto

    /// Whether a socket is asked for.
    ///
    /// - Parameter bluez: the version of BlueZ, as Debian writes it; nil if it is not known.
    public func wantsSocket(bluez: String?) -> Bool {
        switch self {
        case .signal: false
        case .socket: true
        case .auto: bluez.flatMap(BlueZVersion.init).map(\.hasGoodSockets) ?? false
        }
    }
}

/// A version of BlueZ, as far as it is compared.
struct BlueZVersion: Comparable {
    let major: Int
    let minor: Int

    /// From `5.66` or a package's `1:5.82-1.1+deb13u1`; nil for anything else.
    init?(_ text: String) {
        let upstream = text.split(separator: ":").last ?? ""
        let numbers = upstream.prefix { $0.isNumber || $0 == "." }.split(separator: ".")
        guard numbers.count >= 2, let major = Int(numbers[0]), let minor = Int(numbers[1])
        else { return nil }
        self.init(major: major, minor: minor)
    }

    private init(major: Int, minor: Int) {
        self.major = major
        self.minor = minor
    }

    static func < (one: BlueZVersion, other: BlueZVersion) -> Bool {
        (one.major, one.minor) < (other.major, other.minor)
    }

    /// The known faults of `AcquireNotify`, by the first version without them. Source: BlueZ's
    /// `src/gatt-client.c` and its history.
    static let socketFaults: [(fixedIn: BlueZVersion, what: String)] = [
        (BlueZVersion(major: 5, minor: 51), "hands out a pipe, not a socket"),
        (
            BlueZVersion(major: 5, minor: 84),
            "a link lost during AcquireNotify leaves the characteristic taken for good"
        ),
        (
            BlueZVersion(major: 5, minor: 86),
            "a client that leaves the bus with its socket open can crash bluetoothd"
        ),
    ]

    /// Whether none of the known faults is left.
    var hasGoodSockets: Bool { Self.socketFaults.allSatisfy { self >= $0.fixedIn } }
}
