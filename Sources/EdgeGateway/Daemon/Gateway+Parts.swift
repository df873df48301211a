import Basics
import BlueZ
import Foundation
import Logging
import OfflineQueue
import ServiceLifecycle

/// The parts that run beside the servers, and the end.
extension Gateway {
    /// How long a delivery may take to end, which then has told the store what became of its last request. With the rest
    /// it is less than the 15 s after which systemd kills the gateway.
    private static let deliveriesEndMax = Duration.seconds(9)

    /// The services that run all the time beside the radio.
    func housekeeping(
        states: ServiceStates, central: Central, clock: any GatewayClock,
        storeClock: any GatewayClock, notifier: SystemdNotifier
    ) -> [any Service] {
        let supervised = { (name: String, part: @escaping @Sendable () -> any Service) in
            Supervised(name: name, states: states, logger: logger, clock: clock.uptime) { part() }
        }
        return [
            supervised("store maintenance") {
                StoreMaintenance(queue: queue, clock: storeClock, logger: logger, startup: startup)
            },
            supervised("watchdog") {
                Watchdog(
                    pause: Watchdog.pause(ProcessInfo.processInfo.environment), queue: queue,
                    recorder: recorder, central: central, notifier: notifier, clock: clock)
            },
            supervised("health") {
                HealthWatch(monitor: health, storeTasks: queue.tasks, clock: storeClock)
            },
            supervised("state for brokers") {
                StateShow(
                    status: status, gaps: gaps, deliveries: deliveries, clock: clock)
            },
            supervised("alerts") { AlertWatch(alerts: alerts, monitor: health, clock: clock) },
            // A person may correct the mode of a token file, the disk, or what `systemd-creds` needs.
            supervised("token files") {
                EveryMinute(clock: clock) { await enrollmentChanges.startMissingDeliveries() }
            },
            supervised("uploads") {
                EveryMinute(clock: clock) { await importSession.minutePassed() }
            },
            // They end also if nobody asks for them.
            supervised("shares") {
                EveryMinute(clock: clock) { await sharing.look(at: Date(clock.read().wall)) }
            },
        ]
    }

    /// The radio, and what feeds its events to the recorder.
    func radio(
        states: ServiceStates, central: Central, clock: any GatewayClock,
        radioTasks: (any TaskExecutor)?, storeTasks: (any TaskExecutor)?
    ) -> any Service {
        Supervised(name: "radio", states: states, logger: logger, clock: clock.uptime) {
            RadioService(
                central: central, recorder: recorder, radioTasks: radioTasks,
                storeTasks: storeTasks)
        }
    }

    /// Radio and servers are closed by now: write what is in memory, finish token renewals.
    ///
    /// - Throws: ``SettingsFault`` if samples are lost.
    func leave(clock: any GatewayClock) async throws(SettingsFault) {
        do {
            try await queue.flush()
        } catch {
            logger.error("flush: \(error)")
        }
        let haveEnded = await wait(
            atMost: Self.deliveriesEndMax, by: clock.uptime, for: { await deliveries.stopAll() })
        if !haveEnded {
            logger.error("a delivery does not end: what it sent last is settled at the next start")
        }
        switch await queue.closeSettingAside() {
        case .complete: break
        case .setAside(let frames, let error):
            logger.error(
                "close store: \(error); \(frames.counted("sample is", "samples are")) set aside for the next start"
            )
        case .lost(let frames, let error):
            throw SettingsFault(
                description:
                    "close store: \(error) \(frames.counted("sample is", "samples are")) lost")
        }
        logger.info("stopped")
    }
}
