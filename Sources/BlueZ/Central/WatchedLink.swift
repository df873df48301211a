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
    /// Watched again while it is let go: begins anew when that is over.
    var isWantedAgain = false
    /// Number of the latest inspection.
    var inspection = 0
    /// Who is asked while a person pairs the sensor.
    var agent: PairingAgent?
    /// Why there is no bond, if one was tried for.
    var bondFault: DBusFault?
    var hasTriedBond = false
    /// The person said no, or nobody was there to say anything.
    var isDeclined = false
    /// Why it was in its states since the inspection began.
    var reasons: Set<LinkReason> = []
    /// Connects in a row that failed although the sensor was heard.
    var connectFailures = 0
    /// Since when the link is up, `CLOCK_BOOTTIME` µs.
    var upSince: Int64?
    var ages = LinkAges()
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
