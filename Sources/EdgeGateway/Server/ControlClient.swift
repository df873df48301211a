import Foundation
import NIOHTTP1

/// A command's way to the daemon: HTTP and JSON over the control socket.
struct ControlClient {
    /// A report of some hundred sensors is far below this.
    static let answerBytesMax = 16 << 20

    let socketPath: String
    /// The texts of answers are made one printable line each: for commands that show them to people. JSON and
    /// files have them as they are.
    var isForPeople = false

    /// - Parameter timeout: how long the daemon may take.
    /// - Throws: ``CommandFailure`` with advice.
    func get<Report: Decodable>(_ path: String, timeout: Duration = .seconds(10)) async throws
        -> Report
    {
        try await send(.GET, path, body: [], timeout: timeout)
    }

    /// - Parameter timeout: how long the daemon may take.
    /// - Throws: ``CommandFailure`` with advice.
    func post<Report: Decodable>(
        _ path: String, _ request: some Encodable, timeout: Duration
    ) async throws -> Report {
        let body = try ReportCoding.encoder().encode(request)
        return try await send(.POST, path, body: [UInt8](body), timeout: timeout)
    }

    /// Sends bytes as they are.
    ///
    /// - Parameter timeout: how long the daemon may take.
    /// - Throws: ``CommandFailure`` with advice.
    func post<Report: Decodable>(
        _ path: String, bytes: [UInt8], timeout: Duration
    ) async throws -> Report {
        try await send(
            .POST, path, body: bytes, type: "application/octet-stream", timeout: timeout)
    }

    private func send<Report: Decodable>(
        _ method: HTTPMethod, _ path: String, body: [UInt8],
        type: String = "application/json", timeout: Duration
    ) async throws -> Report {
        let answer: ControlSocket.Answer
        do {
            answer = try await ControlSocket(path: socketPath, answerBytesMax: Self.answerBytesMax)
                .send(
                    method, path, contentType: body.isEmpty ? nil : type, body: body,
                    timeout: timeout)
        } catch .noConnection {
            throw Obstacle(at: socketPath).failure(at: socketPath)
        } catch .timeout {
            throw CommandFailure(
                exitCode: .daemonUnreachable,
                message:
                    "the daemon did not answer in \(timeout.components.seconds) s; see its log "
                    + "(journalctl -u edge-gateway)")
        } catch {
            throw CommandFailure(
                exitCode: .daemonUnreachable,
                message: "no daemon at \(socketPath): \(error)\n  \(Obstacle.notListening.advice)")
        }
        let decoder = ReportCoding.decoder()
        guard (200..<300).contains(answer.status) else {
            throw failure(answer)
        }
        do {
            return try decoder.decode(Report.self, from: shown(answer.body))
        } catch {
            throw CommandFailure(
                exitCode: .notWell,
                message: "the daemon's answer is not understood: it may be another version; "
                    + "restart it (systemctl restart edge-gateway)")
        }
    }

    private func shown(_ body: [UInt8]) -> Data {
        isForPeople ? Printable.strings(inJSON: Data(body)) : Data(body)
    }

    private func failure(_ answer: ControlSocket.Answer) -> CommandFailure {
        let problem = try? ReportCoding.decoder().decode(
            ProblemReport.self, from: Printable.strings(inJSON: Data(answer.body)))
        let exitCode: CommandExit =
            switch answer.status {
            case 400, 404: .wrongUsage
            case 403: .notPermitted
            default: .notWell
            }
        return CommandFailure(
            exitCode: exitCode,
            message: problem.map { "\($0.message)\n  \($0.advice)" }
                ?? "the daemon answered \(answer.status)")
    }
}
