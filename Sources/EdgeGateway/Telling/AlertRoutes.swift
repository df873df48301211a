import Hummingbird

/// The paths of alerts on the control socket.
struct AlertRoutes {
    let alerts: Alerts
    let service: AlertService

    func add(to router: RouteBook) {
        router.get("v1/alerts") { try await alerts.reports() }
        router.post("v1/alerts") { (ask: AlertAddRequest) in try await service.add(ask) }
        router.post("v1/alerts/test") { (ask: AlertRequest) in try await service.test(ask.name) }
        router.post("v1/alerts/pause") { (ask: AlertRequest) in
            try await alerts.pause(ask.name, true)
        }
        router.post("v1/alerts/resume") { (ask: AlertRequest) in
            try await alerts.pause(ask.name, false)
        }
        router.post("v1/alerts/remove") { (ask: AlertRequest) in try await alerts.remove(ask.name) }
    }
}
