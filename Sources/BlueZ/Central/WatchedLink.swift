/// A link and what of org.bluez belongs to it. Confined to its `Central`.
final class WatchedLink {
    let address: String
    let service: String
    let characteristic: String
    var machine: SensorLink
    /// The device object that is used, and its adapter.
    var device: String?
    var adapter: String?
    var characteristicPath: String?
    /// Watched only for an inspection.
    var isTemporary: Bool
    /// The attempt that holds the radio.
    var slotAttempt: UInt64?
    /// The adapter whose radio was asked for.
    var slotAdapter: String?
    /// The last of the calls that must be made in order.
    var calls: Task<Void, Never>?

    init(
        address: String, service: String, characteristic: String, machine: SensorLink,
        isTemporary: Bool
    ) {
        self.address = address
        self.service = service
        self.characteristic = characteristic
        self.machine = machine
        self.isTemporary = isTemporary
    }
}
