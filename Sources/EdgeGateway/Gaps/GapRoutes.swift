import Hummingbird

/// The path of the ledger of gaps.
struct GapRoutes {
    let gaps: GapService

    func add(to router: RouteBook) {
        router.get("v1/gaps") { query in
            try await gaps.gaps(
                sensor: query.number("sensor"), days: Int(query.number("days") ?? 1),
                since: query.instant("since"), until: query.instant("until"))
        }
    }
}
