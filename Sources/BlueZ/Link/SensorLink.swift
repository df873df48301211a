import Basics

/// The link to one sensor: a value that takes events and returns what to do.
///
/// `absent → seen → connecting → resolving → subscribing → streaming`, and `suspended`. It knows no
/// D-Bus and no heart rate. The time is given with each event; `nextDeadline`
/// tells when a `tick` is due. Answers carry the attempt they belong to, and those of an older
/// attempt change nothing.
public struct SensorLink: Sendable {
    /// The events of a link.
    public enum Event: Sendable, Hashable {
        case daemon(isPresent: Bool)
        case adapter(isUsable: Bool)
        /// An advert was heard.
        case sighted
        /// An advert was heard, and its adapter carries no further link.
        case sightedWithoutPlace
        /// The device as it is now, by signal or by get.
        case device(isConnected: Bool, isResolved: Bool)
        /// The device's object was removed.
        case vanished
        /// The radio is ours. `isShared`: another program discovers meanwhile.
        case slotGranted(isShared: Bool)
        case connectFinished(attempt: UInt64, BlueZErrorClass?)
        case subscribeFinished(attempt: UInt64, BlueZErrorClass?)
        case frame
        /// The link is up and its notifications have ended, by whichever program's doing.
        case notificationsEnded
        /// A bond is being made, which may wait for a person.
        case bonding
        /// bluetoothd goes on after a hang: what was sent meanwhile is yet to come.
        case awake
        /// Whether the sensor is worn, as far as its frames tell.
        case contact(Bool)
        /// A person waits for the sensor: it is tried at once, whatever has failed before.
        case awaited
        /// The link is not wanted any more.
        case release
        case tick
    }

    /// The actions.
    public enum Action: Sendable, Hashable {
        /// Ask for the radio; `slotGranted` follows.
        case requestSlot
        /// Not needed any more, granted or not.
        case withdrawSlot
        case connect(attempt: UInt64)
        /// Get the device's properties; `device` follows.
        case refresh
        /// Find the characteristic (`cache` if it is not there) and ask for notifications.
        case subscribe(attempt: UInt64)
        case stopNotify
        /// End the link, or the attempt at one.
        case disconnect
        /// Let bluetoothd forget the device, if it is not paired.
        case forgetDevice
        /// The adapter does not come out of "busy".
        case resetAdapter
        /// The link has ended for good after `release`.
        case finish
    }

    /// The state it is in.
    public internal(set) var state = LinkState.suspended(.daemon)
    /// Why it is in this state.
    public internal(set) var reason = LinkReason.daemonGone
    /// The connection number: grows with each attempt, adoption and loss.
    public internal(set) var attempt: UInt64 = 0
    var adoptedAttempt: UInt64?
    /// The link was up before it was known: frames of it may wait in bluetoothd.
    var isAdopted: Bool { adoptedAttempt == attempt }

    let policy: LinkPolicy
    var backoff: Backoff
    var random: SeededRandom
    var isDaemonPresent = false
    var isAdapterUsable = false
    /// Asked for the radio and neither connected nor failed since.
    var isQueued = false
    /// `StartNotify` is unanswered: no `Disconnect` now.
    var isNotifyPending = false
    /// The sensor has sent a frame over this link.
    var hasFrame = false
    /// Links torn down without a frame since the last one. After some it may just not be worn, or take its time.
    var silentLinks = 0
    /// Links torn down for a silence after their frames, since one that lasted: each lets the next be silent for longer.
    var staleLinks = 0
    /// When notifications came to be on.
    var subscribedAt = Uptime.zero
    /// How long the sensor takes from a subscription to its first frame, as it has shown.
    var startUp = Duration.zero
    var isWorn = true
    var isConnected = false
    /// We disconnect, and the end has not come yet.
    var teardownUntil: Uptime?
    /// The attempt that we end so, while its `Connect` is unanswered.
    var endedAttempt: UInt64?
    /// How often bluetoothd was made to forget the device since the last frame.
    var forgets = 0
    var rhythm = FrameRhythm()
    var attemptsUnheard = 0
    var busyInRow = 0
    /// End of the present step, or of the back-off.
    var deadline: Uptime?
    var refreshAt: Uptime?
    /// No attempt before.
    var retryAt = Uptime.zero

