import BlueZ
import GATTHeartRate
import Logging
import OfflineQueue

/// Takes what the radio tells and puts frames into the queue, in order of arrival.
public actor Recorder {
    /// What the radio is able to do.
    public enum Radio: Sendable, Equatable {
        /// Nothing was told yet.
        case unknown
        case ready, noBus, noDaemon, noAdapter, poweredOff
    }

    /// Frames of a sensor that is being paired wait for its assignment, this many at most: the first
    /// heartbeat comes within seconds of the first frame, and sensors send about one a second.
    private static let waitingFramesMax = 240

    private let queue: SampleQueue
    private let central: Central
    private let clock: any GatewayClock
    private let policy: DecodePolicy
    private let logger: Logger

    private var sessions: [String: SensorSession] = [:]
    private var links: [String: LinkChange] = [:]
    private var waiting: [String: [SensorFrame]] = [:]
    private var isStopping = false
    private var isBusPresent: Bool?
    private var isDaemonPresent = false
    private var adaptersPowered: [String: Bool] = [:]

    /// A recorder that records nobody yet.
    ///
    /// - Parameter policy: for disputed frames.
    public init(
        queue: SampleQueue, central: Central, clock: any GatewayClock, policy: DecodePolicy,
        logger: Logger
    ) {
        self.queue = queue
        self.central = central
        self.clock = clock
        self.policy = policy
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
                guard let arrival = take(frame, now) else { continue }
                arrivals.append(arrival)
                if hasContactChanged(of: frame.address) {
                    await append(arrivals)
                    arrivals = []
                    await noteSilence(of: frame.address, at: frame.uptimeMicroseconds)
                }
            case .link(let change):
                if case .streaming = links[change.address]?.state { hasLinkEnded = true }
                // What came before is stored before: the ledger of gaps goes by the order.
                await append(arrivals)
                arrivals = []
                await take(change)
            case .bus(let isPresent):
                isBusPresent = isPresent
                if !isPresent { loseDaemon() }
            case .daemon(let isPresent):
                isDaemonPresent = isPresent
                if !isPresent { loseDaemon() }
                if !isStopping {
                    logger.notice("bluetoothd \(isPresent ? "is there" : "is gone")")
                }
            case .adapter(let adapter): adaptersPowered[adapter.address] = adapter.isPowered
            case .adapterRemoved(let address): adaptersPowered[address] = nil
            case .adapterReset: logger.warning("adapter is reset: it stayed busy or deaf")
            case .battery(let address, let percent): noteBattery(percent, of: address)
            case .sighting: break
            }
        }
        await append(arrivals)
        // Nothing more comes for a while: what is in memory need not wait for its group. A failure
        // shows in the store's health.
        if hasLinkEnded { try? await queue.flush() }
    }

    private func take(_ frame: SensorFrame, _ now: ClockReading) -> Arrival? {
        if let count = waiting[frame.address]?.count {
            // The assignment begins with the oldest that is kept: those before are nobody's.
            if count >= Self.waitingFramesMax { waiting[frame.address]?.removeFirst() }
            waiting[frame.address]?.append(frame)
            return nil
        }
        let before = sessions[frame.address]
        let arrival = receive(frame, now)
        guard let before, let after = sessions[frame.address] else { return arrival }
        if let contact = after.latest?.contact, contact != before.latest?.contact {
            noteContact(contact, of: frame.address)
        }
        if after.wantsEnergyReset, !before.wantsEnergyReset { resetEnergy(of: frame.address) }
        return arrival
    }

    private func receive(_ frame: SensorFrame, _ now: ClockReading) -> Arrival? {
        sessions[frame.address]?.receive(
            frame.bytes, uptime: frame.uptimeMicroseconds, now: now, policy: policy)
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
    private func noteSilence(of address: String, at uptime: Int64) async {
        guard let session = sessions[address] else { return }
        await queue.note(session.silence.cause, of: session.assignmentID, at: uptime)
    }

    private func take(_ change: LinkChange) async {
        links[change.address] = change
        if sessions[change.address]?.silence.follow(change) == true {
            await noteSilence(of: change.address, at: change.uptimeMicroseconds)
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
    public func stop() { isStopping = true }

    private func loseDaemon() {
        isDaemonPresent = false
        adaptersPowered = [:]
    }

    private func append(_ arrivals: [Arrival]) async {
        guard !arrivals.isEmpty else { return }
        do {
            try await queue.append(contentsOf: arrivals)
        } catch {
            // Only a frame of an assignment that is not in the store can cause this.
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

    /// A sensor's battery, in percent.
    public func noteBattery(_ percent: Int, of address: String) {
        sessions[address]?.batteryPercent = percent
    }

    // MARK: - Who wears what

    /// Frames of this sensor wait for an assignment from now on.
    public func beginPairing(_ address: String) {
        if sessions[address] == nil { waiting[address] = [] }
    }

    /// No assignment came: what waited was nobody's.
    public func abandonPairing(_ address: String) {
        waiting[address] = nil
    }

    /// The last frame that waits, decoded: the proof of life.
    public func firstMeasurement(of address: String) -> HeartRateMeasurement? {
        guard let waiting = waiting[address] else { return sessions[address]?.latest }
        return waiting.reversed().lazy
            .compactMap { try? HeartRateMeasurement(frame: $0.bytes, policy: self.policy) }
            .first { $0.bpm > 0 }
    }

    /// When the first frame that waits arrived, `CLOCK_BOOTTIME` µs.
    public func firstArrival(of address: String) -> Int64? {
        waiting[address]?.first?.uptimeMicroseconds
    }

    /// Stores this sensor's frames under an assignment, those that waited first.
    public func record(address: String, sensorID: Int64, assignmentID: Int64) async {
        if let session = sessions[address] {
            sessions[address]?.assignmentID = assignmentID
            await queue.note(
                session.silence.cause, of: assignmentID, at: clock.read().uptimeMicroseconds)
            return
        }
        var session = SensorSession(
            sensorID: sensorID, assignmentID: assignmentID,
            uptime: clock.read().uptimeMicroseconds)
        // More may come while these are stored; they wait behind them.
        while let frames = waiting[address], !frames.isEmpty {
            waiting[address] = []
            let now = clock.read()
            await append(
                frames.map {
                    session.receive(
                        $0.bytes, uptime: $0.uptimeMicroseconds, now: now, policy: policy)
                })
        }
        waiting[address] = nil
        // A sensor that was just paired has a link; one of an earlier run waits for bluetoothd.
        if let change = links[address] { _ = session.silence.follow(change) }
        sessions[address] = session
        await noteSilence(of: address, at: clock.read().uptimeMicroseconds)
    }

    /// Stores nothing of this sensor any more.
    public func forget(_ address: String) {
        sessions[address] = nil
        links[address] = nil
        waiting[address] = nil
    }

    // MARK: - How it is

    /// What the radio is able to do now.
    public var radio: Radio {
        guard let isBusPresent else { return .unknown }
        if !isBusPresent { return .noBus }
        if !isDaemonPresent { return .noDaemon }
        if adaptersPowered.isEmpty { return .noAdapter }
        return adaptersPowered.values.contains(true) ? .ready : .poweredOff
    }

    /// What is known of a recorded sensor.
    public func session(of address: String) -> SensorSession? { sessions[address] }

    /// What is known of every recorded sensor, by address.
    public var recorded: [String: SensorSession] { sessions }

    /// Where the link of a sensor stands, and why it does not stream.
    public func link(of address: String) -> (state: String, detail: String?) {
        guard let change = links[address] else { return ("absent", nil) }
        switch change.state {
        case .streaming: return ("streaming", nil)
        case .suspended(let what): return ("suspended", "\(what.rawValue), \(change.reason.name)")
        default: return (change.state.name, change.reason.name)
        }
    }

    /// How long a recorded sensor has sent nothing, in seconds.
    public func silentSeconds(of address: String, uptime: Int64) -> Double {
        sessions[address]?.silentSeconds(uptime: uptime) ?? 0
    }

    /// An address as it may stand in a log: the last two octets.
    public static func masked(_ address: String) -> String {
        "…" + address.suffix(5)
    }
}
