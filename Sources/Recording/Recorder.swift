import Basics
import BlueZ
import GATTHeartRate
import Logging
import OfflineQueue

/// Takes the events of the radio and puts frames into the queue, in order of arrival.
public actor Recorder {
    /// The abilities of the radio.
    public enum Radio: Sendable, Equatable {
        /// Nothing was told yet.
        case unknown
        case ready, noBus, noDaemon, noAdapter, poweredOff
        /// bluetoothd is on the bus and has not answered since then.
        case hung(since: Uptime)
        /// bluetoothd is there, and it or the bus refuses the gateway with this error.
        case refused(DBusFault)
    }

    /// So often at most the sessions are told that bluetoothd does something: a frame that comes after a rest is dated no
    /// closer.
    private static let alivePause = Duration.milliseconds(500)

    let queue: SampleQueue
    let central: Central
    let clock: any GatewayClock
    let policy: DecodePolicy
    /// Whether a rate without skin contact counts as none.
    public nonisolated let needsContact: Bool
    private let logger: Logger

    var sessions: [String: SensorSession] = [:]
    var links: [String: LinkChange] = [:]
    /// When each sensor's latest link was made. Its frames may come after its end: bluetoothd keeps them while it hangs.
    var linkBegins: [String: Uptime] = [:]
    /// By the address of a strap that is being paired.
    var heard: [String: HeardFrames] = [:]
    /// Links that stream and of which no frame is stored yet.
    private var linksWithoutFrame: Set<String> = []
    /// The daemon leaves.
    public private(set) var isStopping = false
    /// bluetoothd is on the bus and does not answer.
    public var isHung: Bool { hungSince != nil }
    /// Since when it has not answered; nil while it does.
    public private(set) var hungSince: Uptime?
    /// By the store's number of the sensor.
    private(set) var addressesToStore: [Int64: String] = [:]
    /// When the sessions were last told that bluetoothd does something.
    private var aliveTold: Uptime?
    private var alarm: Task<Void, Never>?
    private var alarmAt: Uptime?
    private var catchUps = CatchUpWaiters()
    private var failedCalls = CallFailureLog()
    var isBusPresent: Bool?
    var isDaemonPresent = false
    /// Since when the bus is there, while nothing was told of bluetoothd.
    var awaitedSince: Uptime?
    /// The answer of bluetoothd or the bus in place of its objects.
    var refusal: DBusFault?
    var adaptersPowered: [String: Bool] = [:]

    /// A recorder without a sensor yet; `policy` is that for disputed frames. With `needsContact`, a rate without
    /// skin contact counts as none, because it is not delivered.
    public init(
        queue: SampleQueue, central: Central, clock: any GatewayClock, policy: DecodePolicy,
        needsContact: Bool, logger: Logger
    ) {
        self.queue = queue
        self.central = central
        self.clock = clock
        self.policy = policy
        self.needsContact = needsContact
        self.logger = logger
    }

    // MARK: - From the radio

    /// Takes a batch of events; returns when its frames are in the queue.
    public func take(_ batch: [CentralEvent]) async {
        let now = clock.read()
        var arrivals: [Arrival] = []
        var hasLinkEnded = false
        for event in batch {
            switch event {
            case .frame(let frame):
                arrivals += await take(frame, now)
                if hasContactChanged(of: frame.address) {
                    await append(arrivals)
                    arrivals = []
                    await noteSilence(of: frame.address, at: frame.uptime)
                }
            case .link(let change):
                if case .streaming = links[change.address]?.state { hasLinkEnded = true }
                // Earlier frames are stored first: the ledger of gaps depends on the order.
                arrivals += follow(change, now)
                await append(arrivals)
                arrivals = []
                await take(change)
            case .bus(let isPresent):
                isBusPresent = isPresent
                if !isPresent { loseDaemon() }
                awaitedSince = isPresent ? now.uptime : nil
            case .caughtUp(let number):
                await append(arrivals)
                arrivals = []
                catchUps.answer(number)
            case .daemon(let isPresent):
                isDaemonPresent = isPresent
                awaitedSince = nil
                refusal = nil
                if !isPresent { loseDaemon() }
                if !isStopping {
                    logger.notice("bluetoothd \(isPresent ? "is there" : "is gone")")
                }
            case .daemonHung(let since):
                await append(arrivals)
                arrivals = []
                await noteHang(since: since, now)
            case .daemonAnswered(let asked, let uptime):
                noteAlive(since: asked, at: uptime)
            case .daemonRefused(let fault):
                refusal = fault
                awaitedSince = nil
                logger.error("bluetoothd does not let the gateway in: \(fault.name)")
            case .callFailed(let failure):
                guard failedCalls.admits(failure, at: now.uptime) else { continue }
                logger.notice("\(failure.member) failed: \(failure.fault)")
            case .renamed(let old, let new):
                await append(arrivals)
                arrivals = []
                await rename(old, to: new)
            case .adapter(let adapter): adaptersPowered[adapter.address] = adapter.isPowered
            case .adapterRemoved(let address): adaptersPowered[address] = nil
            case .adapterReset:
                logger.warning("adapter is reset: it was busy, deaf, or connected no strap")
            case .battery(let address, let percent): noteBattery(percent, of: address)
            case .sighting: break
            }
        }
        await append(arrivals)
        settleIntakes()
        // Nothing more comes for a while: what is in memory need not wait for its group.
        if takeBegunLinks() || hasLinkEnded { await flush() }
    }

    /// Whether some link has its first frame since the last call: an interruption ends when a sample is durable,
    /// not when its group is full.
    private func takeBegunLinks() -> Bool {
        let begun = linksWithoutFrame.filter { sessions[$0]?.linkHasFrame ?? true }
        linksWithoutFrame.subtract(begun)
        return !begun.isEmpty
    }

    /// Stores what waits for its group. A failure shows in the store's health.
    private func flush() async { try? await queue.flush() }

    private func take(_ frame: SensorFrame, _ now: ClockReading) async -> [Arrival] {
        heard[frame.address]?.take(frame, linked: linkBegins[frame.address])
        let arrivals =
            sessions[frame.address]?.take(
                frame.bytes, uptime: frame.uptime, now: now, policy: policy) ?? []
        noteAlive(since: frame.uptime, at: frame.uptime)
        await tellIntake(of: frame.address, at: frame.uptime)
        return arrivals
    }

    /// Tells all sessions that bluetoothd did something after one uptime, as the gateway knew at another.
    private func noteAlive(since: Uptime, at uptime: Uptime) {
        guard aliveTold.map({ uptime - $0 >= Self.alivePause }) ?? true else { return }
        aliveTold = uptime
        for address in sessions.keys { sessions[address]?.noteAlive(since: since, at: uptime) }
    }

    // MARK: - Frames that are kept back

    /// Frames of a link come to their times when it ends, and none was sent before it began.
    private func follow(_ change: LinkChange, _ now: ClockReading) -> [Arrival] {
        if case .streaming = change.state {
            linksWithoutFrame.insert(change.address)
            linkBegins[change.address] = change.uptime
            return sessions[change.address]?.beginLink(
                at: change.uptime, now: now, policy: policy) ?? []
        }
        return sessions[change.address]?.release(now: now, policy: policy) ?? []
    }

    /// Tells what the frames that came to their times show: the store, of copies and how often the strap sends; the radio, of
    /// the skin contact; and the strap, that its energy count is full.
    func tellIntake(of address: String, at uptime: Uptime) async {
        guard let copies = sessions[address]?.newCopies(),
            let sensor = sessions[address]?.sensorID
        else { return }
        if let contact = sessions[address]?.newContact() { noteContact(contact, of: address) }
        if sessions[address]?.needsEnergyReset() == true { resetEnergy(of: address) }
        let cadence = sessions[address]?.newCadence()
        if copies > 0 { await queue.note(copies: copies, of: sensor) }
        if let cadence {
            await queue.note(cadence: cadence, of: sensor, at: uptime)
        }
    }

    /// Sees to it that frames that are kept back do not wait for the next one.
    func settleIntakes() {
        guard let next = sessions.values.compactMap(\.deadline).min() else { return }
        if let alarmAt, alarmAt <= next { return }
        alarm?.cancel()
        alarmAt = next
        let pause = max(.zero, next - clock.read().uptime)
        alarm = Task(executorPreference: queue.tasks) {
            [weak self, clock = central.clock] in
            await clock.sleep(pause)
            if !Task.isCancelled { await self?.releaseDue() }
        }
    }

    private func releaseDue() async {
        // Frames that follow closely on another may have come and gather still.
        let due = clock.read().uptime
        await catchUp()
        alarmAt = nil
        await release(sessions.keys.sorted(), by: due)
        settleIntakes()
    }

    /// Stores frames of these straps that are kept back and are due by then; all of them if it is nil.
    func release(_ addresses: [String], by due: Uptime? = nil) async {
        let now = clock.read()
        var arrivals: [Arrival] = []
        for address in addresses {
            arrivals += sessions[address]?.release(by: due, now: now, policy: policy) ?? []
        }
        await append(arrivals)
        for address in addresses {
            await tellIntake(of: address, at: now.uptime)
        }
        if takeBegunLinks() { await flush() }
    }

    /// bluetoothd does not answer since then, or answers again (nil).
    private func noteHang(since: Uptime?, _ now: ClockReading) async {
        hungSince = since
        for address in sessions.keys.sorted() {
            if sessions[address]?.silence.follow(isHung: isHung) == true {
                await noteSilence(of: address, at: since ?? now.uptime)
            }
        }
        guard !isStopping else { return }
        if isHung {
            logger.warning("bluetoothd does not answer")
        } else {
            logger.notice("bluetoothd answers again")
        }
    }

    /// bluetoothd knows a sensor by its identity address from now on.
    private func rename(_ old: String, to new: String) async {
        if let frames = heard.removeValue(forKey: old) {
            heard[new] = frames.joined(with: heard[new])
        }
        if let change = links.removeValue(forKey: old) { links[new] = change }
        if let begin = linkBegins.removeValue(forKey: old) { linkBegins[new] = begin }
        // A strap that is recorded under its identity address already goes on so.
        guard sessions[new] == nil, let session = sessions.removeValue(forKey: old) else { return }
        sessions[new] = session
        addressesToStore[session.sensorID] = new
        await storeAddresses()
    }

    /// Stores the addresses that bonding has revealed and that the store did not take.
    public func storeAddresses() async {
        for (sensor, address) in addressesToStore {
            do {
                try await queue.readdress(sensor: sensor, to: address)
                addressesToStore[sensor] = nil
            } catch {
                logger.error("note the strap's new address: \(error)")
            }
        }
    }

    /// A strap whose energy count has reached its end counts on only after a reset.
    private func resetEnergy(of address: String) {
        Task { [central, logger] in
            do throws(DBusFault) {
                try await central.write(
                    HeartRateControlPoint.resetEnergyExpended, to: HeartRateService.controlPoint,
                    of: address)
            } catch {
                logger.debug("reset energy: \(error.name)")
            }
        }
    }

    private func noteContact(_ contact: SensorContact, of address: String) {
        Task { await central.note(contact: contact != .notDetected, of: address) }
    }

    private func hasContactChanged(of address: String) -> Bool {
        guard let contact = sessions[address]?.latest?.contact else { return false }
        return sessions[address]?.silence.follow(contact: contact) ?? false
    }

    /// Tells the store what explains a silence of this strap from now on.
    func noteSilence(of address: String, at uptime: Uptime) async {
        guard let session = sessions[address] else { return }
        await queue.note(session.silence.cause, of: session.sensorID, at: uptime)
    }

    private func take(_ change: LinkChange) async {
        links[change.address] = change
        if sessions[change.address]?.silence.follow(change) == true {
            await noteSilence(of: change.address, at: change.uptime)
        }
        logger.info(
            "link \(change.state.name)",
            metadata: [
                "sensor": "\(Self.masked(change.address))", "reason": "\(change.reason.name)",
            ])
        if case .streaming = change.state, sessions[change.address] != nil {
            Task { await readBattery(of: change.address) }
        }
    }

    /// The daemon leaves: what ends from now on ends because of us.
    public func stop() async {
        isStopping = true
        await catchUp()
        await release(sessions.keys.sorted())
    }

    /// No frame follows: those that are kept back need not wait for one.
    public func finish() async { await release(sessions.keys.sorted()) }

    // MARK: - Frames that are under way

    /// Returns when all that has come by now has been taken: it is in the queue, but for frames whose times are not
    /// clear yet.
    ///
    /// Returns false if that takes longer than `patience`: milliseconds are usual, but a disk may hold up the queue.
    @discardableResult
    public func catchUp(patience: Duration = .seconds(2)) async -> Bool {
        guard let number = await central.catchUp() else { return true }
        let alarm = Task { [clock = central.clock] in
            await clock.sleep(patience)
            if !Task.isCancelled { catchUps.giveUp(number) }
        }
        defer { alarm.cancel() }
        return await withCheckedContinuation { catchUps.add($0, number) }
    }

    private func loseDaemon() {
        isDaemonPresent = false
        refusal = nil
        adaptersPowered = [:]
    }

    func append(_ arrivals: [Arrival]) async {
        guard !arrivals.isEmpty else { return }
        do {
            try await queue.append(contentsOf: arrivals)
        } catch {
            logger.critical("append samples: \(error)")
        }
    }

    /// Where bluetoothd does not tell the battery by itself, it is read at each connect.
    private func readBattery(of address: String) async {
        guard let value = try? await central.read(BatteryService.level, of: address) else { return }
        noteBattery(value: value, of: address)
    }

    /// Takes the value of a Battery Level characteristic over.
    public func noteBattery(value: [UInt8], of address: String) {
        guard let level = try? BatteryLevel(value: value) else { return }
        noteBattery(Int(level.percent), of: address)
    }

    /// A sensor's battery, in percent; nil: it has none to tell of any more.
    public func noteBattery(_ percent: Int?, of address: String) {
        sessions[address]?.batteryPercent = percent
    }

    /// An address as it may stand in a log: the last two octets.
    public static func masked(_ address: String) -> String {
        "…" + address.suffix(5)
    }
}
