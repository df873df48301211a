import Glibc
import Hummingbird
import HummingbirdCore
import Logging
import NIOCore
import NIOHTTP1
import NIOPosix
import ServiceLifecycle

/// How both servers are put together.
enum ServerApplication {
    /// A request has some headers of a browser's; 16 KB is what servers commonly take.
    private static let headerBytesMax = 16 << 10
    private static let headerCountMax = 100
    /// Connections that are being closed still count for a moment; above this many more, new ones are refused.
    private static let connectionsBeyond = 32
    /// One thread for the connections of all servers; answers are made on the tasks' threads. SwiftNIO's shared group
    /// has one for each core, with a stack and buffers.
    private static let loops = MultiThreadedEventLoopGroup(numberOfThreads: 1)

    /// A server that was never run: what Hummingbird's `Application` makes, without its clock. That has the
    /// `Date` of answers ready, and wakes the machine up each second for it.
    ///
    /// - Parameter onServing: called once it takes connections.
    static func make(
        _ routes: RouteBook, at address: BindAddress, limits: ServerLimits, logger: Logger,
        onServing: @escaping @Sendable () -> Void
    ) throws -> any Service {
        var logger = logger
        // The server's own words are about connections; the caller reports why it failed.
        logger.logLevel = max(logger.logLevel, .critical)
        let quiet = logger
        let door = ConnectionDoor(limits)
        let responder = routes.router().buildResponder()
        let builder = HTTPServerBuilder.http1(
            configuration: HTTP1Channel.Configuration(
                additionalChannelHandlers: [ConnectionGuard(door)],
                httpDecoderConfiguration: .init(
                    maxHeaderFieldSize: headerBytesMax, maxHeaderListSize: headerBytesMax,
                    maxHeaderFieldCount: headerCountMax)))
        return try builder.buildServer(
            configuration: ServerConfiguration(
                address: address,
                availableConnectionsDelegate: MaximumAvailableConnections(
                    limits.connectionsMax + connectionsBeyond, logger: quiet)),
            eventLoopGroup: loops, logger: quiet,
            responder: { request, writer, channel in
                let context = PeerContext(
                    source: ApplicationRequestContextSource(channel: channel, logger: quiet))
                var response: Response
                do {
                    response = try await responder.respond(to: request, context: context)
                } catch let error as HTTPParserError {
                    throw error
                } catch {
                    response = Response(status: .internalServerError)
                }
                response.headers[.date] = HTTPDate.text(of: time(nil))
                do {
                    try await writer.write(response: response.head, body: response.body)
                } catch is HTTPParserError {
                    // As itself it would be answered with another response.
                    throw AnswerInterrupted()
                }
            },
            onServerRunning: { _ in onServing() })
    }
}

/// The rest of a request became invalid while its answer was written.
private struct AnswerInterrupted: Error {}

/// The time of an answer, as RFC 9110 §5.6.7 has it.
enum HTTPDate {
    /// `Sun, 06 Nov 1994 08:49:37 GMT`
    static func text(of time: time_t) -> String {
        var time = time
        var parts = tm()
        gmtime_r(&time, &parts)
        // The program leaves the locale at "C".
        return withUnsafeTemporaryAllocation(of: CChar.self, capacity: 64) { buffer in
            let length = strftime(
                buffer.baseAddress, buffer.count, "%a, %d %b %Y %H:%M:%S GMT", &parts)
            return String(
                decoding: buffer.prefix(length).map(UInt8.init(bitPattern:)), as: UTF8.self)
        }
    }
}
