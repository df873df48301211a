import Basics

/// A link and what of org.bluez belongs to it. Confined to its `Central`.
final class WatchedLink {
    /// Changes when bluetoothd learns the identity address of a sensor while it is bonded.
    var address: String
    let service: String
    let characteristic: String
    var machine: SensorLink
    /// The device object that is used, and its adapter.
    var device: String?
    var adapter: String?
    var characteristicPath: String?
    /// Watched only for an inspection.
    var isTemporary: Bool
    /// Watched again while it is being released: starts anew after that.
    var isWantedAgain = false
    /// During an inspection: it has advertised the service. When bluetoothd knows what a sensor has, it says that
    /// instead.
    var hasAdvertisedService = false
    /// Number of the latest inspection, among those of all sensors.
    var inspection = 0
    /// The inspection during which its device got the bond that it has.
    var bondMadeBy: Int?
    /// Asks the person who pairs the sensor.
    var agent: PairingAgent?
    /// Why there is no bond, if one was tried for.
    var bondFault: DBusFault?
    var hasTriedBond = false
    /// The bond that the sensor has forgotten was removed: a new one that is refused is no lost one.
    var hasRemovedBond = false
    /// `Pair` is unanswered.
    var isPairPending = false
    /// The inspection that wanted a bond has ended without one.
    var isBondUnwanted = false
    /// A bond is being helped; see `helpBonding`.
    var isHelped = false
    /// The person said no, or no person was there to answer.
    var isDeclined = false
    /// Why it was in its states since the inspection began.
    var reasons: Set<LinkReason> = []
    var failures = LinkFailures()
    /// The link came up since the last `Connect`, whatever that was answered with.
    var hasComeUp = false
    /// It has had a bond with this machine.
    var hadBond = false
    /// The name that it gave itself last.
    var name: String?
    /// The connection number at which its services changed.
    var servicesChangedAt: UInt64?
    /// Links without the service or characteristic since the inspection began.
    var cacheFailures = 0
    /// Since when a person waits for a link to come about.
    var soughtSince: Uptime?
    /// Its address changes every few minutes, and there is no bond to know it by.
    var hadPrivateAddress = false
    /// Since when the characteristic is listened to, and nothing waits that was sent before; bluetoothd keeps that over
    /// the ends of links.
    var listensSince = Uptime.zero
    /// When this link was subscribed to, or brought a frame before.
    var subscribedAt = Uptime.zero
    /// Since when the link is up.
    var upSince: Uptime?
    var ages = LinkAges()
    /// When it was lost last, and whether no other was at that time: then its age counts.
    var lostAt: Uptime?
    var hasLeft = false
    /// The attempt that holds the radio.
    var slotAttempt: UInt64?
    /// When the `Connect` that is unanswered was called.
    var connectBegun: Uptime?
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
