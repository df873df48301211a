import Hummingbird

/// The paths of the whole state.
struct HealthRoutes {
    let status: StatusService

    func add(to router: RouteBook) {
        router.get("metrics") { [status] _, _ in try await Metrics.response(status) }
        router.get("v1/status") { try await status.report(isForPerson: true) }
    }
}
