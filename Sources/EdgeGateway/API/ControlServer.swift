import Foundation
import Glibc
import HTTPTypes
import Hummingbird
import Logging
import NIOCore

/// The control socket: HTTP and JSON under `/v1/` on a Unix socket of mode 0660.
struct ControlServer {
    /// The largest request is a pairing with a long name; the rest is refused.
    private static let requestBytesMax = 64 << 10
    /// Owner and group: root and the technicians' group.
    private static let socketMode: mode_t = 0o660

    let gateway: Gateway
    let socketPath: String
    let logger: Logger
    /// Called once the socket takes connections.
    let onReady: @Sendable () -> Void

    /// The server, ready to run as a service.
    ///
    /// - Throws: ``SettingsFault`` when the socket's place is taken or cannot be used.
    func application() throws(SettingsFault) -> some ApplicationProtocol {
        try clearPlace()
        let router = Router()
        router.get("v1/status") { [gateway] _, _ in try await answer { try await gateway.status() }
        }
        router.get("v1/sensors") { [gateway] _, _ in
            try await answer { try await gateway.sensors() }
        }
        router.get("v1/enrollments") { [gateway] _, _ in
            try await answer { try await gateway.enrollments() }
        }
        router.post("v1/scan") { [gateway] request, _ in
            try await answer(request) { (scan: ScanRequest) in
                try await gateway.scan(seconds: scan.seconds)
            }
        }
        router.post("v1/pair") { [gateway] request, _ in
            try await answer(request) { (pair: PairRequest) in try await gateway.pair(pair) }
        }
        router.get("v1/gaps") { [gateway] request, _ in
            let query = request.uri.queryParameters
            let sensor = query["sensor"].flatMap { Int64($0) }
            let days = query["days"].map { Int($0) ?? 0 } ?? 1
            return try await answer { try await gateway.gaps(sensor: sensor, days: days) }
        }
        router.get("v1/pairing/:address") { [gateway] _, context in
            let address = context.parameters.get("address") ?? ""
            return try await answer { try await gateway.pairingQuestion(of: address) }
        }
        router.post("v1/pairing/:address") { [gateway] request, context in
            let address = context.parameters.get("address") ?? ""
            return try await answer(request) { (ask: PairingAnswerRequest) in
                try await gateway.answerPairing(ask, of: address)
            }
        }
        router.post("v1/forget") { [gateway] request, _ in
            try await answer(request) { (forget: ForgetRequest) in
                try await gateway.forget(address: forget.address)
            }
        }
        router.post("v1/enroll") { [gateway] request, _ in
            try await answer(request) { (enroll: EnrollRequest) in
                try await gateway.enroll(enroll)
            }
        }
        var quiet = logger
        // The server's own words are about connections, not about the gateway.
        quiet.logLevel = max(logger.logLevel, .warning)
        let path = socketPath
        return Application(
            router: router,
            configuration: ApplicationConfiguration(
                address: .unixDomainSocket(path: path), serverName: nil),
            onServerRunning: { [onReady] _ in
                chmod(path, Self.socketMode)
                onReady()
            },
            logger: quiet)
    }

    /// Removes a socket that a killed daemon left behind, and only that.
    private func clearPlace() throws(SettingsFault) {
        var information = stat()
        guard lstat(socketPath, &information) == 0 else {
            let directory = URL(filePath: socketPath).deletingLastPathComponent().path
            guard access(directory, W_OK) == 0 else {
                throw SettingsFault(
                    description: "open control socket \(socketPath): its directory is missing or "
                        + "not writable; create it or set `socket`")
            }
            return
        }
        guard information.st_mode & S_IFMT == S_IFSOCK else {
            throw SettingsFault(
                description: "open control socket \(socketPath): something else is there; "
                    + "set `socket` to another place")
        }
        unlink(socketPath)
    }

    private func answer<Report: Encodable & SendableMetatype>(
        _ work: () async throws -> Report
    ) async throws -> Response {
        do {
            return try json(try await work(), status: .ok)
        } catch let problem as ProblemReport {
            return try json(problem, status: problem.httpStatus)
        }
    }

    private func answer<
        Ask: Decodable & Sendable & SendableMetatype, Report: Encodable & SendableMetatype
    >(
        _ request: Request, _ work: (Ask) async throws -> Report
    ) async throws -> Response {
        let body = try await request.body.collect(upTo: Self.requestBytesMax)
        guard
            let ask = try? ReportCoding.decoder().decode(
                Ask.self, from: Data(body.readableBytesView))
        else {
            return try json(
                ProblemReport(
                    code: "bad-request", message: "the request's JSON is not understood",
                    advice: "docs/json.md describes it"), status: .badRequest)
        }
        return try await answer { try await work(ask) }
    }

    private func json(_ report: some Encodable, status: HTTPResponse.Status) throws -> Response {
        let data = try ReportCoding.encoder().encode(report)
        return Response(
            status: status, headers: [.contentType: "application/json"],
            body: ResponseBody(byteBuffer: ByteBuffer(bytes: data)))
    }
}

extension ProblemReport {
    /// 400: the request is wrong; 409: the gateway is in no state to do it.
    var httpStatus: HTTPResponse.Status {
        ["bad-request", "unknown-sensor", "unknown-enrollment", "bad-address", "bad-link"]
            .contains(code) ? .badRequest : .conflict
    }
}
