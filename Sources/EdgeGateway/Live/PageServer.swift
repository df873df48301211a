import Foundation
import HTTPTypes
import Hummingbird
import HummingbirdCore
import Logging
import NIOCore
import ServiceLifecycle

/// The live page's server: what a nurse's screen or a phone reaches. It changes nothing but an enrollment
/// that a technician asked for a moment ago.
struct PageServer: ReopenedServer {
    /// Each viewer has a connection that stays, and opens one or two more for charts. One address may be that of
    /// a proxy, and cannot have all the same.
    private static let limits = ServerLimits(connectionsMax: 128, perPeerMax: 96)
    /// How long a browser keeps the token; a share may end earlier.
    private static let cookieLifetime = Duration.seconds(31 * 86_400)
    private static let cookieName = "edge-gateway"

    let settings: Settings
    let feed: LiveFeed
    let viewers: Viewers
    let shares: Shares
    let status: StatusService
    let metrics: CountedMetrics
    let gaps: GapService
    let webEnrolling: WebEnrollmentService
    let logger: Logger

    init(gateway: Gateway) {
        settings = gateway.settings
        feed = gateway.feed
        viewers = gateway.viewers
        shares = gateway.shares
        status = gateway.status
        metrics = gateway.metrics
        gaps = gateway.gaps
        webEnrolling = gateway.webEnrolling
        logger = gateway.logger
    }

    var name: ServerName { .page }
    var address: String { settings.pageListen ?? "" }

    /// - Throws: ``SettingsFault`` for a place or a token that cannot be used. Beyond this machine no viewer sees
    ///   anything without a token.
    func open(onServing: @escaping @Sendable () -> Void) throws -> any Service {
        let place = try PagePlace(settings.pageListen ?? "")
        let token = try settings.pageToken(for: place)
        let access = PageAccess(
            isOpen: place.isLoopback, operatorToken: token,
            programs: try settings.programTokens(), shares: shares)
        return try ServerApplication.make(
            routes(place, access), at: .hostname(place.host, port: place.port), limits: Self.limits,
            logger: logger, onServing: onServing)
    }

    func loss() -> String? { nil }

    func routes(_ place: PagePlace, _ access: PageAccess) -> RouteBook {
        let router = RouteBook()
        _ = router.add(middleware: PageGuard(place: place))
        _ = router.add(middleware: FailureAnswers(advice: "docs/use/live-page.md", logger: logger))
        addPages(to: router, access)
        addSession(to: router, access)
        let viewer: @Sendable (Request, PeerContext) async -> Viewer? = { request, context in
            let token = Self.token(in: request)
            return await access.scope(cookie: token, at: Date()).map {
                Viewer(scope: $0, token: token, channel: context.channel)
            }
        }
        LiveRoutes(feed: feed, viewers: viewers, viewer: viewer).add(to: router)
        FleetRoutes(status: status, gaps: gaps) { request in
            await access.opens(.fleet, token: Self.token(in: request), at: Date())
        }.add(to: router)
        router.get("metrics") { [metrics] request, _ in
            guard await access.opens(.metrics, token: Self.token(in: request), at: Date()) else {
                return try Answers.json(.metricsTokenNeeded)
            }
            return try await Metrics.response(metrics)
        }
        return router
    }

    private func addPages(to router: RouteBook, _ access: PageAccess) {
        router.get("/") { request, _ in
            var response = PageDocument.answer(PageDocument.live)
            // Whoever opens the page again gets in as one without a link; a page that is open stays as it is.
            if let cookie = request.cookies[Self.cookieName]?.value,
                await access.scope(cookie: cookie, at: Date()) == nil
            {
                response.headers[.setCookie] = Self.cookie("", lifetime: .zero)
            }
            return response
        }
        router.get("enroll") { _, _ in PageDocument.answer(PageDocument.enroll) }
        EnrollOnceRoutes(webEnrolling: webEnrolling).add(to: router)
    }

    /// Takes a token from the page's script, which had it from the link's fragment: so it is in no URL
    /// that a server or a proxy sees, and from then on in a cookie that no script can read.
    private func addSession(to router: RouteBook, _ access: PageAccess) {
        router.post("v1/session") { request, _ in
            let ask: SessionRequest = try await Answers.body(of: request)
            switch await access.admit(ask.token, at: Date()) {
            case .admitted:
                return Response(
                    status: .noContent,
                    headers: [.setCookie: Self.cookie(ask.token, lifetime: Self.cookieLifetime)])
            case .refused:
                return try Answers.json(.badToken)
            case .tooMany(let pause):
                var response = try Answers.json(.badToken, status: .tooManyRequests)
                response.headers[.retryAfter] = "\(pause.components.seconds)"
                return response
            }
        }
    }

    private static func cookie(_ token: String, lifetime: Duration) -> String {
        "\(cookieName)=\(token); Path=/; HttpOnly; SameSite=Strict; "
            + "Max-Age=\(lifetime.components.seconds)"
    }

    /// The token of a request: a browser's cookie, or `Authorization: Bearer` of a program.
    private static func token(in request: Request) -> String? {
        if let header = request.headers[.authorization], header.hasPrefix("Bearer ") {
            return String(header.dropFirst("Bearer ".count))
        }
        return request.cookies[cookieName]?.value
    }
}

/// `POST /v1/session`
struct SessionRequest: Codable { var token: String }

/// The rules for every request to the page's server, and for every answer.
struct PageGuard: RouterMiddleware {
    let place: PagePlace

    func handle(
        _ request: Request, context: PeerContext,
        next: (Request, PeerContext) async throws -> Response
    ) async throws -> Response {
        guard place.accepts(authority: request.head.authority) else {
            return try Answers.json(.notFound, status: .misdirectedRequest)
        }
        // A form of another site cannot send JSON unless this server allows it, which it does not.
        if request.method != .get, request.method != .head,
            request.headers[.contentType]?.hasPrefix("application/json") != true
        {
            return try Answers.json(.wrongType("application/json"))
        }
        var response = try await next(request, context)
        response.headers[.xContentTypeOptions] = "nosniff"
        if let name = HTTPField.Name("Referrer-Policy") { response.headers[name] = "no-referrer" }
        return response
    }
}

extension ProblemReport {
    fileprivate static let badToken = ProblemReport(
        code: .badToken, message: "this link is wrong or no longer valid",
        advice: "ask for a new one: edge-gateway share")
    fileprivate static let metricsTokenNeeded = ProblemReport(
        code: .tokenNeeded, message: "this needs the token for metrics",
        advice: "send that of metrics.token_file; docs/operate/operations.md")
    static let notFound = ProblemReport(
        code: .notFound, message: "there is nothing here", advice: "docs/use/live-page.md")
}
