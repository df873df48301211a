import Basics
import Foundation
import Health
import Logging
import OfflineQueue
import ServiceLifecycle

/// The gateway's health for everybody who asks: `status`, `/metrics`, the live page, `pair` and the log.
///
/// Asking reads a snapshot and judges it; only ``look()``, at regular intervals, remembers.
actor HealthMonitor {
    private let recording: RecordingHealth
    private let deliveries: DeliveryHealth
    private let services: ServiceStates
    private let alerts: Alerts
    private let board: BoardWatch
    private let clock: any GatewayClock
    private let batteryLowPercent: Int
    private let logger: Logger

    private var history = HealthHistory()
    private var log: HealthLog

    init(
        recording: RecordingHealth, deliveries: DeliveryHealth, services: ServiceStates,
        alerts: Alerts, board: BoardWatch,
        clock: any GatewayClock, batteryLowPercent: Int, logger: Logger
    ) {
        self.recording = recording
        self.deliveries = deliveries
        self.services = services
        self.alerts = alerts
        self.board = board
        self.clock = clock
        self.batteryLowPercent = batteryLowPercent
        self.logger = logger
        log = HealthLog(startedAt: clock.read().uptime)
    }

    /// The current health items; empty while all is well.
    func items() async -> [HealthItem] {
        let (reading, conditions, _, _) = await judge()
        return conditions.map { HealthItem($0, since: log.began($0), now: reading) }
    }

    /// The same for those who tell somebody.
    func view() async -> HealthView {
        let (reading, conditions, unjudged, _) = await judge()
        return HealthView(
            reading: reading,
            items: conditions.map {
                AlertSchedule.Seen(
                    name: $0.name, subject: $0.subject, strap: $0.strap, began: log.began($0))
            }, unjudged: unjudged, isFlowing: HealthRules.heartbeatsFlow(conditions))
    }

    /// Remembers what is the case now, and writes what began and what ended into the log.
    func look() async {
        let (reading, conditions, unjudged, counts) = await judge()
        history.note(counts, at: reading.uptime)
        let change = log.look(conditions, unjudged: unjudged, at: reading.uptime)
        // Subjects and messages name straps as a technician did; an address is masked.
        for condition in change.began {
            logger.log(
                level: condition.name.severity == .error ? .error : .warning,
                "not well: \(condition.name.rawValue): \(Printable.line(condition.message))")
        }
        for condition in change.ended {
            logger.notice("well again: \(condition.name.rawValue)")
        }
    }

    private func judge() async -> (
        reading: ClockReading, conditions: [HealthCondition], unjudged: Unjudged,
        counts: HealthHistory.Counts
    ) {
        let reading = clock.read()
        var (snapshot, counts) = await recording.read(reading, history: history)
        snapshot.deliveries = await deliveries.read(
            history: history, counts: counts, at: reading.uptime)
        snapshot.services = services.faults()
        snapshot.alerts = await alerts.faults(at: reading.uptime)
        snapshot.batteryLowPercent = batteryLowPercent
        snapshot.isOtherBoard = await board.isOther
        let conditions = HealthRules.conditions(of: snapshot)
        return (reading, conditions, Unjudged(snapshot, beside: conditions), counts)
    }
}

/// The health items at an instant by name, without their messages: what alerts go by.
struct HealthView: Sendable {
    var reading: ClockReading
    var items: [AlertSchedule.Seen]
    var unjudged = Unjudged()
    /// Whether every strap's heartbeats arrive.
    var isFlowing: Bool
}

/// Has the monitor look at regular intervals.
struct HealthWatch: Service {
    /// How true `since` is, and how soon the log says something. A look is a walk through the store's
    /// counters, a millisecond or two.
    static let period = Duration.seconds(13)

    /// How much later it may be, to be done with other work: its thread looks after the store each 4.5 s.
    private static let leeway = Duration.seconds(5)

    let monitor: HealthMonitor
    /// Run what mostly calls the store.
    let storeTasks: (any TaskExecutor)?
    let clock: any GatewayClock

    func run() async throws {
        await withTaskExecutorPreference(storeTasks) {
            await cancelWhenGracefulShutdown {
                while !Task.isCancelled {
                    await monitor.look()
                    await clock.sleep(Self.period, tolerance: Self.leeway)
                }
            }
        }
    }
}

extension HealthItem {
    init(_ condition: HealthCondition, since began: Uptime, now: ClockReading) {
        self.init(
            name: condition.name.rawValue, severity: condition.name.severity.rawValue,
            since: Date(now.at(began).wall), seconds: (now.uptime - began).inSeconds,
            sensor: condition.strap,
            deliveries: condition.deliveries.isEmpty ? nil : condition.deliveries,
            message: condition.message, advice: condition.advice)
    }
}
