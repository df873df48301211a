import Hummingbird

/// The paths of the whole state.
struct HealthRoutes {
    let status: StatusService
    let metrics: CountedMetrics

    func add(to router: RouteBook) {
        router.get("metrics") { [metrics] _, _ in try await Metrics.response(metrics) }
        router.get("v1/status") { try await status.report(isForPerson: true) }
    }
}
