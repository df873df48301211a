/// The names of org.bluez that this client uses. Source: BlueZ `doc/org.bluez.*.rst`.
enum Names {
    static let service = "org.bluez"
    static let root = "/org/bluez"
    static let adapter = "org.bluez.Adapter1"
    static let device = "org.bluez.Device1"
    static let gattService = "org.bluez.GattService1"
    static let characteristic = "org.bluez.GattCharacteristic1"
    static let battery = "org.bluez.Battery1"
    static let agent = "org.bluez.Agent1"
    static let agentManager = "org.bluez.AgentManager1"
    static let properties = "org.freedesktop.DBus.Properties"
    static let objectManager = "org.freedesktop.DBus.ObjectManager"
    static let peer = "org.freedesktop.DBus.Peer"
    static let bus = "org.freedesktop.DBus"
}

/// Object paths, compared by component: `/org/bluez/hci1` is not above `/org/bluez/hci10/dev_…`.
enum ObjectPath {
    /// Whether `path` lies below `ancestor`.
    static func isPath(_ path: String, below ancestor: String) -> Bool {
        path.utf8.count > ancestor.utf8.count && path.hasPrefix(ancestor)
            && path.utf8.dropFirst(ancestor.utf8.count).first == UInt8(ascii: "/")
    }
}
