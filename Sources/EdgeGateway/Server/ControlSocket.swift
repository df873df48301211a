import Basics
import NIOCore
import NIOHTTP1
import NIOPosix

/// A request of a command to the daemon over its Unix socket, and the answer.
///
/// libcurl could do it, but brings thirty libraries that a command would load for nothing else.
struct ControlSocket {
    struct Answer {
        let status: Int
        let body: [UInt8]
    }

    enum Fault: Error, CustomStringConvertible {
        /// Nobody listens, or this user may not ask.
        case noConnection
        /// The daemon took longer than the request allows.
        case timeout
        /// The connection ended before the answer did.
        case cut
        /// The answer is larger than ``answerBytesMax``.
        case answerTooLarge
        /// The path would break out of its line.
        case malformedPath

        var description: String {
            switch self {
            case .noConnection: "nobody listens there"
            case .timeout: "it did not answer in time"
            case .cut: "the connection ended before the answer did"
            case .answerTooLarge: "its answer is too large"
            case .malformedPath: "the request has no such path"
            }
        }
    }

    private typealias Channel = NIOAsyncChannel<NIOHTTPClientResponseFull, HTTPClientRequestPart>

    let path: String
    /// The most that is read of an answer, in bytes.
    let answerBytesMax: Int

    /// One thread for all requests of a command, for as long as it runs.
    private static let loops = MultiThreadedEventLoopGroup(numberOfThreads: 1)

    /// Sends a request on a connection of its own.
    func send(
        _ method: HTTPMethod, _ target: String, contentType: String?, body: [UInt8],
        timeout: Duration
    ) async throws(Fault) -> Answer {
        guard target.utf8.first == 0x2F, target.utf8.allSatisfy({ 0x21...0x7E ~= $0 }) else {
            throw .malformedPath
        }
        var head = HTTPRequestHead(version: .http1_1, method: method, uri: target)
        // The socket's peer is this machine: the host's name is only there for HTTP's sake.
        head.headers = ["Host": "localhost", "Accept": "application/json", "Connection": "close"]
        if let contentType { head.headers.add(name: "Content-Type", value: contentType) }
        if method != .GET { head.headers.add(name: "Content-Length", value: "\(body.count)") }
        let request: [HTTPClientRequestPart] = [
            .head(head), .body(.byteBuffer(ByteBuffer(bytes: body))), .end(nil),
        ]
        do {
            return try await withThrowingTaskGroup { group in
                defer { group.cancelAll() }
                group.addTask { try await exchange(request) }
                group.addTask {
                    await UptimeClock.system.sleep(timeout, tolerance: .zero)
                    try Task.checkCancellation()
                    throw Fault.timeout
                }
                guard let answer = try await group.next() else { throw Fault.cut }
                return answer
            }
        } catch let fault as Fault {
            throw fault
        } catch is NIOHTTPObjectAggregatorError {
            throw .answerTooLarge
        } catch {
            throw .cut
        }
    }

    private func exchange(_ request: [HTTPClientRequestPart]) async throws -> Answer {
        let channel: Channel
        do {
            channel = try await ClientBootstrap(group: Self.loops).connect(
                unixDomainSocketPath: path
            ) { channel in
                channel.eventLoop.makeCompletedFuture {
                    let pipeline = channel.pipeline.syncOperations
                    try pipeline.addHTTPClientHandlers()
                    try pipeline.addHandler(
                        NIOHTTPClientResponseAggregator(maxContentLength: answerBytesMax))
                    return try Channel(wrappingChannelSynchronously: channel)
                }
            }
        } catch is CancellationError {
            throw Fault.timeout
        } catch {
            throw Fault.noConnection
        }
        return try await channel.executeThenClose { inbound, outbound in
            // A daemon that refuses a request may answer before it has read all of it.
            do { try await outbound.write(contentsOf: request) } catch {}
            for try await answer in inbound {
                return Answer(
                    status: Int(answer.head.status.code),
                    body: answer.body.map { Array(buffer: $0) } ?? [])
            }
            throw Fault.cut
        }
    }
}
