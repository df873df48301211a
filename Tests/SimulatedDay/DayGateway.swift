import Basics
import BlueZ
import GATTHeartRate
import Health
import Logging
import OfflineQueue
import Recording
import VirtualTime

/// The gateway's radio and store as the daemon wires them, under virtual time: all of the product
/// from the bus connection to the committed row.
actor DayGateway {
    private let path: String
    private let clock: VirtualWallClock
    private let connect: Central.Connect
    private let seed: UInt64
    /// Prints what the radio tells.
    private let isTraced: Bool
    private(set) var queue: SampleQueue?
    private var central: Central?
    private var recorder: Recorder?
    private var tasks: [Task<Void, Never>] = []
    private var history = HealthHistory()
    /// What the store had of each strap at the last looks, since the start.
    private var stored: [[Int64: Int]] = []
    /// Straps of which nothing was stored while the gateway would have said that it is well.
    private(set) var falseWells: [String] = []

    init(
        path: String, clock: VirtualWallClock, seed: UInt64, isTraced: Bool,
        connect: @escaping Central.Connect
    ) {
        self.isTraced = isTraced
        self.path = path
        self.clock = clock
        self.seed = seed
        self.connect = connect
    }

    /// Starts the daemon, and pairs the straps if they are not known yet.
    func start(straps: [String]) async throws {
        guard queue == nil else { return }
        var settings = CentralSettings(service: HeartRateService.service)
        settings.seed = seed
        var store = QueueSettings()
        store.framesUnderWayMax = CentralSettings.gatherPauseMax(frameAgeMax: settings.frameAgeMax)
        let queue = try SampleQueue(
            path: path, settings: store, clock: clock, bootID: "simulated",
            executor: VirtualExecutors.gateway)
        let central = Central(settings: settings, clock: .virtual, connect: connect)
        let recorder = Recorder(
            queue: queue, central: central, clock: clock, policy: .clinical,
            needsContact: true, logger: Logger(label: "day") { _ in SwiftLogNoOpLogHandler() })
        self.queue = queue
        history = HealthHistory()
        stored = []
        errors = [:]
        self.central = central
        self.recorder = recorder
        if try await queue.sensors().isEmpty {
            for strap in straps {
                let sensor = try await queue.addSensor(address: strap, details: SensorDetails())
                _ = try await queue.assign(
                    sensor: sensor.id, enrollment: nil, patient: nil, since: nil)
            }
        }
        for sensor in try await queue.sensors() {
            await recorder.record(address: sensor.address, sensorID: sensor.id)
            await central.watch(
                address: sensor.address, service: HeartRateService.service,
                characteristic: HeartRateService.measurement)
        }
        let events = central.events()
        tasks = [
            Task { await central.run() },
            Task {
                for await batch in events {
                    await recorder.take(batch)
                    self.count(batch)
                    if self.isTraced { Self.trace(batch) }
                }
            },
            Task {
                while !Task.isCancelled {
                    await VirtualExecutors.time.sleep(.seconds(1))
                    await queue.commitIfDue()
                    try? await queue.noteClock(self.clock.read())
                }
            },
        ]
    }

    private static func trace(_ batch: [CentralEvent]) {
        for event in batch {
            switch event {
            case .frame, .sighting: continue
            case .link(let link):
                print(
                    link.uptime.microseconds / 1_000_000, link.address.suffix(2), link.state.name,
                    link.reason.name)
            default: print(VirtualExecutors.time.now / 1_000_000, event)
            }
        }
    }

    /// Stops the daemon as systemd does; the links stay up.
    func stop() async throws {
        guard queue != nil else { return }
        await recorder?.stop()
        await central?.stop(disconnecting: false)
        for task in tasks { task.cancel() }
        for task in tasks { await task.value }
        try await queue?.close()
        queue = nil
    }

    /// Minutes for which nothing of a strap may be stored before something must be said of it.
    private static let unnoticedMinutesMax = 2

    /// Judges health as the daemon does, once a minute: of a strap whose frames are not stored there must be
    /// an item, or one of radio or store that says why.
    func lookAtHealth() async throws {
        guard let queue, let central, let recorder else { return }
        let reading = clock.read()
        let health = RecordingHealth(recorder: recorder, central: central, queue: queue)
        let (snapshot, counts) = await health.read(reading, history: history)
        history.note(counts, at: reading.uptime)
        stored = stored.suffix(Self.unnoticedMinutesMax) + [counts.stored]
        guard stored.count > Self.unnoticedMinutesMax else { return }
        // There is no delivery in this world.
        let conditions = HealthRules.conditions(of: snapshot).filter { $0.name != .notEnrolled }
        for sensor in try await queue.sensors()
        where stored.first?[sensor.id] == counts.stored[sensor.id] {
            let waitsForPlace = snapshot.straps.contains {
                $0.id == sensor.id && $0.trouble == .noPlace
            }
            let isSaid = conditions.contains {
                $0.subject == "\(sensor.id)" || Self.saysItForAll.contains($0.name)
                    || $0.name == .adapterFull && waitsForPlace
            }
            if !isSaid {
                let minute = reading.uptime.microseconds / 60_000_000
                falseWells.append("minute \(minute): nothing of strap \(sensor.id) is stored: well")
            }
        }
    }

    private static let saysItForAll: Set<HealthName> = [
        .busAbsent, .bluetoothdAbsent, .bluetoothdHung, .bluetoothdRefuses, .noAdapter, .radioOff,
        .storeUnreadable,
        .storeUnwritable, .storeStalled, .queueFull,
    ]

    /// Links as they stand, for a report of what went wrong.
    func links() async -> [String] {
        await central?.snapshots().map { "\($0.address) \($0.state.name) \($0.reason.name)" } ?? []
    }

    /// Errors of BlueZ since the last start, by class.
    private(set) var errors: [BlueZErrorClass: Int] = [:]

    private func count(_ batch: [CentralEvent]) {
        for case .callFailed(let failure) in batch {
            errors[BlueZErrorClass(failure.fault), default: 0] += 1
        }
    }
}
