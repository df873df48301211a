import Hummingbird

/// The paths of links to the live page.
struct ShareRoutes {
    let sharing: ShareService

    func add(to router: RouteBook) {
        router.post("v1/share") { (ask: ShareRequest) in try await sharing.share(ask) }
        router.post("v1/share/stop") { try await sharing.stop() }
    }
}
