import Foundation
import Glibc
import HTTPTypes
import Hummingbird
import HummingbirdCore
import Logging
import NIOCore
import ServiceLifecycle

/// The control socket: HTTP and JSON under `/v1/` on a Unix socket of mode 0660.
struct ControlServer: ReopenedServer {
    /// Owner and group: root and the technicians' group.
    private static let socketMode: mode_t = 0o660
    /// With the page's connections, and with what store, bus and exchange need, they stay below the 1,024 files
    /// that a process usually may have open: connections must never stop a commit. One user cannot have all.
    static let limits = ServerLimits(
        connectionsMax: 600, perPeerMax: 512, body: .seconds(60))

    let gateway: Gateway
    let place: ControlSocketPlace
    var limits = Self.limits

    var name: ServerName { .control }
    var address: String { place.path }

    /// - Throws: ``SettingsFault`` when the socket's place is taken or cannot be used.
    func open(onServing: @escaping @Sendable () -> Void) throws -> any Service {
        do throws(ControlSocketPlace.Fault) {
            try place.claim()
        } catch {
            throw SettingsFault(description: error.reason)
        }
        return try ServerApplication.make(
            routes(), at: .unixDomainSocket(path: place.path), limits: limits,
            logger: gateway.logger
        ) { [place] in
            chmod(place.path, Self.socketMode)
            place.noteBound()
            onServing()
        }
    }

    func loss() -> String? {
        place.isThere ? nil : "socket: \(place.path) was removed"
    }

    /// Every path there is; docs/api.yaml describes them all.
    func routes() -> RouteBook {
        let router = RouteBook()
        _ = router.add(
            middleware: FailureAnswers(
                advice: "docs/api.yaml lists what there is", logger: gateway.logger))
        _ = router.add(middleware: ChangeGuard(policy: gateway.settings.changePolicy))
        // Every user of this socket may see everything.
        LiveRoutes(feed: gateway.feed, viewers: gateway.viewers) { _, context in
            let peer = await Peer(of: context.channel)
            return Viewer(scope: .full, holder: .user(peer?.user))
        }.add(to: router)
        HealthRoutes(status: gateway.status, metrics: gateway.metrics).add(to: router)
        FleetRoutes(status: gateway.status, gaps: gateway.gaps) { _ in true }.add(to: router)
        PairingRoutes(
            sensors: gateway.sensors, scanning: gateway.scanning, pairing: gateway.pairing,
            questions: gateway.pairingQuestions
        ).add(to: router)
        EnrollmentRoutes(
            enrollments: gateway.enrollments, health: gateway.health,
            enrolling: gateway.enrolling, webEnrolling: gateway.webEnrolling
        ).add(to: router)
        QueueRoutes(
            store: gateway.store, assigning: gateway.assigning, redelivery: gateway.redelivery,
            deadLetters: gateway.deadLetters,
            imports: gateway.imports, history: gateway.history
        ).add(to: router)
        GapRoutes(gaps: gateway.gaps).add(to: router)
        BoardRoutes(board: gateway.board, changes: gateway.enrollmentChanges).add(to: router)
        ShareRoutes(sharing: gateway.sharing).add(to: router)
        EraseRoutes(erasing: gateway.erasing).add(to: router)
        AlertRoutes(alerts: gateway.alerts, service: gateway.alertService).add(to: router)
        DestinationRoutes(
            destinations: gateway.destinations, health: gateway.health,
            details: gateway.destinationDetails, service: gateway.destinationService
        ).add(to: router)
        return router
    }
}

/// Lets only those change something who may. Scanning is a change too: it takes the radio.
private struct ChangeGuard: RouterMiddleware {
    let policy: ChangePolicy

    func handle(
        _ request: Request, context: PeerContext,
        next: (Request, PeerContext) async throws -> Response
    ) async throws -> Response {
        let looks = request.method == .get || request.method == .head
        let peer = looks ? nil : await Peer(of: context.channel)
        guard looks || policy.mayChange(peer) else {
            return try Answers.json(
                ProblemReport(
                    code: .notPermitted,
                    message: "this user may read everything and change nothing",
                    advice: "use sudo, or join the group that control.change_group names"))
        }
        return try await next(request, context)
    }
}
