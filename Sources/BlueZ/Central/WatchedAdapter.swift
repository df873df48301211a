/// An adapter that bluetoothd has, and what is known of how its radio does.
struct WatchedAdapter: Sendable {
    /// The adapter as bluetoothd tells it.
    var object: Adapter
    /// Scans, and whose turn it is to connect.
    var radio = AdapterRadio<String>()
    /// Whether it hears anybody.
    var watch = RadioWatch()
    /// Whether it connects to those whom it hears.
    var connects = ConnectWatch()
    /// How many links it carries.
    var load = AdapterLoad()
}
