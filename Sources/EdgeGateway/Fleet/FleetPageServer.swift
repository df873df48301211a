import Basics
import Foundation
import Hummingbird
import Logging
import ServiceLifecycle
import UnixSignals

/// The fleet's page: one screen for all gateways in a browser of this machine.
struct FleetPageServer {
    /// Some screens of operators, each with a connection or two.
    private static let limits = ServerLimits(connectionsMax: 64, perPeerMax: 64)

    let place: PagePlace
    let poller: any FleetSource
    /// Between two questions to the gateways, however many screens there are.
    let pause: Duration

    /// Serves until SIGTERM or SIGINT.
    ///
    /// - Throws: ``CommandFailure`` if it cannot listen there.
    func run() async throws {
        var logger = Logger(label: "edge-gateway")
        logger.logLevel = .critical
        let server = try ServerApplication.make(
            routes(logger), at: .hostname(place.host, port: place.port), limits: Self.limits,
            logger: logger
        ) { [place] in Terminal.write("the fleet's page is at \(place.url)\n") }
        let group = ServiceGroup(
            configuration: ServiceGroupConfiguration(
                services: [server, FleetWatch(poller: poller, pause: pause)],
                gracefulShutdownSignals: [.sigterm, .sigint], logger: logger))
        do {
            try await group.run()
        } catch {
            throw CommandFailure(
                exitCode: .notWell,
                message: "--page: \(place.url) cannot be opened: another program may have the port")
        }
    }

    func routes(_ logger: Logger) -> RouteBook {
        let router = RouteBook()
        _ = router.add(middleware: PageGuard(place: place))
        _ = router.add(middleware: FailureAnswers(advice: "docs/operate/fleet.md", logger: logger))
        router.get("/") { _, _ in PageDocument.answer(PageDocument.fleet) }
        router.get("v1/fleet/hosts") { [poller, pause] _, _ in
            try await Answers.answer {
                var report = await poller.report()
                let most = pause + FleetPoller.roundMax(of: report.gateways.count)
                if Date().timeIntervalSince(report.time) > most.inSeconds { report.old = true }
                return report
            }
        }
        return router
    }
}

/// Asks at regular intervals.
private struct FleetWatch: Service {
    let poller: any FleetSource
    let pause: Duration

    func run() async throws {
        await cancelWhenGracefulShutdown {
            while !Task.isCancelled {
                let next = ContinuousClock.now + pause
                _ = await poller.poll()
                await FleetShowCommand.keep(poller)
                await poller.wait(for: max(.zero, next - .now))
            }
        }
    }
}
