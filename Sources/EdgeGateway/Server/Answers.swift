import Foundation
import HTTPTypes
import Hummingbird
import NIOCore

/// How both servers answer: JSON, and problems with the status that fits them. What a route throws
/// ``FailureAnswers`` answers.
enum Answers {
    /// The largest request but those below is a pairing with a long name; the rest is refused.
    static let requestBytesMax = 64 << 10
    /// 10,000 dead letters, named by numbers of up to 19 digits.
    static let lettersBytesMax = 256 << 10

    static func answer<Report: Encodable & SendableMetatype>(
        _ work: () async throws -> Report
    ) async throws -> Response {
        try json(try await work(), status: .ok)
    }

    static func answer<
        Ask: Decodable & Sendable & SendableMetatype, Report: Encodable & SendableMetatype
    >(
        _ request: Request, bytesMax: Int = requestBytesMax, _ work: (Ask) async throws -> Report
    ) async throws -> Response {
        let ask: Ask = try await body(of: request, bytesMax: bytesMax)
        return try await answer { try await work(ask) }
    }

    /// The request's JSON.
    ///
    /// - Throws: ``ProblemReport`` if it is missing or cannot be read.
    static func body<Ask: Decodable & SendableMetatype>(
        of request: Request, bytesMax: Int = requestBytesMax
    ) async throws -> Ask {
        try check(request, type: "application/json")
        let body = try await request.body.collect(upTo: bytesMax)
        guard
            let ask = try? ReportCoding.decoder().decode(
                Ask.self, from: Data(body.readableBytesView))
        else { throw ProblemReport.badRequest }
        return ask
    }

    /// A body that says it is something else is not looked into; one that says nothing is.
    ///
    /// - Throws: ``ProblemReport``
    static func check(_ request: Request, type: String) throws {
        guard let said = request.headers[.contentType] else { return }
        let essence = said.prefix { $0 != ";" }.trimmingCharacters(in: .whitespaces).lowercased()
        guard essence == type else {
            throw ProblemReport.wrongType(type)
        }
    }

    /// - Parameter status: another one than the code's own, where HTTP wants it so.
    static func json(
        _ problem: ProblemReport, status: HTTPResponse.Status? = nil
    ) throws -> Response {
        try json(problem as any Encodable, status: status ?? problem.httpStatus)
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
    static func wrongType(_ wanted: String) -> ProblemReport {
        ProblemReport(
            code: .wrongType, message: "this path does not accept a body of that type",
            advice: "send it with Content-Type: \(wanted)")
    }

    /// A request whose JSON has another form than the path expects.
    static let badRequest = ProblemReport(
        code: .badRequest, message: "the request's JSON is not understood",
        advice: "docs/api.yaml describes it")
}
