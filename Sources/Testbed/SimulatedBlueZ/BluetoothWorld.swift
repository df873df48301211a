import Basics
import BlueZ

/// The radio and bluetoothd as one value: it takes method calls and the time, and gives replies and
/// signals. No bus and no clock: `SimulatedBlueZ` lends it both.
struct BluetoothWorld {
    /// The events that happen by themselves.
    enum Action {
        case advert(strap: String)
        case frames(strap: String)
        case answer(DBusMessage, Result<[DBusValue], DBusFault>)
        case perform(DBusMessage)
        case adapterAppears(address: String)
        case powered(address: String, Bool, DBusMessage)
        case connectEnds(device: String, attempt: UInt64, DBusFault?)
        case resolved(device: String, link: UInt64, early: Bool)
        case paired(device: String, link: UInt64)
        case bondingFails(device: String, number: UInt64, DBusFault)
        case unlinked(device: String, link: UInt64)
        case attEnds(device: String, link: UInt64, DBusMessage)
        case vanishes(device: String)
        case encryptionFails(device: String, link: UInt64)
        case servicesFound(device: String, link: UInt64)
        case takeCalls

        /// Whether controllers, the kernel and sensors do it, without bluetoothd.
        var isOfRadio: Bool {
            switch self {
            case .advert, .frames, .connectEnds, .unlinked, .encryptionFails: true
            case .answer, .perform, .adapterAppears, .powered, .resolved, .paired, .bondingFails,
                .attEnds, .vanishes, .servicesFound, .takeCalls:
                false
            }
        }
    }

    /// One session of a discovering client.
    struct DiscoveryFilter: Equatable {
        var uuids: Set<String> = []
        var rssiMin: Int?
        var isLowEnergy = true
        var pattern: String?
        /// Each advert is told, as strong as the one before it or not.
        var tellsEach = false
    }

    /// A controller and its present state.
    struct AdapterState {
        var adapter: SimulatedAdapter
        var isPlugged = true
        var isPowered: Bool
        /// Blocked by rfkill: it cannot be powered on.
        var isBlocked = false
        /// Whether bluetoothd shows it.
        var isShown = false
        /// It scans and hears nothing, until it is powered off.
        var isDeaf = false
        var presets: [String: DiscoveryFilter] = [:]
        /// Discovering clients by bus name; nil is a session without filter.
        var sessions: [String: DiscoveryFilter?] = [:]
    }

    /// A sensor, whatever bluetoothd knows of it.
    struct StrapState {
        var strap: SimulatedStrap
        var packer: StrapPacker
        var table: GattTable
        var isOnAir: Bool
        /// Addresses of the adapters it has a bond with.
        var bonds: Set<String> = []
        /// The device object that it is linked to.
        var link: String?
        var isElsewhere = false
        /// The adapter that holds a link of it which the host has lost; see `cancelAttempt`.
        var lostTo: String?
        /// Connected and subscribed to, it sends nothing all the same.
        var isMute = false
        var startedAt: WorldTime
        var frames = 0
    }

    /// A device object of bluetoothd.
    struct DeviceState {
        var strap: String
        var adapter: String
        var isTemporary = true
        var isPaired = false
        var isTrusted = false
        var isConnected = false
        var isResolved = false
        var hasGatt = false
        var lastHeard = WorldTime.zero
        /// Number of the present or last link; actions of an older one come too late.
        var link: UInt64 = 0
        var attempt: UInt64 = 0
        /// Whether its end as a stranger is planned.
        var isVanishing = false
        var isDisconnecting = false
        var connectCall: DBusMessage?
        var pairCall: DBusMessage?
        /// Number of the bonding that goes on.
        var bonding: UInt64?
        /// Calls that brought the bonding about.
        var waitingForBond: [DBusMessage] = []
        var disconnectCalls: [DBusMessage] = []
        /// Bus names with a notify session, by characteristic path. They outlive the link.
        var notifySessions: [String: Set<String>] = [:]
        /// Characteristics whose notifications are switched on in this link.
        var armed: Set<String> = []
    }

