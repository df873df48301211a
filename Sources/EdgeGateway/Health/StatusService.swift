import Basics
import Foundation
import OfflineQueue

/// The whole state on one page, for `status`, `/metrics` and the live page.
struct StatusService: Sendable {
    let queue: SampleQueue
    let sensors: Sensors
    let enrollments: Enrollments
    let destinations: Destinations
    let health: HealthMonitor
    let clock: any GatewayClock
    /// When the daemon started.
    let started: Uptime
    let identity: GatewayIdentity
    /// Nil without a secret of the fleet.
    let marks: StrapMarks?

    /// The whole state; `isForPerson` as in ``Sensors``.
    func report(isForPerson: Bool = false) async throws -> StatusReport {
        let sensors = try await sensors.reports(isForPerson: isForPerson)
        let enrollments = try await enrollments.reports()
        let destinations = try await destinations.addedReports()
        let balance = try await queue.balance()
        let reading = clock.read()
        let items = await health.items()
        var report = StatusReport(
            gateway: identity, version: GatewayVersion.text, well: items.isEmpty, health: items,
            uptimeSeconds: (reading.uptime - started).inSeconds,
            clockTrusted: reading.isTrusted, sensors: sensors,
            enrollments: items.noted(in: enrollments), destinations: items.noted(in: destinations),
            balance: BalanceReport(balance), oldestUnsent: balance.oldestUnsent.map { Date($0) })
        report.nextStep = NextStep(report)
        return report
    }

    /// The state for a fleet's screen.
    func fleetReport() async throws -> FleetReport {
        FleetReport(try await report(), marks: marks, at: Date())
    }
}

extension BalanceReport {
    init(_ balance: Balance) {
        self.init(
            received: balance.received, stored: balance.stored,
            undecodable: balance.undecodable, refused: balance.refused,
            doubled: balance.doubled, delivered: balance.delivered, pending: balance.pending,
            held: balance.held,
            dead: balance.dead, dropped: balance.dropped, buffered: balance.buffered,
            balanced: balance.isBalanced)
    }
}
