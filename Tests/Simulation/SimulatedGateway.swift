import Basics
import BlueZ
import Foundation
import GATTHeartRate
import Logging
import OfflineQueue
import ServiceLifecycle
import Synchronization
import Testbed
import Uplink
import VirtualTime

@testable import EdgeGateway

/// The gateway as `run` wires it, without its servers, from its start to its end or its kill.
final class SimulatedGateway: Sendable {
    let gateway: Gateway
    private let central: Central
    private let clock: VirtualWallClock
    private let states = ServiceStates()
    private let running = Mutex<(radio: Task<Void, any Error>?, others: [Task<Void, any Error>])>(
        (nil, []))

    init(
        folder: URL, clock: VirtualWallClock, boot: String, storeMax: Int64?, bus: MemoryBus,
        network: Network, trace: Trace, seed: UInt64
    ) throws {
        self.clock = clock
        let state = folder.appending(path: "state")
        let socket = folder.appending(path: "run/control.sock")
        let settings = try SettingsLoader(environment: [
            "EDGE_GATEWAY_STATE": state.path, "EDGE_GATEWAY_SOCKET": socket.path,
            "EDGE_GATEWAY_UPLINK_SEAL_TOKENS": "never",
        ]).load()
        let logger = Logger(label: "gateway") { _ in TraceLog(trace: trace) }
        var store = settings.store([:])
        if let storeMax {
            store.maxBytes = storeMax
            store.fullPolicy = seed % 2 == 0 ? .keepNewest : .refuseNew
        }
        let queue = try SampleQueue(
            path: settings.storePath, settings: store, clock: clock,
            bootID: boot, executor: VirtualExecutors.gateway, seed: seed)
        var radio = CentralSettings(service: HeartRateService.service)
        radio.frameAgeMax = settings.frameAgeMax
        radio.seed = seed
        central = Central(settings: radio, clock: .virtual) { () throws(DBusFault) in
            try bus.connect()
        }
        gateway = Gateway(
            settings: settings, queue: queue, central: central, clock: clock, logger: logger,
            services: states, transport: { _ in network.transport() }, seed: seed)
    }

    /// Begins, as the daemon does.
    func start() async throws {
        try await gateway.startup.begin()
        let others = gateway.housekeeping(
            states: states, central: central, clock: clock, storeClock: clock,
            notifier: SystemdNotifier())
        let radio = gateway.radio(
            states: states, central: central, clock: clock, radioTasks: nil, storeTasks: nil)
        running.withLock { running in
            running.radio = Task { try await radio.run() }
            running.others = others.map { service in Task { try await service.run() } }
        }
    }

    /// Ends, as the daemon does: the radio first.
    func stop() async throws {
        let (radio, others) = running.withLock { $0 }
        radio?.cancel()
        try await radio?.value
        for task in others { task.cancel() }
        for task in others { try await task.value }
        try await gateway.leave(clock: clock)
    }
}
