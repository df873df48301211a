import BlueZ
import Foundation
import GATTHeartRate
import Logging
import OfflineQueue
import ServiceLifecycle
import UnixSignals

/// The daemon's life: open the store, take up the straps and lanes, serve, and leave in order.
struct Daemon {
    /// SIGTERM to exit takes at most 5 s; the last flush and the farewell need some of them.
    private static let shutdownSecondsMax = 4

    let settings: Settings

    /// Runs until SIGTERM or SIGINT.
    ///
    /// - Throws: ``SettingsFault`` when it cannot start, in one line with advice.
    func run() async throws {
        // Files and the socket are nobody else's business; the socket's mode is set on its own.
        umask(0o077)
        try settings.checkUplink()
        let logger = makeLogger()
        let clock = SystemClock(trust: settings.clockTrust)
        let notifier = SystemdNotifier()
        let queue = try openQueue(clock: clock, notifier)
        let central = Central(settings: centralSettings())
        let gateway = Gateway(
            settings: settings, queue: queue, central: central, clock: clock, logger: logger)
        let feed = LiveFeed(gateway: gateway)
        let viewers = Viewers()
        let server = try ControlServer(
            gateway: gateway, feed: feed, viewers: viewers, policy: settings.changePolicy,
            socketPath: settings.socketPath, logger: logger,
            onReady: { notifier.send("READY=1\nSTATUS=recording") }
        ).application()
        var services: [any Service] = [
            StoreKeeper(queue: queue, clock: clock, logger: logger),
            RadioService(central: central, recorder: gateway.recorder),
            Watchdog(
                pause: Watchdog.pause(ProcessInfo.processInfo.environment), queue: queue,
                recorder: gateway.recorder, central: central, notifier: notifier),
            HealthWatch(gateway: gateway),
            TokenWatch(gateway: gateway),
            server,
        ]
        if let page = try pageServer(gateway, feed, viewers, logger) {
            services.append(page.application())
        }
        try await begin(gateway)
        let group = serviceGroup(services, logger: logger)
        logger.info("started", metadata: ["version": "\(GatewayVersion.text)"])
        do {
            try await group.run()
        } catch {
            logger.error("service failed: \(error)")
            await leave(gateway, queue, notifier, logger)
            throw SettingsFault(description: "run: \(error); see the log")
        }
        await leave(gateway, queue, notifier, logger)
    }

    private func centralSettings() -> CentralSettings {
        var central = CentralSettings(service: HeartRateService.service)
        let helper = RadioResetClient(socketPath: settings.radioResetSocket)
        // On a thread of its own: the kernel may take its time with a hung controller.
        central.resetsController = { address in
            await withCheckedContinuation { continuation in
                Thread.detachNewThread { continuation.resume(returning: helper.reset(address)) }
            }
        }
        return central
    }

    private func makeLogger() -> Logger {
        LoggingSystem.bootstrap { label in
            var handler = StreamLogHandler.standardError(label: label)
            handler.logLevel = settings.logLevel
            return handler
        }
        return Logger(label: "edge-gateway")
    }

    private func openQueue(
        clock: SystemClock, _ notifier: SystemdNotifier
    ) throws(SettingsFault) -> SampleQueue {
        do {
            try FileManager.default.createDirectory(
                atPath: settings.stateDirectory, withIntermediateDirectories: true,
                attributes: [.posixPermissions: 0o700])
        } catch {
            throw SettingsFault(
                description: "open store: the directory \(settings.stateDirectory) cannot be made; "
                    + "set `state` or EDGE_GATEWAY_STATE to one that this user may write")
        }
        guard let bootID = BootID.current() else {
            throw SettingsFault(description: "open store: /proc is not mounted; mount it")
        }
        var queueSettings = QueueSettings()
        queueSettings.commitSamplesMax = settings.commitSamples
        queueSettings.commitAgeMicrosecondsMax = Int64(settings.commitSeconds) * 1_000_000
        queueSettings.keepDeliveredMicroseconds =
            Int64(settings.keepDeliveredHours) * 3_600_000_000
        queueSettings.maxBytes = settings.storeBytesMax
        queueSettings.fullPolicy = settings.fullPolicy
        if settings.sampleAgeDaysMax > 0 {
            queueSettings.maxAgeMicroseconds = Int64(settings.sampleAgeDaysMax) * 86_400_000_000
        }
        do {
            let pulse = SalvagePulse(notifier)
            return try SampleQueue(
                path: settings.storePath, settings: queueSettings,
                clock: clock, bootID: bootID, whileSalvaging: { pulse.beat() })
        } catch {
            throw SettingsFault(description: "\(error)")
        }
    }

    /// The live page's server, if one is wanted. Beyond this machine nobody sees anything without a token.
    private func pageServer(
        _ gateway: Gateway, _ feed: LiveFeed, _ viewers: Viewers, _ logger: Logger
    ) throws(SettingsFault) -> PageServer? {
        guard let listen = settings.pageListen else { return nil }
        let place = try PagePlace(listen)
        var token: String?
        if let file = settings.pageTokenFile {
            token = try PageToken.read(file)
        } else if !place.isLoopback {
            throw SettingsFault(
                description:
                    "page.listen: \(listen) is reachable by others, and there is no token; "
                    + "set page.token_file (head -c 32 /dev/urandom | base64 > FILE; chmod 600 FILE)"
            )
        }
        let access = PageAccess(
            isOpen: place.isLoopback, operatorToken: token, shares: gateway.shares)
        return PageServer(
            place: place, feed: feed, viewers: viewers, access: access, gateway: gateway,
            logger: logger)
    }

    private func begin(_ gateway: Gateway) async throws(SettingsFault) {
        do {
            try await gateway.begin()
        } catch {
            throw SettingsFault(description: "read store: \(error)")
        }
    }

    private func serviceGroup(_ services: [any Service], logger: Logger) -> ServiceGroup {
        var quiet = logger
        quiet.logLevel = max(logger.logLevel, .warning)
        var configuration = ServiceGroupConfiguration(
            services: services, gracefulShutdownSignals: [.sigterm, .sigint], logger: quiet)
        configuration.maximumGracefulShutdownDuration = .seconds(Self.shutdownSecondsMax)
        return ServiceGroup(configuration: configuration)
    }

    /// Radio and socket are closed by now: write what is in memory, finish token renewals.
    private func leave(
        _ gateway: Gateway, _ queue: SampleQueue, _ notifier: SystemdNotifier, _ logger: Logger
    ) async {
        notifier.send("STOPPING=1")
        do {
            try await queue.flush()
        } catch {
            logger.error("flush: \(error)")
        }
        await gateway.lanes.stopAll()
        do {
            try await queue.close()
        } catch {
            logger.error("close store: \(error)")
        }
        logger.info("stopped")
    }
}
