import Basics
import OfflineQueue
import ServiceLifecycle

/// Has the alerts say what is due.
struct AlertWatch: Service {
    /// The longest delay that the watch itself adds to a message.
    static let period = Duration.seconds(13)
    private static let leeway = Duration.seconds(5)
    /// The same while there is no alert: a new one waits so long at most.
    private static let idleLeeway = Duration.seconds(20)
    /// From one attempt to read an unreadable file to the next. A sealed one costs a process at each.
    private static let readPause = Duration.seconds(60)

    let alerts: Alerts
    let monitor: HealthMonitor
    let clock: any GatewayClock

    func run() async throws {
        await cancelWhenGracefulShutdown {
            await withDiscardingTaskGroup { group in
                var lastRead = clock.read().uptime
                while !Task.isCancelled {
                    if clock.read().uptime - lastRead >= Self.readPause {
                        lastRead = clock.read().uptime
                        await alerts.readAgain()
                    }
                    let isIdle = await alerts.isIdle
                    if !isIdle {
                        for sending in await alerts.due(await monitor.view()) {
                            group.addTask { await sending.send() }
                        }
                    }
                    await clock.sleep(
                        Self.period, tolerance: isIdle ? Self.idleLeeway : Self.leeway)
                }
            }
        }
    }
}
