import Basics
import Foundation
import Health
import Logging
import NIOCore
import ServiceLifecycle

/// The servers of the daemon. Recording depends on none of them.
enum ServerName: String, Sendable {
    /// The control socket, with the commands and metrics.
    case control
    /// The live page.
    case page

    /// The setting that says where it serves.
    var setting: String {
        switch self {
        case .control: "socket"
        case .page: "page.listen"
        }
    }
}

/// A server that can be opened again after it failed.
protocol ReopenedServer: Sendable {
    var name: ServerName { get }
    /// Where it serves, as the settings say.
    var address: String { get }

    /// A server that was never run, made of what the settings name now.
    ///
    /// - Parameter onServing: called once it takes connections.
    /// - Throws: ``SettingsFault`` for what cannot be used: a place, a token file.
    func open(onServing: @escaping @Sendable () -> Void) throws -> any Service

    /// Why the running server cannot be reached any more; nil while it can. Asked every ten seconds.
    func loss() -> String?
}

/// Runs a server for as long as the daemon runs. A server that cannot bind, fails or loses its place is
/// opened again after a pause; meanwhile ``ServiceStates`` says why it does not serve. It never ends by
/// itself, and it never fails.
struct RetryingServer: Service {
    /// How long to wait, and how often to look.
    struct Pauses: Sendable {
        /// The pause after the first failure; each further one doubles it.
        var first = Duration.seconds(1)
        /// The longest pause: an address that appears late is served within this time.
        var longest = Duration.seconds(30)
        /// Between two looks whether the place is still there; up to half as much longer, to share a wake-up with
        /// other work. A socket is removed by mistake, if ever.
        var look = Duration.seconds(10)
    }

    let server: any ReopenedServer
    let states: ServiceStates
    let logger: Logger
    var pauses = Pauses()
    var clock = UptimeClock.system
    /// Called after each attempt, whatever became of it.
    var onAttempted: @Sendable () -> Void = {}

    func run() async throws {
        await KeepRunning.keepRunning(
            pauses: Backoff(first: pauses.first, longest: pauses.longest), clock: clock,
            { throw await serve() },
            report: { fault in
                guard let fault = fault as? SettingsFault else { return }
                note(fault)
                onAttempted()
            })
    }

    /// Serves until it cannot any more, and says why.
    private func serve() async -> SettingsFault {
        let (served, serving) = AsyncStream.makeStream(of: Void.self)
        do {
            let service = try server.open { [server, states, logger, onAttempted] in
                serving.yield()
                if states.runs(server.name.rawValue) {
                    logger.notice("\(server.name.setting): it serves again")
                }
                onAttempted()
            }
            let running = ServiceGroup(
                configuration: ServiceGroupConfiguration(
                    services: [
                        .init(
                            service: service, successTerminationBehavior: .gracefullyShutdownGroup)
                    ],
                    logger: logger))
            return try await withThrowingTaskGroup(of: String?.self) { group in
                group.addTask {
                    try await running.run()
                    return nil
                }
                group.addTask {
                    let loss = await watch(served)
                    // A cancelled server drops connections that it has accepted, and NIO traps for them. A graceful
                    // shutdown serves those first; connections that outlast the pause are cut off.
                    await running.triggerGracefulShutdown()
                    await clock.sleep(pauses.longest)
                    return loss
                }
                var loss: String?
                while let ended = try await group.next() {
                    loss = loss ?? ended
                    group.cancelAll()
                }
                return SettingsFault(
                    description: loss ?? "\(server.name.setting): the server has ended")
            }
        } catch let fault as SettingsFault {
            return fault
        } catch {
            return SettingsFault(
                description: "\(server.name.setting): \(server.address) cannot be opened: "
                    + Self.words(error))
        }
    }

    /// Returns once the place of the running server is lost, with the reason.
    private func watch(_ served: AsyncStream<Void>) async -> String? {
        // Before it serves it has no place to lose.
        for await _ in served { break }
        while !Task.isCancelled {
            await clock.sleep(pauses.look, tolerance: pauses.look / 2)
            if let loss = server.loss() { return loss }
        }
        return nil
    }

    private func note(_ fault: SettingsFault) {
        let setting = fault.setting ?? server.name.setting
        var cause = fault.description
        // `status` and the log put the setting before the cause.
        if cause.hasPrefix("\(setting): ") { cause.removeFirst(setting.count + 2) }
        let isNews = states.failed(
            server.name.rawValue, .init(name: setting, isPage: true, fault: cause))
        if isNews {
            logger.error("\(fault.description); recording goes on, and the gateway tries again")
        }
    }

    /// The system's error, without the names of functions that it comes from.
    private static func words(_ error: any Error) -> String {
        (error as? IOError).map { String(cString: strerror($0.errnoCode)) } ?? "\(error)"
    }
}
