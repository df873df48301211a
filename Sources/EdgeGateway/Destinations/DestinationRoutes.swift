import Hummingbird

/// The paths of destinations on the control socket.
struct DestinationRoutes {
    let destinations: Destinations
    let health: HealthMonitor
    let details: DestinationDetails
    let service: DestinationService

    func add(to router: RouteBook) {
        router.get("v1/destinations") { [destinations, health] _, _ in
            try await Answers.answer {
                await health.items().noted(in: try await destinations.reports())
            }
        }
        router.post("v1/destinations") { [service] request, _ in
            try await Answers.answer(request) { (ask: DestinationAddRequest) in
                try await service.add(ask)
            }
        }
        router.post("v1/destinations/show") { [details] request, _ in
            try await Answers.answer(request) { (ask: DestinationRequest) in
                try await details.show(ask.name)
            }
        }
        router.post("v1/destinations/code") { [details] request, _ in
            try await Answers.answer(request) { (ask: DestinationRequest) in
                try await details.codes(ask.name)
            }
        }
        router.post("v1/destinations/compare") { [destinations] request, _ in
            try await Answers.answer(request) { (ask: DestinationCompareRequest) in
                try await destinations.compare(ask)
            }
        }
        router.post("v1/destinations/test") { [service] request, _ in
            try await Answers.answer(request) { (ask: DestinationRequest) in
                try await service.probing.test(ask.name)
            }
        }
        router.post("v1/destinations/pause") { [service] request, _ in
            try await Answers.answer(request) { (ask: DestinationRequest) in
                try await service.pause(ask.name)
            }
        }
        router.post("v1/destinations/resume") { [service] request, _ in
            try await Answers.answer(request) { (ask: DestinationRequest) in
                try await service.resume(ask.name)
            }
        }
        router.post("v1/destinations/straps") { [service] request, _ in
            try await Answers.answer(request) { (ask: DestinationStrapsRequest) in
                try await service.straps.change(ask)
            }
        }
        router.post("v1/destinations/remove") { [service] request, _ in
            try await Answers.answer(request) { (ask: DestinationRemoveRequest) in
                try await service.remove(ask)
            }
        }
    }
}
