import Hummingbird

/// The paths of destinations on the control socket.
struct DestinationRoutes {
    let destinations: Destinations
    let health: HealthMonitor
    let details: DestinationDetails
    let service: DestinationService

    func add(to router: RouteBook) {
        router.get("v1/destinations") {
            await health.items().noted(in: try await destinations.reports())
        }
        router.post("v1/destinations") { (ask: DestinationAddRequest) in
            try await service.add(ask)
        }
        router.post("v1/destinations/show") { (ask: DestinationRequest) in
            try await details.show(ask.name)
        }
        router.post("v1/destinations/code") { (ask: DestinationRequest) in
            try await details.codes(ask.name)
        }
        router.post("v1/destinations/compare") { (ask: DestinationCompareRequest) in
            try await destinations.compare(ask)
        }
        router.post("v1/destinations/test") { (ask: DestinationRequest) in
            try await service.probing.test(ask.name)
        }
        router.post("v1/destinations/pause") { (ask: DestinationRequest) in
            try await service.pause(ask.name)
        }
        router.post("v1/destinations/resume") { (ask: DestinationRequest) in
            try await service.resume(ask.name)
        }
        router.post("v1/destinations/straps") { (ask: DestinationStrapsRequest) in
            try await service.straps.change(ask)
        }
        router.post("v1/destinations/remove") { (ask: DestinationRemoveRequest) in
            try await service.remove(ask)
        }
    }
}
