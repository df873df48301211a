import Basics

/// The typed client of org.bluez on one bus connection: object tree, events, operations.
///
/// It subscribes before it reads the tree, watches the owner of the name `org.bluez`, believes
/// signals of that owner only, and reads everything anew when bluetoothd comes back. When the bus
/// goes away the client is spent; a new one is made on a new connection.
public actor BlueZClient {
    /// Events that may wait for their consumer.
    static let eventsMax = 65_536
    /// `GetManagedObjects` and other calls that bluetoothd answers from memory.
    public static let plainDeadline = Duration.seconds(20)
    /// Between two attempts to read the tree of a bluetoothd that does not answer.
    static let resyncPause = Duration.seconds(2)
    /// Between two attempts where the answer is an error, such as that the bus does not let us ask:
    /// dbus-daemon writes each call that it refuses into the journal.
    static let refusedPause = Duration.seconds(30)
    /// Attempts before events are handled again, so that a gone daemon is noticed.
    static let resyncAttemptsMax = 3

    let connection: any BusConnection
    let clock: UptimeClock
    var tree = ObjectTree()
    /// Grows with each bluetoothd that is found on the bus, and when one leaves it.
    public internal(set) var generation: UInt64
    /// The pairing agents while persons pair sensors, by the sensors' addresses.
    var agents: [String: PairingAgent] = [:]

    private let mailbox = Mailbox<BlueZEvent>(capacity: eventsMax)
    private var owner: String?
    /// It has not been told yet whether bluetoothd is there, or was told that it does not show its objects.
    private var isUnsettled = true
    /// How often an owner was met: the latest counts.
    private var meetings = 0
    private var snapshotArrival: UInt64 = 0
    private var lostSeen: UInt64 = 0
    private var pump: Task<Void, Never>?
    private var retry: Task<Void, Never>?
    private let tasks: (any TaskExecutor)?

    /// Makes a client on a connection whose `incoming()` has no other reader.
    ///
    /// `generation` is the last generation of the client before, so that it only grows; `tasks` runs the one that
    /// takes what comes from the bus.
    public init(
        connection: any BusConnection, generation: UInt64 = 0, clock: UptimeClock = .system,
        tasks: (any TaskExecutor)? = nil
    ) {
        self.tasks = tasks
        self.connection = connection
        self.clock = clock
        self.generation = generation
    }

    deinit {
        pump?.cancel()
        retry?.cancel()
        connection.close()
    }

    /// How long notifications gather from now on.
    nonisolated func gather(for audience: FrameAudience) {
        connection.gather(for: audience.gatherPause, where: Self.isNotification)
    }

    /// Has all that has come by now told at once, and then ``BlueZEvent/caughtUp(number:)``.
    nonisolated func catchUp(number: UInt32) {
        connection.catchUp(number: number)
    }

    /// Subscribes and begins to deliver events: first whether bluetoothd runs, and its objects.
    public func start() async throws(DBusFault) {
        let rules = [
            "type='signal',sender='org.bluez',path_namespace='/org/bluez'",
            "type='signal',sender='org.bluez',interface='\(Names.objectManager)'",
            "type='signal',sender='\(Names.bus)',member='NameOwnerChanged',arg0='org.bluez'",
        ]
        gather(for: .aFirstFrame)
        for rule in rules { try await connection.addMatch(rule) }
        let first = try await connection.owner(of: Names.service)
        let incoming = connection.incoming()
        pump = Task(executorPreference: tasks) { [weak self, mailbox] in
            await self?.meetOwner(first)
            for await batch in incoming {
                guard let self else { return }
                await self.handle(batch)
            }
            mailbox.post([.busGone])
            mailbox.finish()
        }
    }

    /// The events, in order. For one consumer; ends after `.busGone`.
    public nonisolated func events() -> AsyncStream<[BlueZEvent]> {
        mailbox.stream()
    }

    /// Ends the client and its connection.
    public func close() {
        connection.close()
    }

    /// All devices that bluetoothd knows, ordered by path.
    public var devices: [Device] { tree.devices.values.sorted { $0.path < $1.path } }

    /// The characteristics of a device. They stay after the link is lost.
    public func characteristics(ofDevice path: String) -> [Characteristic] {
        tree.characteristics(ofDevice: path).sorted { $0.path < $1.path }
    }

    /// One characteristic of a device, by 128-bit UUIDs in lower case.
    public func characteristic(
        ofDevice path: String, service: String, uuid: String
    ) -> Characteristic? {
        tree.characteristic(ofDevice: path, service: service, uuid: uuid)
    }

    func post(_ events: [BlueZEvent]) { mailbox.post(events) }

    // MARK: Signals

    private func handle(_ batch: [DBusMessage]) async {
        var events: [BlueZEvent] = []
        for message in batch {
            if message.kind == .call {
                answer(message, isFromDaemon: message.sender == owner)
            } else if message.kind == .caughtUp {
                events.append(.caughtUp(number: message.serial))
            } else if message.kind == .signal, let sender = message.sender {
                if sender == owner {
                    tree.apply(message, asOf: snapshotArrival, into: &events)
                } else if sender == Names.bus, message.member == "NameOwnerChanged" {
                    mailbox.post(events)
                    events = []
                    await noteOwnerChange(message)
                }
            }
        }
        mailbox.post(events)
        // Signals were lost: what the tree says may be wrong.
        if connection.incomingLost != lostSeen {
            lostSeen = connection.incomingLost
            await meetOwner(owner)
        }
    }

    private static func isNotification(_ message: DBusMessage) -> Bool {
        guard message.kind == .signal, message.body.count == 3,
            case .string(Names.characteristic) = message.body[0],
            case .dictionary(_, _, let changed) = message.body[1],
            let name = changed.first?.key
        else { return false }
        return name == .string("Value")
    }

    private func noteOwnerChange(_ message: DBusMessage) async {
        guard message.body.count == 3, message.body[0].text == Names.service,
            let new = message.body[2].text
        else { return }
        await meetOwner(new.isEmpty ? nil : new)
    }

    /// Ends what belonged to the owner before and reads the tree of the new one. Signals that come
    /// meanwhile wait in the connection's mailbox.
    private func meetOwner(_ new: String?) async {
        if new != owner, owner != nil {
            owner = nil
            generation += 1
            agents = [:]
            let removed = tree.replace(with: nil, arrival: 0)
            mailbox.post(removed + [.daemonGone(generation: generation)])
        } else if new == nil, isUnsettled {
            mailbox.post([.daemonGone(generation: generation)])
        }
        retry?.cancel()
        meetings += 1
        let meeting = meetings
        isUnsettled = isUnsettled && new != nil
        guard let new else { return }
        var pause = Self.resyncPause
        for _ in 1...Self.resyncAttemptsMax {
            do throws(DBusFault) {
                let answer = try await connection.request(
                    DBusMessage(
                        kind: .call, path: "/", interface: Names.objectManager,
                        member: "GetManagedObjects", destination: new),
                    deadline: Self.plainDeadline)
                guard meeting == meetings else { return }
                let isNewcomer = owner == nil
                owner = new
                snapshotArrival = answer.arrival
                let isNews = isNewcomer || isUnsettled
                isUnsettled = false
                if isNewcomer { generation += 1 }
                let events = tree.replace(with: answer.body.first, arrival: answer.arrival)
                mailbox.post(events + (isNews ? [.daemonBack(generation: generation)] : []))
                return
            } catch {
                // A daemon that has left again, or a bus, has its own news waiting for us. Whoever has met one since
                // knows more.
                if meeting != meetings || Self.endings.contains(error.name) { return }
                guard error.name == DBusFault.noReply else {
                    pause = Self.refusedPause
                    tell(.daemonRefused(error))
                    break
                }
                // It hangs.
                tell(.daemonSilent)
                await clock.sleep(Self.resyncPause)
                guard meeting == meetings else { return }
            }
        }
        // Nothing else would tell when it goes on.
        retry = Task { [weak self, clock, pause] in
            await clock.sleep(pause)
            if !Task.isCancelled { await self?.meetAgain(new) }
        }
    }

    private func tell(_ trouble: BlueZEvent) {
        isUnsettled = true
        mailbox.post([trouble])
    }

    /// Errors after which there is nobody to ask again.
    private static let endings: Set<String> = [
        "org.freedesktop.DBus.Error.ServiceUnknown", "org.freedesktop.DBus.Error.NameHasNoOwner",
        DBusFault.disconnected,
    ]

    private func meetAgain(_ new: String) async {
        retry = nil
        if owner == nil || owner == new { await meetOwner(new) }
    }
}
