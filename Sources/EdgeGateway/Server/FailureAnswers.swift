import HTTPTypes
import Hummingbird
import Logging
import NIOCore
import NIOHTTP1
import OfflineQueue

/// Whatever goes wrong in a route, before it or beside it is answered as a problem: a program that reads
/// `code` and `advice` finds them with every status of 400 or above.
struct FailureAnswers: RouterMiddleware {
    /// Where a person finds the right one.
    let advice: String
    let logger: Logger

    func handle(
        _ request: Request, context: PeerContext,
        next: (Request, PeerContext) async throws -> Response
    ) async throws -> Response {
        do {
            return try await next(request, context)
        } catch let problem as ProblemReport {
            return try Answers.json(problem)
        } catch let error as QueueError {
            logger.error("\(error)")
            return try Answers.json(ProblemReport(error))
        } catch is NIOTooManyBytesError {
            return try Answers.json(.tooLarge)
        } catch is HTTPParserError {
            // Such as an invalid chunk: nothing that follows on this connection can be understood.
            var response = try Answers.json(.malformedRequest)
            response.headers[.connection] = "close"
            return response
        } catch let error as any HTTPResponseError {
            let problem = ProblemReport(
                code: error.status == .notFound ? .notFound : .badRequest,
                message: error.status == .notFound
                    ? "there is nothing here" : "the request is not understood",
                advice: advice)
            return try Answers.json(problem, status: error.status)
        } catch let error as CancellationError {
            throw error
        } catch {
            // A client that disconnects in the middle of a request is no fault of the gateway. The error's words
            // are not logged: they may quote the request.
            logger.log(
                level: context.channel.isActive ? .error : .debug,
                "request failed: \(type(of: error))")
            return try Answers.json(.internalFault)
        }
    }
}

extension ProblemReport {
    fileprivate static let tooLarge = ProblemReport(
        code: .tooLarge, message: "the request is larger than this path allows",
        advice: "docs/api.yaml lists the limits")
    fileprivate static let internalFault = ProblemReport(
        code: .internalFault, message: "internal error in the gateway; recording goes on",
        advice: "please report it: edge-gateway bugreport")
}
