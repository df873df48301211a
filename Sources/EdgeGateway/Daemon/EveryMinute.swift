import Basics
import OfflineQueue
import ServiceLifecycle

/// Does something once a minute while the gateway runs, first after a minute.
struct EveryMinute: Service {
    private static let pause = Duration.seconds(60)
    /// How much later it may be, to be done with other work.
    private static let leeway = Duration.seconds(10)

    let clock: any GatewayClock
    let work: @Sendable () async -> Void

    func run() async throws {
        await cancelWhenGracefulShutdown {
            while !Task.isCancelled {
                await clock.sleep(Self.pause, tolerance: Self.leeway)
                if !Task.isCancelled { await work() }
            }
        }
    }
}
