import Foundation
import HTTPTypes
import Hummingbird
import NIOCore

/// How both servers answer: JSON, and problems with the status that fits them.
enum Answers {
    /// The largest request is a pairing with a long name; the rest is refused.
    static let requestBytesMax = 64 << 10

    static func answer<Report: Encodable & SendableMetatype>(
        _ work: () async throws -> Report
    ) async throws -> Response {
        do {
            return try json(try await work(), status: .ok)
        } catch let problem as ProblemReport {
            return try json(problem, status: problem.httpStatus)
        }
    }

    static func answer<
        Ask: Decodable & Sendable & SendableMetatype, Report: Encodable & SendableMetatype
    >(
        _ request: Request, _ work: (Ask) async throws -> Report
    ) async throws -> Response {
        guard let ask: Ask = try await body(of: request) else {
            return try json(.badRequest, status: .badRequest)
        }
        return try await answer { try await work(ask) }
    }

    /// The request's JSON; nil if it is not understood.
    static func body<Ask: Decodable & SendableMetatype>(of request: Request) async throws -> Ask? {
        let body = try await request.body.collect(upTo: requestBytesMax)
        return try? ReportCoding.decoder().decode(Ask.self, from: Data(body.readableBytesView))
    }

    static func json(_ problem: ProblemReport, status: HTTPResponse.Status) throws -> Response {
        try json(problem as any Encodable, status: status)
    }

    private static func json(
        _ report: any Encodable, status: HTTPResponse.Status
    ) throws -> Response {
        let data = try ReportCoding.encoder().encode(report)
        return Response(
            status: status,
            headers: [.contentType: "application/json", .cacheControl: "no-store"],
            body: ResponseBody(byteBuffer: ByteBuffer(bytes: data)))
    }
}

extension ProblemReport {
    /// A request whose JSON is not what is asked for.
    static let badRequest = ProblemReport(
        code: "bad-request", message: "the request's JSON is not understood",
        advice: "docs/json.md describes it")

    /// 400: the request is wrong; 409: the gateway is in no state to do it.
    var httpStatus: HTTPResponse.Status {
        [
            "bad-request", "unknown-sensor", "unknown-enrollment", "bad-address", "bad-link",
            "unknown-reference", "invalid-argument",
        ].contains(code) ? .badRequest : .conflict
    }
}
