import Basics
import BlueZ
import Foundation
import Glibc
import OfflineQueue
import Recording
import ServiceLifecycle

/// Feeds systemd's watchdog for as long as the parts without which nothing is recorded answer: the
/// store's writer, the recorder and the radio. If one of them hangs, nothing is fed, and systemd starts
/// the gateway again.
struct Watchdog: Service {
    /// Feedings in one period of systemd's: two may be late on a loaded machine.
    private static let feedingsPerPeriod: Int64 = 3

    /// Between two feedings; nil without a watchdog.
    let pause: Duration?
    let queue: SampleQueue
    let recorder: Recorder
    let central: Central
    let notifier: SystemdNotifier
    let clock: any GatewayClock

    func run() async throws {
        await cancelWhenGracefulShutdown {
            while !Task.isCancelled {
                guard let pause else {
                    // A service that ends would end the daemon.
                    await clock.sleep(.seconds(86_400))
                    continue
                }
                // Whichever hangs, this goes no further.
                _ = await queue.health()
                _ = await recorder.radio
                _ = await central.knownAdapters()
                notifier.feedWatchdog()
                await clock.sleep(pause)
            }
        }
    }

    /// How often systemd wants to be fed, by `WATCHDOG_USEC` (sd_watchdog_enabled(3)).
    static func pause(_ environment: [String: String]) -> Duration? {
        guard let period = environment["WATCHDOG_USEC"].flatMap(Int64.init), period > 0,
            environment["WATCHDOG_PID"].map({ Int32($0) == getpid() }) ?? true
        else { return nil }
        return .microseconds(max(period / feedingsPerPeriod, 1))
    }
}