    /// The data that bluetoothd keeps on disk.
    struct StoredDevice {
        var isPaired: Bool
        var isTrusted: Bool
    }

    var habits: BlueZHabits
    var random: SeededRandom
    private(set) var now = WorldTime.zero
    /// The host's, for the log of sent frames.
    var uptime = Uptime.zero
    var agenda = Agenda<Action>()
    var tree = ObjectTree()
    var faults = FaultScript()
    private(set) var isRunning = false
    private var numbers: UInt64 = 0
    /// Whether straps send frames of their own accord.
    var sendsFrames: Bool

    /// By address.
    var adapters: [String: AdapterState] = [:]
    /// By address.
    var straps: [String: StrapState] = [:]
    /// Every frame that went out, by the strap's address. Apart from the straps, so that a copy of
    /// one of them does not make the log copy itself at the next frame.
    var sent: [String: [SentFrame]] = [:]
    /// By object path.
    var devices: [String: DeviceState] = [:]
    /// Paths of devices with a connect that is pending.
    var attempting: Set<String> = []
    /// By the addresses of adapter and sensor.
    var stored: [String: [String: StoredDevice]] = [:]
    /// Object paths of agents by bus name.
    var agents: [String: String] = [:]
    /// The clients whose agents are asked about a bond that nobody called `Pair` for; only the first one is.
    var defaultAgents: [String] = []
    /// Answers that a scripted fault holds back or changes.
    var spoiled: [CallKey: ScriptedFault.Effect] = [:]
    /// How often each method was called.
    var calls: [String: Int] = [:]
    private(set) var outbox: [DBusMessage] = []
    /// bluetoothd is stopped: nothing goes out, calls and its own work wait; the controllers and sensors go on.
    private(set) var isFrozen = false
    private var frozenCalls: [DBusMessage] = []
    private var frozenActions: [Action] = []

    /// A call, as its answer names it.
    struct CallKey: Hashable {
        var sender: String?
        var serial: UInt32
    }

    init(
        adapters: [SimulatedAdapter], straps: [SimulatedStrap], habits: BlueZHabits,
        sendsFrames: Bool, seed: UInt64
    ) {
        self.habits = habits
        self.sendsFrames = sendsFrames
        random = SeededRandom(seed: seed)
        for adapter in adapters {
            self.adapters[adapter.address] = AdapterState(
                adapter: adapter, isPowered: adapter.startsPowered)
        }
        for strap in straps { add(strap) }
    }

    // MARK: Time

    /// When something is due.
    var nextDue: WorldTime? { agenda.nextDue }

    /// Moves the time on and does what became due.
    ///
    /// - Parameter actionsMax: after so many actions the time stops short.
    mutating func advance(to time: WorldTime, actionsMax: Int = .max) {
        var actions = 0
        while let (due, action) = agenda.take(until: max(time, now)) {
            now = max(now, due)
            perform(action)
            actions += 1
            if actions >= actionsMax { return }
        }
        now = max(now, time)
    }

    /// Enters an action so many milliseconds from now; at once if there are none to wait.
    mutating func schedule(_ action: Action, afterMilliseconds milliseconds: Int) {
        if milliseconds <= 0 {
            perform(action)
        } else {
            agenda.add(action, due: now + .milliseconds(milliseconds))
        }
    }

    private mutating func perform(_ action: Action) {
        guard !isFrozen || action.isOfRadio else { return frozenActions.append(action) }
        switch action {
        case .advert(let strap): advertise(strap)
        case .frames(let strap): sendFrames(of: strap)
        case .answer(let call, let result): answer(call, result)
        case .perform(let call): perform(call)
        case .adapterAppears(let address): show(adapter: address)
        case .powered(let address, let isOn, let call):
            setPowered(address, isOn)
            answer(call)
        case .connectEnds(let device, let attempt, let fault):
            endConnect(device, attempt: attempt, fault)
        case .resolved(let device, let link, let early): resolve(device, link: link, early: early)
        case .paired(let device, let link): endPairing(device, link: link)
        case .bondingFails(let device, let number, let fault):
            failBonding(device, number: number, fault)
        case .unlinked(let device, let link):
            if devices[device]?.link == link { unlink(device) }
        case .attEnds(let device, let link, let call): endAtt(device, link: link, call)
        case .vanishes(let device): vanish(device)
        case .encryptionFails(let device, let link): failEncryption(device, link: link)
        case .servicesFound(let device, let link): findServices(device, link: link)
        case .takeCalls: takeCalls()
        }
    }

