import Basics
import OfflineQueue
import ServiceLifecycle

/// Tries once a minute to start deliveries that do not run: a person may correct the mode of a token file, the
/// disk, or what `systemd-creds` needs, while the gateway runs.
struct TokenWatch: Service {
    /// The pause between two attempts. A sealed file costs a process at each.
    private static let pause = Duration.seconds(60)

    let changes: EnrollmentChanges
    let clock: any GatewayClock

    func run() async throws {
        await cancelWhenGracefulShutdown {
            while !Task.isCancelled {
                await clock.sleep(Self.pause)
                if !Task.isCancelled { await changes.startMissingDeliveries() }
            }
        }
    }
}
