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
    /// that a process usually may have open: nobody who connects shall stop a commit. One user cannot have all.
    static let limits = ServerLimits(
        connectionsMax: 600, perPeerMax: 512, body: .seconds(60))

    let gateway: Gateway
    let feed: LiveFeed
    let viewers: Viewers
    let policy: ChangePolicy
    let place: ControlSocketPlace
    let logger: Logger
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
        return ServerApplication.make(
            routes(), at: .unixDomainSocket(path: place.path), limits: limits, logger: logger
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
            middleware: FailureAnswers(advice: "docs/api.yaml lists what there is", logger: logger))
        _ = router.add(middleware: ChangeGuard(policy: policy))
        // Whoever may use this socket may see everything.
        LiveRoutes(feed: feed, viewers: viewers) { _, context in
            let peer = await Peer(of: context.channel)
            return Viewer(scope: .full, holder: .user(peer?.user))
        }.add(to: router)
        router.get("metrics") { [gateway] _, _ in try await Metrics.response(gateway) }
        addSharing(to: router)
        addQueueRoutes(to: router)
        router.get("v1/status") { [gateway] _, _ in
            try await Answers.answer { try await gateway.status() }
        }
        router.get("v1/sensors") { [gateway] request, _ in
            try await Answers.answer {
                try await gateway.sensors(
                    includingForgotten: Query(request).flag("forgotten"))
            }
        }
        router.get("v1/enrollments") { [gateway] _, _ in
            try await Answers.answer { try await gateway.enrollments() }
        }
        router.post("v1/scan") { [gateway] request, _ in
            try await Answers.answer(request) { (scan: ScanRequest) in
                try await gateway.scan(seconds: scan.seconds)
            }
        }
        router.post("v1/pair") { [gateway] request, _ in
            try await Answers.answer(request) { (pair: PairRequest) in try await gateway.pair(pair)
            }
        }
        router.get("v1/gaps") { [gateway] request, _ in
            let query = Query(request)
            return try await Answers.answer {
                try await gateway.gaps(
                    sensor: query.number("sensor"), days: Int(query.number("days") ?? 1))
            }
        }
        router.post("v1/pairing/question") { [gateway] request, _ in
            try await Answers.answer(request) { (ask: PairingQuestionRequest) in
                try await gateway.pairingQuestion(of: ask.address)
            }
        }
        router.post("v1/pairing/answer") { [gateway] request, _ in
            try await Answers.answer(request) { (ask: PairingAnswerRequest) in
                try await gateway.answerPairing(ask, of: ask.address)
            }
        }
        router.post("v1/forget") { [gateway] request, _ in
            try await Answers.answer(request) { (forget: ForgetRequest) in
                try await gateway.forget(address: forget.address)
            }
        }
        router.post("v1/enroll") { [gateway] request, _ in
            try await Answers.answer(request) { (enroll: EnrollRequest) in
                try await gateway.enroll(enroll)
            }
        }
        router.post("v1/erase") { [gateway] request, _ in
            try await Answers.answer(request) { (erase: EraseRequest) in
                try await gateway.erase(erase)
            }
        }
        return router
    }

    private func addSharing(to router: RouteBook) {
        router.post("v1/share") { [gateway] request, _ in
            try await Answers.answer(request) { (ask: ShareRequest) in
                try await gateway.share(ask)
            }
        }
        router.post("v1/share/stop") { [gateway] _, _ in
            try await Answers.answer { try await gateway.stopShares() }
        }
        router.post("v1/enroll-web") { [gateway] request, _ in
            try await Answers.answer(request) { (ask: WebEnrollRequest) in
                try await gateway.beginWebEnrollment(ask)
            }
        }
        router.get("v1/enroll-web") { [gateway] _, _ in
            try await Answers.answer { await gateway.webEnrollmentState() }
        }
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
                    message: "this user may look at everything and change nothing",
                    advice: "use sudo, or join the group that control.change_group names"))
        }
        return try await next(request, context)
    }
}
