import Basics

/// Keeps the links to the watched sensors, whatever bluetoothd, the bus, the adapters and the
/// sensors do: the runner of `SensorLink` and `AdapterRadio` over `BlueZClient`.
///
/// Sensors are named by address, never by object path. It connects to the bus again by itself when
/// the bus goes away, adopts links that are up already, and scans only while a watched sensor is
/// absent or someone asks.
public actor Central {
    /// Events that may wait for their consumer.
    static let eventsMax = 65_536
    /// The first and longest pause before the bus is tried again.
    static let busPause = Backoff(first: .milliseconds(250), longest: .seconds(5))
    /// Between ending a discovery and closing the bus: sooner, and the session may
    /// outlive us, and bluetoothd before 5.86 crash.
    static let quiesce = Duration.milliseconds(500)
    /// How long the services of a sensor may come after `ServicesResolved`, and between two looks.
    /// Signals are handed over within 100 ms; the rest is for a busy machine.
    static let servicesPatience = Duration.seconds(2)
    static let servicesPause = Duration.milliseconds(50)
    /// bluetoothd answers the first question sooner, unless it hangs.
    static let firstAnswerMax = Duration.milliseconds(250)
    /// It hands over frames that have waited at shorter intervals than this, some milliseconds. The fastest
    /// sensors, at 20 Hz, send at longer ones.
    static let handOverPause = Duration.milliseconds(40)
    /// It is done with them after this time, also if a sensor sends faster: the kernel keeps some hundred.
    static let handOverMax = Duration.seconds(2)
    /// The same after the sensor has told that its services change: bluetoothd reads them all again.
    static let changePatience = Duration.seconds(8)
    /// How long `stop` waits for links to end.
    static let stopPatience = Duration.seconds(4)

    /// Opens a connection to the bus; throws the reason when it cannot.
    public typealias Connect = @Sendable () async throws(DBusFault) -> any BusConnection

    let settings: CentralSettings
    /// Where it gets its time from.
    public nonisolated let clock: UptimeClock
    let mailbox = Mailbox<CentralEvent>(capacity: eventsMax)
    private let connect: Connect

    var client: BlueZClient?
    private var generation: UInt64 = 0
    private var isStopping = false
    /// Events follow.
    var isRunning = false
    var isWatched = false
    var caughtUp = CatchUp()
    /// For whom frames gather on the present connection.
    var gatheringFor = FrameAudience.aFirstFrame
    private var pause: Task<Void, Never>?

    var daemon = DaemonPresence()
    var pulse: DaemonPulse
    /// By their object paths.
    var adapters: [String: WatchedAdapter] = [:]
    /// By the adapters' addresses: what is owed outlives bluetoothd and a re-plug.
    var powers: [String: AdapterPower] = [:]
    var adaptersOwed: Set<String> = []
    /// Inspections so far: the end of one must not end the link of a later one.
    var inspections = 0
    /// Inspections under way, by their numbers.
    var underWay: [Int: InspectionUnderWay] = [:]
    /// Inspections whose sensor has not been heard.
    var sought: Set<Int> = []
    var resets: [Uptime] = []
    /// Devices that are watched or offer the service, by address and path.
    var devices: [String: [String: Device]] = [:]
    var heardAt: [String: Uptime] = [:]
    var links: [String: WatchedLink] = [:]
    /// The link that a characteristic's notifications belong to.
    var subscribers: [String: WatchedLink] = [:]
    var scanRequests = 0

    private var alarm: Task<Void, Never>?
    private var alarmAt: Uptime?

    /// Makes a central that does nothing before `run`. It calls `connect` for each connection to the bus
    /// that it needs.
    public init(
        settings: CentralSettings, clock: UptimeClock = .system,
        connect: @escaping Connect = { () async throws(DBusFault) in try await DBusConnection.open()
        }
    ) {
        self.settings = settings
        self.clock = clock
        self.connect = connect
        pulse = DaemonPulse(at: clock.now())
        adaptersOwed = settings.adaptersOwed
    }

    /// The events, in batches. For one consumer; ends after `run` has.
    public nonisolated func events() -> AsyncStream<[CentralEvent]> { mailbox.stream() }

    /// Works until `stop` or until the task is cancelled. Never gives up.
    public func run() async {
        isRunning = true
        var backoff = Self.busPause
        while !isStopping, !Task.isCancelled {
            do throws(DBusFault) {
                let connection = try await connect()
                // Stopped meanwhile: `stop` found no client to close.
                if isStopping {
                    connection.close()
                    break
                }
                try await serve(
                    BlueZClient(
                        connection: connection, generation: generation, clock: clock,
                        tasks: settings.tasks))
                backoff.reset()
            } catch {
                mailbox.post([.callFailed(CallFailure(member: "connect to the bus", fault: error))])
            }
            // All that came has been handed over, and a connection that has ended answers no question any more.
            mailbox.post([.caughtUp(number: caughtUp.lastNumber), .bus(isPresent: false)])
            guard !isStopping, !Task.isCancelled else { break }
            let length = backoff.next()
            let pause = Task { [clock] in await clock.sleep(length) }
            self.pause = pause
            await withTaskCancellationHandler {
                await pause.value
            } onCancel: {
                pause.cancel()
            }
        }
        alarm?.cancel()
        isRunning = false
        mailbox.finish()
    }

    /// Frames are handed over sooner, which costs more, while a screen shows rates.
    public func setWatched(_ isWatched: Bool) {
        self.isWatched = isWatched
        settleAudience()
    }

    /// Works over one connection until it ends. `stop` closes it, whatever is being waited for.
    private func serve(_ client: BlueZClient) async throws(DBusFault) {
        self.client = client
        daemon.connect(at: clock.now())
        defer {
            self.client = nil
            loseDaemon()
        }
        try await client.start()
        gatheringFor = .aFirstFrame
        settleAudience()
        mailbox.post([.bus(isPresent: true)])
        await withTaskCancellationHandler {
            for await batch in client.events() { take(batch) }
        } onCancel: {
            Task { await client.close() }
        }
        generation = await client.generation
    }

    /// Watches a sensor: connects to it and subscribes, as long as it is watched.
    ///
    /// - Parameters:
    ///   - address: the sensor's, in upper case with colons.
    ///   - service: the 128-bit UUID of the service.
    ///   - characteristic: the 128-bit UUID of the characteristic that notifies.
    public func watch(address: String, service: String, characteristic: String) {
        watch(address, service, characteristic, isTemporary: false)
    }

    @discardableResult
    func watch(
        _ address: String, _ service: String, _ characteristic: String, isTemporary: Bool
    ) -> WatchedLink {
        let address = address.uppercased()
        if let link = links[address] {
            let isEnding = link.machine.state == .draining && !link.isWantedAgain
            link.isTemporary = isTemporary && (link.isTemporary || isEnding)
            link.isWantedAgain = link.machine.state == .draining
            return link
        }
        // Each link has its own jitter: straps lost together do not come back together.
        let seed = address.utf8.reduce(settings.seed) { ($0 ^ UInt64($1)) &* 0x100_0000_01B3 }
        let machine = SensorLink(policy: settings.policy, seed: seed)
        let link = WatchedLink(
            address: address, service: service.lowercased(),
            characteristic: characteristic.lowercased(), machine: machine,
            isTemporary: isTemporary)
        links[address] = link
        Task { await self.introduce(link) }
        return link
    }

    /// Stops watching: unsubscribes and disconnects.
    public func unwatch(address: String) {
        guard let link = links[address.uppercased()] else { return }
        link.isWantedAgain = false
        handle(.release, link)
        settle()
    }

    /// Tells whether the sensor is worn, as far as its frames tell: decides how long silence is borne.
    public func note(contact isWorn: Bool, of address: String) {
        guard let link = links[address.uppercased()], link.machine.isWorn != isWorn else { return }
        handle(.contact(isWorn), link)
        settle()
    }

    /// The links as they stand, ordered by address.
    public func snapshots() -> [LinkSnapshot] {
        let strangers = heardStrangers()
        return links.values.sorted { $0.address < $1.address }.map { link in
            let device = link.device.flatMap { devices[link.address]?[$0] }
            return LinkSnapshot(
                address: link.address, state: link.machine.state, reason: link.machine.reason,
                rssi: device?.rssi, trouble: trouble(of: link, among: strangers),
                adapter: link.adapter.flatMap { adapters[$0]?.object.address },
                upSince: link.upSince,
                fixedAge: link.ages.fixedAge(current: link.upSince.map { clock.now() - $0 }))
        }
    }

    /// The adapters and how their radios do, ordered by path.
    public func adapterSnapshots() -> [AdapterSnapshot] {
        knownAdapters().map { adapter in
            // Frames come by the same radio.
            let streams = links.values.contains {
                $0.adapter == adapter.path && $0.machine.isStreaming && $0.machine.hasFrame
            }
            return AdapterSnapshot(
                adapter: adapter,
                silentSince: streams ? nil : adapters[adapter.path]?.watch.silentSince,
                isFull: isFull(adapter.path),
                linkCount: linkCount(of: adapter.path))
        }
    }

    /// The adapters that bluetoothd has, ordered by path.
    public func knownAdapters() -> [Adapter] {
        adapters.values.map(\.object).sorted { $0.path < $1.path }
    }

    /// Ends everything: discovery, the links if asked for, the bus connection.
    ///
    /// - Parameter disconnecting: end the links. Links left up are adopted by the next run.
    public func stop(disconnecting: Bool) async {
        guard !isStopping else { return }
        isStopping = true
        pause?.cancel()
        if disconnecting {
            for link in links.values {
                link.isWantedAgain = false
                handle(.release, link)
            }
            settle()
            let until = clock.now() + Self.stopPatience
            while !links.isEmpty, clock.now() < until { await clock.sleep(.milliseconds(20)) }
        }
        // Nothing is tried any more. Subscribers stay: frames that wait in the connection come yet.
        links = [:]
        if let client {
            let scanning = adapters.filter { [.on, .starting].contains($0.value.radio.scan) }
            // One that hangs ends the scan when this connection ends.
            for path in scanning.keys where !pulse.isInDoubt {
                try? await client.stopDiscovery(path, deadline: Self.stopCallPatience)
            }
            await settlePowerDebts(client)
            if !scanning.isEmpty { await clock.sleep(Self.quiesce) }
            await client.close()
        }
    }

    // MARK: Time

    /// Brings scanning, gathering and the alarm into line with what the links want now.
    func settle() {
        settleScans()
        settleAudience()
        pulse.expectsFrames = links.values.contains { $0.machine.isStreaming }
        var deadlines = adapters.values.compactMap(\.radio.nextDeadline)
        deadlines += powers.values.compactMap(\.nextDeadline)
        deadlines += links.values.compactMap { isHeld($0) ? nil : nextLook(at: $0) }
        deadlines += links.values.compactMap(\.failures.forgottenAt)
        if let asksAgainAt = daemon.asksAgainAt { deadlines.append(asksAgainAt) }
        if !pulse.isInDoubt { deadlines += adapters.values.compactMap(\.watch.nextDeadline) }
        if daemon.isPresent, daemon.asksAgainAt == nil, let next = pulse.nextDeadline {
            deadlines.append(next)
        }
        guard let next = deadlines.min() else { return }
        if let alarmAt, alarmAt <= next { return }
        alarm?.cancel()
        alarmAt = next
        let pause = max(.zero, next - clock.now())
        alarm = Task(executorPreference: settings.tasks) { [weak self, clock] in
            await clock.sleep(pause)
            if !Task.isCancelled { await self?.alarmFired() }
        }
    }

    private func alarmFired() {
        alarmAt = nil
        let now = clock.now()
        if let asksAgainAt = daemon.asksAgainAt {
            if asksAgainAt <= now { askAgain() }
        } else if daemon.isPresent, pulse.tick(at: now) {
            askDaemon()
        }
        for link in links.values {
            if link.failures.forgottenAt.map({ $0 <= now }) ?? false {
                forgetFailures(of: link, at: now)
            }
            guard !isHeld(link), nextLook(at: link).map({ $0 <= now }) ?? false else { continue }
            if isSilent(link, at: now) { handle(.tick, link) }
        }
        for (address, power) in powers where power.nextDeadline.map({ $0 <= now }) ?? false {
            handle(.tick, powerOf: address)
        }
        for (path, adapter) in adapters
        where adapter.radio.nextDeadline.map({ $0 <= now }) ?? false {
            handle(.tick, radioAt: path)
        }
        for path in adapters.keys where !pulse.isInDoubt {
            let hasLinks = linkCount(of: path) > 0
            let action = adapters[path]?.watch.tick(hasLinks: hasLinks, at: now)
            perform(action, radioAt: path)
        }
        settle()
    }
}
