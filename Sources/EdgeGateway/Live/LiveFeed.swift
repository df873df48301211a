import Basics
import Foundation
import Health
import OfflineQueue

/// The events for viewers, made once for all of them: a ward's screens cost what one costs.
actor LiveFeed {
    /// How often the feed checks whether anything changed. A rate must be on a screen half a second after
    /// its notification; that leaves room for the bus and the network.
    static let period = Duration.milliseconds(200)
    /// A report on straps that is younger than this is given to the next viewer too.
    private static let strapsAgeMax = Duration.milliseconds(100)
    /// The same for the gateway's state, which takes a walk through the store's books.
    private static let gatewayAgeMax = Duration.seconds(2)
    /// And for a chart: its newest column is not finished earlier anyway.
    private static let chartAgeMax = Duration.seconds(5)
    /// Names and assignments of sensors are looked up again after this long.
    private static let pairedAgeMax = Duration.seconds(2)
    /// When nothing was requested for this long, the last viewer is gone.
    private static let watchedTime = Duration.seconds(5)
    private static let uploadsMax = 50
    /// Charts that can be asked for, in minutes, and how long their columns are.
    static let charts: [Int: Duration] = [10: .seconds(5), 1440: .seconds(120)]
    private static let chartsKeptMax = 64
    private static let gapsMax = 500

    private let live: LiveService
    private let status: StatusService
    private let history: HistoryService
    private let order: PlaceOrder
    private let clock: UptimeClock
    private var straps: (report: [LiveStrap], made: Uptime)?
    private var state: (report: LiveGatewayReport, made: Uptime)?
    private var paired: Paired?
    private var charts: [ChartKey: (report: LiveHistoryReport, made: Uptime)] = [:]

    private var askedAt = Uptime.zero
    private var watching: Task<Void, Never>?

    private struct ChartKey: Hashable {
        var worn: WornStrap
        var minutes: Int
    }

    /// The paired straps in the order of their places, and their open assignments.
    private struct Paired {
        var sensors: [Sensor]
        var assignments: [Int64: Int64]
        var made: Uptime
        /// Of the last strap that went from one person to another by then.
        var handedOver: Uptime?
    }

    init(
        live: LiveService, status: StatusService, history: HistoryService,
        order: PlaceOrder, clock: UptimeClock = .system
    ) {
        self.order = order
        self.clock = clock
        self.live = live
        self.status = status
        self.history = history
    }

    /// The straps a viewer may see.
    func report(for scope: ViewerScope) async throws -> LiveReport {
        let now = clock.now()
        noteWatched(now)
        if straps.map({ now - $0.made > Self.strapsAgeMax }) ?? true {
            let paired = try await paired(now)
            straps = (await live.straps(paired.sensors, paired.assignments), now)
        }
        let visible = (straps?.report ?? []).filter { scope.covers($0.worn) }
        return LiveReport(
            at: MillisecondTime(Date()), scope: scope.name,
            straps: scope == .full ? visible : visible.map(\.shared))
    }

    /// Queue, delivery and health.
    func gatewayReport() async throws -> LiveGatewayReport {
        let now = clock.now()
        if let state, now - state.made <= Self.gatewayAgeMax { return state.report }
        let report = LiveGatewayReport(try await status.report())
        state = (report, now)
        return report
    }

    /// The heart rate of the last minutes with its gaps, of a strap's present wearer.
    ///
    /// - Throws: ``ProblemReport`` for a chart that is not offered or a strap this viewer may not see.
    func history(
        of assignment: Int64, minutes: Int, for scope: ViewerScope
    ) async throws -> LiveHistoryReport {
        guard let bucket = Self.charts[minutes] else {
            throw ProblemReport(
                code: .badRequest, message: "there is no chart of \(minutes) minutes",
                advice: "ask for 10 or 1440 minutes")
        }
        let now = clock.now()
        let worn = try await paired(now).assignments.first { $0.value == assignment }
            .map { WornStrap(sensor: $0.key, assignment: $0.value) }
        guard let worn, scope.covers(worn) else {
            throw ProblemReport(
                code: .unknownSensor, message: "no such strap",
                advice: "GET /v1/live lists those that can be seen")
        }
        let key = ChartKey(worn: worn, minutes: minutes)
        var report: LiveHistoryReport
        if let kept = charts[key], now - kept.made <= Self.chartAgeMax {
            report = kept.report
        } else {
            report = try await live.history(
                of: worn, minutes: minutes, bucket: bucket, gapsMax: Self.gapsMax)
            if charts.count >= Self.chartsKeptMax { charts = [:] }
            charts[key] = (report, now)
        }
        if scope != .full {
            for index in report.gaps.indices { report.gaps[index].cause = nil }
        }
        return report
    }

    /// The last requests to exchanges.
    func uploads() async throws -> HistoryReport {
        try await history.requests(destination: nil, limit: Self.uploadsMax)
    }

    /// Has the radio hand frames over sooner while there are viewers.
    private func noteWatched(_ now: Uptime) {
        askedAt = now
        guard watching == nil else { return }
        watching = Task {
            await live.setWatched(true)
            while clock.now() - askedAt < Self.watchedTime, !Task.isCancelled {
                await clock.sleep(Self.watchedTime)
            }
            await live.setWatched(false)
            watching = nil
        }
    }

    private func paired(_ now: Uptime) async throws -> Paired {
        let handedOver = await live.handedOver()
        if let paired, now - paired.made <= Self.pairedAgeMax, paired.handedOver == handedOver {
            return paired
        }
        let list = Paired(
            sensors: order.sorted(try await live.queue.sensors(), by: \.label),
            assignments: Dictionary(
                try await live.queue.openAssignments().map { ($0.sensorID, $0.id) },
                uniquingKeysWith: { $1 }),
            made: now, handedOver: handedOver)
        paired = list
        return list
    }
}
