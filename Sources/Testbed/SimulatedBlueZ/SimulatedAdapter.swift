/// A Bluetooth controller that is plugged in.
public struct SimulatedAdapter: Sendable, Hashable {
    /// The controller's public address, `AA:BB:CC:DD:EE:FF`; what stays when the index changes.
    public var address: String
    /// The number in `hci0`.
    public var index: Int
    /// The host's name, shown as the adapter's.
    public var name: String
    /// Whether it is powered when bluetoothd first sees it (`AutoEnable`).
    public var startsPowered: Bool
    /// How many links the controller keeps; a small USB stick has 5.
    public var linksMax: Int

    public init(
        address: String = "00:1A:7D:DA:71:01", index: Int = 0, name: String = "testbed",
        startsPowered: Bool = true, linksMax: Int = 16
    ) {
        self.address = address
        self.index = index
        self.name = name
        self.startsPowered = startsPowered
        self.linksMax = linksMax
    }

    /// The object path, `/org/bluez/hci0`.
    var path: String { "\(BlueZName.root)/hci\(index)" }
}
