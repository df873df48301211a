import Basics
import Foundation
import Hummingbird
import Logging
import NIOCore
import ServiceLifecycle
import Uplink

/// The relay's health and metrics, on a port of its own.
struct RelayServer {
    /// A monitor or two.
    private static let limits = ServerLimits(connectionsMax: 64, perPeerMax: 32)

    let relay: Relay
    let place: PagePlace

    func service(_ logger: Logger) throws -> any Service {
        try ServerApplication.make(
            routes(logger), at: .hostname(place.host, port: place.port), limits: Self.limits,
            logger: logger
        ) { [place] in
            logger.notice("metrics", metadata: ["place": "\(place.url)/metrics"])
        }
    }

    func routes(_ logger: Logger) -> RouteBook {
        let router = RouteBook()
        _ = router.add(middleware: PageGuard(place: place))
        _ = router.add(middleware: FailureAnswers(advice: "docs/operate/relay.md", logger: logger))
        router.get("health") { [relay] _, _ in
            let facts = await relay.facts
            let words =
                facts.connectionFault ?? facts.exchangeFault
                ?? (facts.isListening ? "well" : "not listening yet")
            return Response(
                status: facts.isWell ? .ok : .serviceUnavailable,
                headers: [.contentType: "text/plain; charset=utf-8", .cacheControl: "no-store"],
                body: ResponseBody(byteBuffer: ByteBuffer(string: words + "\n")))
        }
        router.get("metrics") { [relay] _, _ in
            Response(
                status: .ok,
                headers: [
                    .contentType: "text/plain; version=0.0.4; charset=utf-8",
                    .cacheControl: "no-store",
                ],
                body: ResponseBody(byteBuffer: ByteBuffer(string: Self.text(await relay.facts))))
        }
        return router
    }

    static func text(_ facts: RelayFacts) -> String {
        var page = MetricsPage()
        func gauge(_ name: String, _ help: String, _ value: Int) {
            page.add("relay_" + name, .gauge, help, Double(value))
        }
        func counter(_ name: String, _ help: String, _ value: Int) {
            page.add("relay_" + name + "_total", .counter, help, Double(value))
        }
        gauge("well", "1 if it listens and the exchange takes requests.", facts.isWell ? 1 : 0)
        gauge("listening", "1 if it listens at a NATS server.", facts.isListening ? 1 : 0)
        gauge("waiting", "Requests of gateways that wait.", facts.waiting)
        gauge("busy_workers", "Workers that wait for the exchange.", facts.busyWorkers)
        counter("requests", "Requests of gateways.", facts.requests)
        counter("points", "Data points in them.", facts.points)
        counter("malformed", "Requests that could not be read.", facts.malformed)
        counter("forbidden", "Data points that their gateway may not write.", facts.forbidden)
        counter("busy", "Requests turned away because of too much work.", facts.busy)
        counter("expired", "Requests turned away because they had waited too long.", facts.expired)
        counter("stalls", "Times it stood still and connected anew.", facts.stalls)
        counter("bundles", "Requests to the exchange.", facts.bundles)
        counter("halved", "Requests to the exchange that failed and were halved.", facts.halved)
        page.add(
            "relay_answers_total", .counter, "Data points by what the exchange said.",
            [
                (["outcome": "stored"], Double(facts.stored)),
                (["outcome": "stored-before"], Double(facts.storedBefore)),
                (["outcome": "not-taken"], Double(facts.notTaken)),
            ])
        return page.text
    }
}
