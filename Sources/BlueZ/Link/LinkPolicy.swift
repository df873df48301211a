/// The deadlines and pauses of a link to a sensor.
public struct LinkPolicy: Sendable, Hashable {
    /// From `Connect` to its answer. A strap in range takes below a second; bluetoothd itself would
    /// try for 42 s, and every other lost strap waits as long: 8 s let it be back within 15 s.
    public var connect = Duration.seconds(8)
    /// The same while another program discovers: bluetoothd then listens for 10.24 s and rests for 5 s. The kernel
    /// connects when it hears an advert, and the controller reports one of each sensor in such a turn.
    public var connectBesideDiscovery = Duration.seconds(20)
    /// From connected to services resolved; seen: half a second.
    public var resolve = Duration.seconds(15)
    /// Between two looks at the properties while resolving, because signals may not come.
    public var refresh = Duration.milliseconds(500)
    /// From `StartNotify` to its answer.
    public var subscribe = Duration.seconds(10)
    /// How long an unanswered `StartNotify` is waited for beyond that. Disconnecting before has
    /// crashed bluetoothd; an ATT request fails by itself after 30 s.
    public var subscribeGrace = Duration.seconds(25)
    /// For a bond: as long as bluetoothd's own `Pair` may take, a person being asked for a code.
    public var bond = Duration.seconds(60)
    /// From subscribed to the first frame, worn: a strap notifies once a second.
    public var firstFrame = Duration.seconds(5)
    /// Between frames, worn, for a sensor that sends every few seconds or more often. One that sends
    /// rarely has three times its own cadence, and as long as its cadence is unknown the time below. After
    /// a link that ended so, three times as long, and then the time below.
    public var stale = Duration.seconds(10)
    /// Between frames, not worn: many straps fall silent then.
    public var staleWithoutContact = Duration.seconds(60)
    /// Links without a frame in a row after which a sensor counts as not worn, or as one that takes its time. Two:
    /// after an adapter comes back, bluetoothd can lose a subscription and that of the next link as well.
    public var silentLinksMax = 2
    /// A link that has lasted so long was no dead one: what silences it may have is known by then.
    public var soundAfter = Duration.seconds(300)
    /// How long the end of a link is waited for after `Disconnect`, which takes 2 s.
    public var teardown = Duration.seconds(5)
    /// The first back-off; doubles with each failure.
    public var backoffBase = Duration.milliseconds(250)
    /// The longest back-off.
    public var backoffMax = Duration.seconds(30)
    /// How long a link waits for a place on a full adapter before it tries all the same: what an
    /// adapter carries may have been misjudged.
    public var slotsPause = Duration.seconds(60)
    /// The least back-off after bluetoothd called the adapter not ready.
    public var notPoweredPause = Duration.seconds(4)
    /// The least back-off after bluetoothd said it was busy or did not answer.
    public var busyPause = Duration.seconds(1)
    /// The back-off where a person has to look.
    public var personPause = Duration.seconds(30)
    /// Attempts without hearing an advert, if each fails at once. After one that nobody answers within
    /// ``connect`` there is no other: a lost strap is often back in a second, but an attempt at an absent one
    /// keeps the radio from hearing others.
    public var attemptsUnheardMax = 2
    /// So many "busy" errors in a row, and the adapter is reset.
    public var busyMax = 3

    /// The defaults.
    public init() {}
}
