import HTTPTypes
import Hummingbird

/// A router that remembers its paths: a known path answers an unsupported method with 405 and the supported
/// ones (RFC 9110 §15.5.6), not with 404.
final class RouteBook: RouterMethods {
    typealias Context = PeerContext

    private let inner = Router(
        context: PeerContext.self, options: .autoGenerateHeadEndpoints)
    /// The methods of each path, as it was written: `/v1/queue/dead/{id}`.
    private(set) var routes: [String: Set<HTTPRequest.Method>] = [:]

    func add(middleware: any MiddlewareProtocol<Request, Response, PeerContext>) -> Self {
        inner.add(middleware: middleware)
        return self
    }

    @discardableResult
    func on<Responder: HTTPResponder>(
        _ path: RouterPath, method: HTTPRequest.Method, responder: Responder
    ) -> Self where Responder.Context == PeerContext {
        routes["\(path)", default: []].insert(method)
        inner.on(path, method: method, responder: responder)
        return self
    }

    /// A path that answers with a report.
    func get<Report: Encodable & SendableMetatype>(
        _ path: RouterPath, answer: @escaping @Sendable () async throws -> Report
    ) {
        get(path) { _, _ in try await Answers.answer(answer) }
    }

    /// A path that answers with a report, for a query.
    func get<Report: Encodable & SendableMetatype>(
        _ path: RouterPath, answer: @escaping @Sendable (Query) async throws -> Report
    ) {
        get(path) { request, _ in try await Answers.answer { try await answer(Query(request)) } }
    }

    /// A path that does something and answers with a report.
    func post<Report: Encodable & SendableMetatype>(
        _ path: RouterPath, answer: @escaping @Sendable () async throws -> Report
    ) {
        post(path) { _, _ in try await Answers.answer(answer) }
    }

    /// A path that does what a request's JSON asks for, and answers with a report.
    func post<
        Ask: Decodable & Sendable & SendableMetatype, Report: Encodable & SendableMetatype
    >(
        _ path: RouterPath, bytesMax: Int = Answers.requestBytesMax,
        answer: @escaping @Sendable (Ask) async throws -> Report
    ) {
        post(path) { request, _ in
            try await Answers.answer(request, bytesMax: bytesMax, answer)
        }
    }

    /// The router with everything in it, once all routes are.
    func router() -> Router<PeerContext> {
        let paths = Router(context: PeerContext.self)
        for (path, methods) in routes {
            var allowed = methods
            // A path that supports GET supports HEAD.
            if methods.contains(.get) { allowed.insert(.head) }
            let allow = allowed.map(\.rawValue).sorted().joined(separator: ", ")
            paths.on(RouterPath(path), method: WrongMethod.method) { _, _ in
                var response = try Answers.json(.wrongMethod(allow))
                response.headers[.allow] = allow
                return response
            }
        }
        // Added last, this middleware wraps only the answer to requests that match no route.
        inner.add(middleware: WrongMethod(paths: paths.buildResponder()))
        return inner
    }
}

/// Answers a request whose path is known, but not with this method.
private struct WrongMethod: RouterMiddleware {
    /// Every path in ``paths`` is registered under this method; a request is looked up with it, whatever its own is.
    static let method = HTTPRequest.Method.get

    let paths: RouterResponder<PeerContext>

    func handle(
        _ request: Request, context: PeerContext,
        next: (Request, PeerContext) async throws -> Response
    ) async throws -> Response {
        var head = request.head
        head.method = Self.method
        let question = Request(head: head, body: request.body)
        let answer = try await paths.respond(to: question, context: context)
        return answer.status == .methodNotAllowed ? answer : try await next(request, context)
    }
}

extension ProblemReport {
    fileprivate static func wrongMethod(_ allowed: String) -> ProblemReport {
        ProblemReport(
            code: .wrongMethod, message: "this path does not support that method",
            advice: "use \(allowed)")
    }
}