    /// A link that waits for bluetoothd. `seed` is that of the jitter.
    public init(policy: LinkPolicy = LinkPolicy(), seed: UInt64) {
        self.policy = policy
        backoff = Backoff(first: policy.backoffBase, longest: policy.backoffMax)
        random = SeededRandom(seed: seed)
    }

    /// When a `tick` is due, if ever.
    public var nextDeadline: Uptime? {
        guard case .streaming(let lastFrameAt) = state else {
            guard let refreshAt else { return deadline }
            return deadline.map { min($0, refreshAt) } ?? refreshAt
        }
        if isNotifyPending, let deadline { return deadline }
        return lastFrameAt + silenceLimit
    }

    /// Whether hearing the sensor would help.
    public var wantsScan: Bool {
        state == .absent || state == .suspended(.outOfRange) || state == .suspended(.adapterFull)
    }

    /// Whether notifications are on.
    public var isStreaming: Bool {
        if case .streaming = state { true } else { false }
    }

    /// Whether it has the adapter's attention or a link on it.
    var hasLink: Bool {
        switch state {
        case .connecting, .resolving, .subscribing, .streaming, .draining: true
        case .absent, .seen, .suspended: false
        }
    }

    /// How long the sensor may be silent: by what it has shown of itself, and longer after each link that was torn down
    /// for a silence, since that may have been its own.
    public var silenceLimit: Duration {
        var limit = hasFrame ? policy.stale : max(policy.firstFrame, startUp * 2)
        if !isWorn || hasFrame && rhythm.typical == nil {
            limit = max(limit, policy.staleWithoutContact)
        }
        if staleLinks > 0 {
            let borne = Backoff(first: policy.stale * 3, longest: policy.staleWithoutContact)
            limit = max(limit, borne.pause(after: staleLinks))
        }
        if !hasFrame, silentLinks >= policy.silentLinksMax {
            let borne = Backoff(first: policy.staleWithoutContact, longest: Self.silenceMax)
            limit = max(limit, borne.pause(after: silentLinks - policy.silentLinksMax + 1))
        }
        return min(max(limit, rhythm.limit), max(Self.silenceMax, policy.staleWithoutContact))
    }

    /// However rarely a sensor sends, it is not waited for longer.
    static let silenceMax = Duration.seconds(900)
    /// More silences than these change nothing.
    static let silencesMax = 16

    /// Takes an event in; the actions are to be carried out in their order.
    public mutating func handle(_ event: Event, at now: Uptime) -> [Action] {
        switch event {
        case .frame: return takeFrame(at: now)
        case .notificationsEnded: return subscribeAgain(at: now)
        case .bonding:
            if state == .subscribing { deadline = now + policy.bond }
            return []
        case .awake:
            if isStreaming { state = .streaming(lastFrameAt: now) }
            return []
        case .contact(let isWorn):
            self.isWorn = isWorn
            return []
        case .daemon(let isPresent): return noteDaemon(isPresent)
        case .adapter(let isUsable): return noteAdapter(isUsable)
        case .sighted: return takeSighting(at: now)
        case .sightedWithoutPlace:
            attemptsUnheard = 0
            // Whether its adapter is still full is found out by an attempt, now and then.
            guard wantsScan, retryAt > now else {
                return state == .suspended(.adapterFull) ? [] : takeSighting(at: now)
            }
            if state != .suspended(.adapterFull) {
                enter(.suspended(.adapterFull), .error(.slots))
                deadline = retryAt
            }
            return []
        case .device(let isConnected, let isResolved):
            return takeDevice(isConnected, isResolved, at: now)
        case .vanished: return takeRemoval(at: now)
        case .slotGranted(let isShared): return takeSlot(isShared: isShared, at: now)
        case .connectFinished(let attempt, let error):
            guard attempt == self.attempt else { return takeEnd(of: attempt, error, at: now) }
            return finishConnect(error, at: now)
        case .subscribeFinished(let attempt, let error):
            guard attempt == self.attempt else { return [] }
            return finishSubscribe(error, at: now)
        case .awaited: return endBackoff(at: now)
        case .release: return beginRelease(at: now)
        case .tick: return tick(at: now)
        }
    }

    mutating func enter(_ state: LinkState, _ reason: LinkReason) {
        self.state = state
        self.reason = reason
        deadline = nil
        refreshAt = nil
    }
}
