import Hummingbird

/// The path of the ledger of gaps.
struct GapRoutes {
    let gaps: GapService

    func add(to router: RouteBook) {
        router.get("v1/gaps") { [gaps] request, _ in
            let query = Query(request)
            return try await Answers.answer {
                try await gaps.gaps(
                    sensor: query.number("sensor"), days: Int(query.number("days") ?? 1),
                    since: query.instant("since"), until: query.instant("until"))
            }
        }
    }
}
