import Foundation
import Hummingbird

/// The state of this gateway for a fleet's screen, for both servers.
struct FleetRoutes: Sendable {
    let status: StatusService
    /// Whether a request may have it.
    let mayRead: @Sendable (Request) async -> Bool

    func add(to router: RouteBook) {
        router.get("v1/fleet") { request, _ in
            guard await mayRead(request) else { return try Answers.json(.fleetTokenNeeded) }
            return try await Answers.answer { FleetReport(try await status.report(), at: Date()) }
        }
    }
}

extension ProblemReport {
    fileprivate static let fleetTokenNeeded = ProblemReport(
        code: .tokenNeeded, message: "this needs the fleet's token",
        advice: "send the token of fleet.token_file; docs/operate/fleet.md")
}
