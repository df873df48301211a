import Hummingbird

/// The paths of alerts on the control socket.
struct AlertRoutes {
    let alerts: Alerts
    let service: AlertService

    func add(to router: RouteBook) {
        router.get("v1/alerts") { [alerts] _, _ in
            try await Answers.answer { try await alerts.reports() }
        }
        router.post("v1/alerts") { [service] request, _ in
            try await Answers.answer(request) { (ask: AlertAddRequest) in
                try await service.add(ask)
            }
        }
        router.post("v1/alerts/test") { [service] request, _ in
            try await Answers.answer(request) { (ask: AlertRequest) in
                try await service.test(ask.name)
            }
        }
        router.post("v1/alerts/pause") { [alerts] request, _ in
            try await Answers.answer(request) { (ask: AlertRequest) in
                try await alerts.pause(ask.name, true)
            }
        }
        router.post("v1/alerts/resume") { [alerts] request, _ in
            try await Answers.answer(request) { (ask: AlertRequest) in
                try await alerts.pause(ask.name, false)
            }
        }
        router.post("v1/alerts/remove") { [alerts] request, _ in
            try await Answers.answer(request) { (ask: AlertRequest) in
                try await alerts.remove(ask.name)
            }
        }
    }
}
