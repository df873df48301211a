import HTTPTypes
import Hummingbird
import Logging
import NIOCore

/// Whatever goes wrong before or beside a route's own work is answered as a problem too: a program that
/// reads `code` and `advice` finds them with every status of 400 or above.
struct FailureAnswers: RouterMiddleware {
    /// Where somebody finds what there is.
    let advice: String
    let logger: Logger

    func handle(
        _ request: Request, context: PeerContext,
        next: (Request, PeerContext) async throws -> Response
    ) async throws -> Response {
        do {
            return try await next(request, context)
        } catch let problem as ProblemReport {
            return try Answers.json(problem, status: problem.httpStatus)
        } catch is NIOTooManyBytesError {
            return try Answers.json(.tooLarge, status: .contentTooLarge)
        } catch let error as any HTTPResponseError {
            let problem = ProblemReport(
                code: error.status == .notFound ? "not-found" : "bad-request",
                message: error.status == .notFound
                    ? "there is nothing here" : "the request is not understood",
                advice: advice)
            return try Answers.json(problem, status: error.status)
        } catch let error as CancellationError {
            throw error
        } catch {
            // Somebody who hangs up in the middle of a request is no fault of ours. The error's words
            // are not logged: they may quote the request.
            logger.log(
                level: context.channel.isActive ? .error : .debug,
                "request failed: \(type(of: error))")
            return try Answers.json(.internalFault, status: .internalServerError)
        }
    }
}

extension ProblemReport {
    fileprivate static let tooLarge = ProblemReport(
        code: "too-large", message: "the request is larger than anything that is asked for here",
        advice: "docs/api.yaml says what fits")
    fileprivate static let internalFault = ProblemReport(
        code: "internal-fault", message: "the gateway made a mistake; recording goes on",
        advice: "please report it: edge-gateway bugreport")
}
