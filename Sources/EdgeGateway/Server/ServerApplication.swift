import Hummingbird
import HummingbirdCore
import Logging
import NIOCore
import ServiceLifecycle

/// How both servers are put together.
enum ServerApplication {
    /// A request has some headers of a browser's; 16 KB is what servers commonly take.
    private static let headerBytesMax = 16 << 10
    private static let headerCountMax = 100
    /// Connections that are being closed still count for a moment; above this many more, new ones are refused.
    private static let connectionsBeyond = 32

    /// A server that was never run.
    ///
    /// - Parameter onServing: called once it takes connections.
    static func make(
        _ routes: RouteBook, at address: BindAddress, limits: ServerLimits, logger: Logger,
        onServing: @escaping @Sendable () -> Void
    ) -> any Service {
        var quiet = logger
        // The server's own words are about connections; the caller reports why it failed.
        quiet.logLevel = max(logger.logLevel, .critical)
        let door = ConnectionDoor(limits)
        return Application(
            router: routes.router(),
            server: .http1(
                configuration: HTTP1Channel.Configuration(
                    additionalChannelHandlers: [ConnectionGuard(door)],
                    httpDecoderConfiguration: .init(
                        maxHeaderFieldSize: headerBytesMax, maxHeaderListSize: headerBytesMax,
                        maxHeaderFieldCount: headerCountMax))),
            configuration: ApplicationConfiguration(
                address: address, serverName: nil,
                availableConnectionsDelegate: MaximumAvailableConnections(
                    limits.connectionsMax + connectionsBeyond, logger: quiet)),
            onServerRunning: { _ in onServing() }, logger: quiet)
    }
}
