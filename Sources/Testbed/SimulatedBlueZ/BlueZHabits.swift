/// How the simulated bluetoothd and its radio behave: the figures are those of BlueZ 5.66 on an
/// emulated radio, times in milliseconds of simulated time.
public struct BlueZHabits: Sendable, Hashable {
    /// From `Connect` to the link.
    public var connectMilliseconds = 120
    /// From the link to `ServicesResolved` the first time.
    public var resolveMilliseconds = 250
    /// The same when the services are cached.
    public var resolveCachedMilliseconds = 80
    /// A read, write or subscription.
    public var attMilliseconds = 6
    /// bluetoothd waits before it really disconnects.
    public var disconnectMilliseconds = 2000
    /// How long `Connect` tries to reach a sensor that is not there.
    public var absentConnectMilliseconds = 41_900
    /// Pairing, after the link.
    public var pairMilliseconds = 300
    /// How long an object lives whose sensor is neither paired nor trusted nor connected, after it
    /// was last heard in a discovery.
    public var temporaryMilliseconds = 30_000
    /// Whether a sensor that was connected and is not paired vanishes like one never connected.
    public var vanishesAfterDisconnect = true
    /// Whether an adapter that carries no further link is named as the reason: otherwise, as by 5.66, a `Connect`
    /// that its controller refuses seems to have been ended by ourselves.
    public var namesFullAdapter = true
    /// Between two adverts of one sensor that get through.
    public var advertMilliseconds = 500
    /// How far the signal strength wavers, in dBm.
    public var rssiWaver: Int16 = 6
    /// How much it must change to be told, in dBm.
    public var rssiThreshold: Int16 = 8
    /// From plugging an adapter or starting bluetoothd to its object.
    public var adapterMilliseconds = 300
    /// Powering on.
    public var powerMilliseconds = 100
    /// How often `Connected` becomes true without a signal, 0…1.
    public var connectedUnsignalled = 0.3
    /// How often an unpaired sensor's objects vanish at a link loss, with no `Connected=false`
    /// before, 0…1.
    public var vanishesOnDrop = 0.0
    /// How often a stranger whose link is refused is removed without an answer to its `Connect`, 0…1.
    public var refusedUnanswered = 0.7
    /// Whether `ServicesResolved` comes before the GATT objects do.
    public var resolvesEarly = false
    /// Whether the kernel loses a link that comes up while its attempt is cancelled, as Linux 6.1 does. Here any
    /// attempt at a sensor that is there counts as such.
    public var losesCancelledLinks = true
    /// Whether a read or subscription that wants a bond brings one about, if an agent is there.
    public var bondsOnDemand = true
    /// Whether subscribing to an encrypted characteristic without a bond is never answered, instead
    /// of refused.
    public var encryptedStartNotifyHangs = false
    /// BlueZ 5.66 as it was seen.
    public init() {}

    /// Everything at once and nothing left to chance, for tests of something else.
    public static var immediate: BlueZHabits {
        var habits = BlueZHabits()
        habits.connectMilliseconds = 0
        habits.resolveMilliseconds = 0
        habits.resolveCachedMilliseconds = 0
        habits.attMilliseconds = 0
        habits.disconnectMilliseconds = 0
        habits.pairMilliseconds = 0
        habits.adapterMilliseconds = 0
        habits.powerMilliseconds = 0
        habits.connectedUnsignalled = 0
        return habits
    }
}
