import Basics
import Testbed

@testable import BlueZ

/// A central, the simulated org.bluez, and all events so far.
actor Stage {
    static let service = "0000180d-0000-1000-8000-00805f9b34fb"
    static let measurement = "00002a37-0000-1000-8000-00805f9b34fb"
    static let strap = "C0:00:00:00:00:01"

    nonisolated let bus: PrivateBus
    nonisolated let bluez: SimulatedBlueZ
    nonisolated let central: Central
    private(set) var events: [CentralEvent] = []
    private var waiters:
        [(id: Int, isMet: @Sendable ([CentralEvent]) -> Bool, CheckedContinuation<Bool, Never>)] =
            []
    private var nextID = 0
    private var running: Task<Void, Never>?

    init(
        straps: [String] = [Stage.strap], adapters: [SimulatedAdapter] = [SimulatedAdapter()],
        habits change: @Sendable (inout BlueZHabits) -> Void = { _ in },
        settings adjust: @Sendable (inout CentralSettings) -> Void = { _ in },
        each dress: @Sendable (inout SimulatedStrap) -> Void = { _ in },
        over wrap: @escaping @Sendable (DBusConnection) -> any BusConnection = { $0 }
    ) async throws {
        let bus = try await PrivateBus.start()
        self.bus = bus
        var habits = BlueZHabits()
        habits.advertMilliseconds = 50
        habits.disconnectMilliseconds = 100
        change(&habits)
        let heart = try RecordedHeart.fiveMinutes()
        var style = StrapStyle.chest
        style.frameIntervalMilliseconds = 50
        bluez = try await SimulatedBlueZ.start(
            on: bus, adapters: adapters,
            straps: straps.enumerated().map {
                var strap = SimulatedStrap(
                    address: $0.element, name: "HR-\($0.offset)", heart: heart, style: style)
                dress(&strap)
                return strap
            },
            habits: habits)
        var settings = CentralSettings(service: Stage.service)
        settings.seed = 1
        adjust(&settings)
        central = Central(settings: settings) { () async throws(DBusFault) in
            wrap(try await DBusConnection.open(address: bus.address))
        }
    }

    func start() {
        let central = central
        running = Task { await central.run() }
        Task {
            for await batch in central.events() { self.take(batch) }
        }
    }

    /// Waits until the central knows of an adapter that is on.
    func hearsRadio() async -> Bool {
        await until { events in
            events.contains {
                if case .adapter(let adapter) = $0 { adapter.isPowered } else { false }
            }
        }
    }

    /// Another central on the same bus that watches the strap, as after a restart of the program.
    func nextCentral() async -> Central {
        let next = Central(settings: CentralSettings(service: Self.service)) {
            [bus] () async throws(DBusFault) in try await DBusConnection.open(address: bus.address)
        }
        await next.watch(
            address: Self.strap, service: Self.service, characteristic: Self.measurement)
        return next
    }

    func watch(_ address: String = Stage.strap) async {
        await central.watch(
            address: address, service: Stage.service, characteristic: Stage.measurement)
    }

    private func take(_ batch: [CentralEvent]) {
        events += batch
        let met = waiters.filter { $0.isMet(events) }
        waiters.removeAll { waiter in met.contains { $0.id == waiter.id } }
        for waiter in met { waiter.2.resume(returning: true) }
    }

    /// Waits until the events since `forget` are as they should be.
    func until(
        atMost limit: Duration = .seconds(120),
        _ isMet: @escaping @Sendable ([CentralEvent]) -> Bool
    ) async -> Bool {
        if isMet(events) { return true }
        nextID += 1
        let id = nextID
        let alarm = Task {
            try? await Task.sleep(for: limit)
            self.giveUp(id)
        }
        defer { alarm.cancel() }
        return await withCheckedContinuation { waiters.append((id, isMet, $0)) }
    }

    private func giveUp(_ id: Int) {
        guard let index = waiters.firstIndex(where: { $0.id == id }) else { return }
        waiters.remove(at: index).2.resume(returning: false)
    }

    func forget() { events = [] }

    func end() async {
        await central.stop(disconnecting: false)
        await running?.value
        await bluez.stop()
        await bus.stop()
    }
}

extension [CentralEvent] {
    func frames(of address: String = Stage.strap) -> [SensorFrame] {
        compactMap {
            if case .frame(let frame) = $0, frame.address == address { frame } else { nil }
        }
    }

    func states(of address: String = Stage.strap) -> [LinkChange] {
        compactMap { if case .link(let link) = $0, link.address == address { link } else { nil } }
    }
}