    /// A number for a link or an attempt; no two are equal.
    mutating func nextNumber() -> UInt64 {
        numbers += 1
        return numbers
    }

    // MARK: Out

    mutating func send(_ message: DBusMessage?) {
        if let message, isRunning { outbox.append(message) }
    }

    mutating func answer(_ call: DBusMessage, _ result: Result<[DBusValue], DBusFault>) {
        var result = result
        switch spoiled.removeValue(forKey: CallKey(sender: call.sender, serial: call.serial)) {
        case .answerLost: return
        case .errorThough(let fault): result = .failure(fault)
        default: break
        }
        if call.isReplyUnwanted { return }
        switch result {
        case .success(let body): send(.reply(to: call, body: body))
        case .failure(let fault): send(.error(to: call, fault))
        }
    }

    mutating func answer(_ call: DBusMessage, _ body: DBusValue...) {
        answer(call, .success(body))
    }

    mutating func refuse(_ call: DBusMessage, _ fault: DBusFault) {
        answer(call, .failure(fault))
    }

    /// Takes the messages that are to be sent, in order.
    mutating func takeOutbox() -> [DBusMessage] {
        guard !isFrozen else { return [] }
        defer { outbox = [] }
        return outbox
    }

    // MARK: bluetoothd

    /// Stops bluetoothd as SIGSTOP does, or lets it go on: what waited goes out, and calls are carried
    /// out, whether or not their callers still wait.
    mutating func setFrozen(_ isFrozen: Bool) {
        self.isFrozen = isFrozen
        guard !isFrozen else { return }
        let actions = frozenActions
        frozenActions = []
        for action in actions { perform(action) }
        // It comes to the calls a moment later.
        if !frozenCalls.isEmpty { schedule(.takeCalls, afterMilliseconds: 1) }
    }

    private mutating func takeCalls() {
        let calls = frozenCalls
        frozenCalls = []
        for call in calls { receive(call) }
    }

    /// Keeps a call for later; false if bluetoothd takes it now.
    mutating func keep(_ call: DBusMessage) -> Bool {
        // Calls keep their order.
        guard isFrozen || !frozenCalls.isEmpty else { return false }
        frozenCalls.append(call)
        return true
    }

    /// bluetoothd starts: adapters appear a little later.
    mutating func start() {
        isRunning = true
        // The name is requested before anyone can ask, so no client needs a signal about this object.
        _ = tree.add(BlueZName.root, [BlueZName.agentManager: [:]])
        for (address, adapter) in adapters.sorted(by: { $0.key < $1.key }) where adapter.isPlugged {
            schedule(
                .adapterAppears(address: address), afterMilliseconds: habits.adapterMilliseconds)
        }
    }

    /// bluetoothd ends. A killed one says nothing; one that is stopped takes its objects away.
    mutating func end(gracefully: Bool) {
        if gracefully {
            for address in adapters.keys.sorted() { hide(adapter: address) }
        }
        for address in straps.keys {
            straps[address]?.link = nil
            straps[address]?.lostTo = nil
        }
        for address in adapters.keys {
            adapters[address]?.isShown = false
            adapters[address]?.sessions = [:]
            adapters[address]?.presets = [:]
        }
        devices = [:]
        attempting = []
        agents = [:]
        defaultAgents = []
        spoiled = [:]
        (frozenActions, frozenCalls) = ([], [])
        tree.clear()
        agenda.keep {
            switch $0 {
            case .advert, .frames: true
            default: false
            }
        }
        isRunning = false
    }
}
