import BlueZ
import Foundation
import GATTHeartRate
import Logging
import OfflineQueue
import ServiceLifecycle
import Testbed
import Testing

@testable import EdgeGateway

/// A gateway without a radio, for tests of its servers in this process.
struct ServerFixture {
    let directory: URL
    let settings: Settings
    let gateway: Gateway
    let states: ServiceStates
    let queue: SampleQueue
    let logger: Logger

    /// Runs `body` and clears away.
    static func run(
        _ variables: [String: String] = [:],
        board: @escaping @Sendable () -> BoardTraits = { BoardTraits() },
        _ body: (ServerFixture) async throws -> Void
    ) async throws {
        let directory = FileManager.default.temporaryDirectory
            .appending(path: "server-\(UInt32.random(in: 0 ... .max))")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: directory) }
        let clock = SystemClock(trust: .always)
        let queue = try SampleQueue(
            path: directory.appending(path: "queue.sqlite").path, clock: clock, bootID: "boot")
        let own = [
            "EDGE_GATEWAY_STATE": directory.path,
            "EDGE_GATEWAY_SOCKET": directory.appending(path: "control.sock").path,
        ]
        let settings = try SettingsLoader(environment: own.merging(variables) { $1 }).load()
        var logger = Logger(label: "server")
        logger.logLevel = .critical
        let states = ServiceStates()
        let gateway = Gateway(
            settings: settings, queue: queue,
            central: Central(settings: CentralSettings(service: HeartRateService.service)),
            clock: clock, logger: logger, services: states, board: board)
        try await body(
            ServerFixture(
                directory: directory, settings: settings, gateway: gateway, states: states,
                queue: queue, logger: logger))
        try await queue.close()
    }

    func control(_ limits: ServerLimits = ControlServer.limits) -> ControlServer {
        ControlServer(
            gateway: gateway, place: ControlSocketPlace(settings.socketPath), limits: limits)
    }

    func page() -> PageServer { PageServer(gateway: gateway) }

    /// What a command needs to know of this gateway; it finds no system bus.
    var environment: [String: String] {
        [
            "PATH": "/usr/bin:/bin", "EDGE_GATEWAY_STATE": settings.stateDirectory,
            "EDGE_GATEWAY_SOCKET": settings.socketPath,
            "DBUS_SYSTEM_BUS_ADDRESS": "unix:path=/nonexistent",
        ]
    }

    /// Runs a command of the real program.
    func command(_ words: [String]) async throws -> Command.Outcome {
        try await Command.run(
            GatewayProcess.program("edge-gateway").path, words, environment: environment,
            directory: directory.path)
    }

    /// Runs servers while `body` runs, looking often and trying again soon.
    func serving(
        _ servers: [any ReopenedServer], _ body: () async throws -> Void
    ) async throws {
        let group = ServiceGroup(
            configuration: ServiceGroupConfiguration(
                services: servers.map { server in
                    RetryingServer(
                        server: server, states: states, logger: logger,
                        pauses: RetryingServer.Pauses(
                            first: .milliseconds(20), longest: .milliseconds(50),
                            look: .milliseconds(20)))
                }, logger: logger))
        let running = Task { try await group.run() }
        do {
            try await body()
            await group.triggerGracefulShutdown()
            try await running.value
        } catch {
            running.cancel()
            _ = try? await running.value
            throw error
        }
    }

    /// Waits for something that takes a moment; there is no event to wait for.
    func eventually(_ what: String, _ holds: () async throws -> Bool) async throws {
        let clock = ContinuousClock()
        let deadline = clock.now + .seconds(60)
        while clock.now < deadline {
            if try await holds() { return }
            try await Task.sleep(for: .milliseconds(10))
        }
        Issue.record("\(what): not within a minute; faults: \(states.faults())")
    }

    /// Whether a new client of the control socket is answered.
    func isAnswered() async -> Bool {
        let client = ControlClient(socketPath: settings.socketPath)
        let status: StatusReport? = try? await client.get("/v1/status", timeout: .seconds(20))
        return status != nil
    }
}
