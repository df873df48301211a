import Basics
import Foundation
import OfflineQueue
import ServiceLifecycle
import Uplink

/// Decides when a destination shows the gateway's state again. A value.
struct ShowPace: Sendable {
    /// The longest time between two states. Readers take a state for old after three such times.
    static let period = Duration.seconds(60)

    private var last: (report: FleetReport, at: Uptime)?

    /// Whether to show `report` now: it differs in more than its figures, or a minute has passed.
    mutating func isDue(_ report: FleetReport, at now: Uptime) -> Bool {
        let what = report.withoutFigures
        if let last, last.report == what, now - last.at < Self.period { return false }
        last = (what, now)
        return true
    }
}

extension FleetReport {
    /// Without what changes all the time.
    fileprivate var withoutFigures: FleetReport {
        var report = self
        report.time = nil
        report.oldestUndeliveredSeconds = nil
        for index in report.items.indices {
            report.items[index].detail = ""
            // Computed from a clock that may be set.
            report.items[index].since = .distantPast
            report.items[index].seconds = nil
        }
        for index in report.backlog.indices { report.backlog[index].samples = 0 }
        return report
    }
}

/// Shows how the gateway is at the destinations that show it.
actor StateShow: Service {
    /// From one look to the next: how late a change is seen. A look takes a millisecond or two, or until
    /// it gives up a destination that does not answer.
    static let pause = Duration.seconds(5)
    /// How much later it may be, to be done with other work.
    private static let leeway = Duration.seconds(2)
    /// The same while no destination shows the state: it then needs no wake-up of its own.
    private static let idleLeeway = Duration.seconds(10)

    /// From one count of the last days to the next: each is a walk through the gaps for each day.
    private static let coveragePause = Duration.seconds(900)

    private let status: StatusService
    private let gaps: GapService
    private let deliveries: Deliveries
    private let clock: any GatewayClock
    private var pace = ShowPace()
    private var showing: [Int64: Int] = [:]
    /// The last days, as JSON, and when they were counted.
    private var coverage: (json: [UInt8], at: Uptime)?

    init(
        status: StatusService, gaps: GapService, deliveries: Deliveries, clock: any GatewayClock
    ) {
        self.status = status
        self.gaps = gaps
        self.deliveries = deliveries
        self.clock = clock
    }

    func run() async throws {
        await cancelWhenGracefulShutdown {
            while !Task.isCancelled {
                await self.look()
                let leeway = await self.showing.isEmpty ? Self.idleLeeway : Self.leeway
                await self.clock.sleep(Self.pause, tolerance: leeway)
            }
        }
    }

    /// Has the state shown, if that is due and a destination shows it.
    func look() async {
        let showing = await deliveries.showing
        // A destination that is new has nothing to show yet.
        if showing != self.showing { pace = ShowPace() }
        self.showing = showing
        guard !showing.isEmpty, let status = try? await status.report(),
            let sensors = try? await self.status.queue.sensors(includingForgotten: true)
        else { return }
        let report = FleetReport(status, marks: self.status.marks, at: Date())
        guard pace.isDue(report, at: clock.read().uptime),
            let json = try? ReportCoding.encoder().encode(report)
        else { return }
        await deliveries.show(
            GatewayState(
                report: Array(json), coverage: await lastDays(of: status.gateway),
                version: report.version,
                straps: status.sensors.map {
                    let name = $0.fleetName
                    return GatewayState.Strap(
                        id: $0.id, name: name, isStreaming: $0.isStreaming)
                },
                forgotten: sensors.filter(\.isForgotten).map(\.id)))
    }

    private func lastDays(of gateway: GatewayIdentity) async -> [UInt8] {
        let now = clock.read().uptime
        if let coverage, now - coverage.at < Self.coveragePause { return coverage.json }
        guard
            let report = try? await gaps.fleetCoverage(
                of: gateway, days: FleetCoverageReport.publishedDays),
            let json = try? report.json(bytesMax: BrokerStates.reportBytesMax)
        else { return coverage?.json ?? [] }
        coverage = (json, now)
        return json
    }
}
