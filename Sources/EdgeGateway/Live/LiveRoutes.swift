import Basics
import Foundation
import HTTPTypes
import Hummingbird
import NIOCore
import ServiceLifecycle

/// The routes for viewers, of both servers: `/v1/live` and what belongs to it.
struct LiveRoutes: Sendable {
    /// A state that did not change is sent again after this long, so that a viewer can tell a
    /// quiet strap from a dead connection.
    private static let strapsRepeat = Duration.seconds(2)
    private static let gatewayRepeat = Duration.seconds(5)
    /// An EventSource comes back after this long.
    private static let retry = Duration.seconds(1)

    let feed: LiveFeed
    let viewers: Viewers
    /// Who sends a request, and what it may see; nil if it may see nothing.
    let viewer: @Sendable (Request, PeerContext) async -> Viewer?

    init(
        feed: LiveFeed, viewers: Viewers,
        viewer: @escaping @Sendable (Request, PeerContext) async -> Viewer?
    ) {
        self.feed = feed
        self.viewers = viewers
        self.viewer = viewer
    }

    func add(to router: RouteBook) {
        router.get("v1/live") { request, context in
            guard let viewer = await viewer(request, context) else { return try Self.unknown() }
            let channel = context.channel
            guard let place = viewers.take(viewer, end: { channel.close(promise: nil) }) else {
                return try Self.full()
            }
            return stream(to: viewer.scope, place) { [look = self.viewer] in
                await look(request, context)?.scope
            }
        }
        router.get("v1/live/now") { [feed] request, context in
            guard let scope = await viewer(request, context)?.scope else {
                return try Self.unknown()
            }
            return try await Answers.answer { try await feed.report(for: scope) }
        }
        router.get("v1/live/history") { [feed] request, context in
            guard let scope = await viewer(request, context)?.scope else {
                return try Self.unknown()
            }
            let query = Query(request)
            guard let assignment = try query.number("assignment"),
                let minutes = try query.number("minutes")
            else { return try Answers.json(.badRequest) }
            return try await Answers.answer {
                try await feed.history(of: assignment, minutes: Int(minutes), for: scope)
            }
        }
        router.get("v1/live/uploads") { [feed] request, context in
            guard await viewer(request, context)?.scope == .full else { return try Self.unknown() }
            return try await Answers.answer { try await feed.uploads() }
        }
    }

    /// Server-sent events until the viewer, the daemon or the permission goes.
    private func stream(
        to scope: ViewerScope, _ place: Viewers.Place,
        stillMay: @escaping @Sendable () async -> ViewerScope?
    ) -> Response {
        let body = ResponseBody { [feed] writer in
            // Held as long as the viewer watches, and released for a HEAD request or a viewer that
            // leaves before the first event.
            defer { withExtendedLifetime(place) {} }
            var sent = SentEvents()
            try await writer.write(
                ByteBuffer(string: "retry: \(Self.retry.microseconds / 1000)\n\n"))
            while !Task.isCancelled, !Task.isShuttingDownGracefully, await stillMay() == scope {
                let now = Uptime.now()
                var events = ByteBuffer()
                if let report = try? await feed.report(for: scope) {
                    sent.add(report, to: &events, at: now, every: Self.strapsRepeat)
                }
                if scope == .full, let report = try? await feed.gatewayReport() {
                    sent.add(report, to: &events, at: now, every: Self.gatewayRepeat)
                }
                if events.readableBytes > 0 {
                    // A viewer that takes nothing is cut off by the connection's guard.
                    try await writer.write(events)
                }
                await UptimeClock.system.sleep(LiveFeed.period)
                try Task.checkCancellation()
            }
            try await writer.finish(nil)
        }
        var headers: HTTPFields = [
            .contentType: "text/event-stream", .cacheControl: "no-store",
        ]
        // A proxy hands each event on at once.
        if let name = HTTPField.Name("X-Accel-Buffering") { headers[name] = "no" }
        return Response(status: .ok, headers: headers, body: body)
    }

    private static func unknown() throws -> Response {
        try Answers.json(
            ProblemReport(
                code: .tokenNeeded, message: "this link is no longer valid",
                advice: "ask for a new one: edge-gateway share"))
    }

    private static func full() throws -> Response {
        try Answers.json(
            ProblemReport(
                code: .tooManyViewers, message: "too many viewers are watching",
                advice: "close a page that is no longer needed"))
    }
}

/// The last report that a viewer got, and its time.
private struct SentEvents {
    private var straps: (bytes: Data, at: Uptime)?
    private var gateway: (bytes: Data, at: Uptime)?

    mutating func add(
        _ report: LiveReport, to buffer: inout ByteBuffer, at now: Uptime, every pause: Duration
    ) {
        // Ages grow by themselves and are no change.
        var still = report
        still.at = MillisecondTime(.distantPast)
        for index in still.straps.indices {
            still.straps[index].linkSeconds = nil
            let age = report.straps[index].secondsSinceFrame
            // When the frame came, to the tenth of a second: that is what changes with a new one.
            still.straps[index].secondsSinceFrame = age.map {
                ((Uptime.zero.duration(to: now).inSeconds - $0) * 10).rounded()
            }
        }
        guard let compared = try? ReportCoding.encoder().encode(still),
            straps.map({ $0.bytes != compared || now - $0.at >= pause }) ?? true,
            let bytes = try? ReportCoding.encoder().encode(report)
        else { return }
        straps = (compared, now)
        buffer.writeEvent("straps", bytes)
    }

    mutating func add(
        _ report: LiveGatewayReport, to buffer: inout ByteBuffer, at now: Uptime,
        every pause: Duration
    ) {
        guard let bytes = try? ReportCoding.encoder().encode(report),
            gateway.map({ $0.bytes != bytes || now - $0.at >= pause }) ?? true
        else { return }
        gateway = (bytes, now)
        buffer.writeEvent("gateway", bytes)
    }
}

extension ByteBuffer {
    /// One server-sent event; JSON has no line ends.
    fileprivate mutating func writeEvent(_ name: String, _ data: Data) {
        writeString("event: \(name)\ndata: ")
        writeBytes(data)
        writeString("\n\n")
    }
}
