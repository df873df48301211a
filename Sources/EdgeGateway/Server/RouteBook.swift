import HTTPTypes
import Hummingbird

/// A router that remembers its paths: a known path answers an unsupported method with 405 and the supported
/// ones (RFC 9110 §15.5.6), not with 404.
final class RouteBook: RouterMethods {
    typealias Context = PeerContext

    /// The methods that programs try; any other gets 404.
    private static let knownMethods =
        [.get, .head, .post, .put, .patch, .delete, .options, .trace, .connect]
        + [HTTPRequest.Method("QUERY")].compactMap { $0 }

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

    /// The router with everything in it, once all routes are.
    func router() -> Router<PeerContext> {
        for (path, methods) in routes {
            var allowed = methods
            // What supports GET supports HEAD.
            if methods.contains(.get) { allowed.insert(.head) }
            let allow = allowed.map(\.rawValue).sorted().joined(separator: ", ")
            for method in Self.knownMethods where !allowed.contains(method) {
                inner.on(RouterPath(path), method: method) { _, _ in
                    var response = try Answers.json(.wrongMethod(allow))
                    response.headers[.allow] = allow
                    return response
                }
            }
        }
        return inner
    }
}

extension ProblemReport {
    fileprivate static func wrongMethod(_ allowed: String) -> ProblemReport {
        ProblemReport(
            code: .wrongMethod, message: "this path does not support that method",
            advice: "use \(allowed)")
    }
}
