import Foundation
import Hummingbird

/// The state of this gateway for a fleet's screen, for both servers.
struct FleetRoutes: Sendable {
    let status: StatusService
    let gaps: GapService
    /// Whether a request may have it.
    let mayRead: @Sendable (Request) async -> Bool

    func add(to router: RouteBook) {
        router.get("v1/fleet") { request, _ in
            guard await mayRead(request) else { return try Answers.json(.fleetTokenNeeded) }
            return try await Answers.answer { try await status.fleetReport() }
        }
        router.get("v1/fleet/coverage") { request, _ in
            guard await mayRead(request) else { return try Answers.json(.fleetTokenNeeded) }
            let query = Query(request)
            return try await Answers.answer {
                try await gaps.fleetCoverage(
                    of: status.identity, days: FleetCoverageReport.publishedDays,
                    since: query.instant("since"), until: query.instant("until"))
            }
        }
    }
}

extension ProblemReport {
    fileprivate static let fleetTokenNeeded = ProblemReport(
        code: .tokenNeeded, message: "this needs the fleet's token",
        advice: "send the token of fleet.token_file; docs/operate/fleet.md")
}
