import Basics
import BlueZ
import Foundation
import GATTHeartRate
import Logging
import OfflineQueue
import ServiceLifecycle
import UnixSignals

/// The daemon's life: open the store, take up the straps and deliveries, serve, and leave in order.
struct Daemon {
    /// SIGTERM to exit takes at most 5 s, unless the disk holds up a write or a server a delivery; the last flush and the
    /// farewell need some of them.
    private static let shutdownMax = Duration.seconds(4)

    let settings: Settings

    /// Runs until SIGTERM or SIGINT.
    ///
    /// - Throws: ``SettingsFault`` when it cannot start, in one line with advice.
    func run() async throws {
        // Files and the socket are for this user alone; the socket's mode is set on its own.
        umask(0o077)
        let problems = settings.problems()
        if let fatal = problems.first(where: \.stopsDaemon) {
            throw SettingsFault(description: fatal.message)
        }
        // Before the store is touched: another daemon may be at work on it.
        let place = ControlSocketPlace(settings.socketPath)
        try claim(place)
        let logger = makeLogger()
        for problem in problems { logger.warning("\(problem.message)") }
        let storeThread = TaskThread(label: "store")
        let radioThread = TaskThread(label: "radio")
        let clock = SystemClock(settings)
        // Services that mostly call the store wake no other thread.
        let storeClock = SystemClock(settings, uptime: storeThread.clock)
        let notifier = SystemdNotifier()
        let queue = try openQueue(clock: storeClock, storeThread, notifier)
        let central = Central(
            settings: centralSettings(radioThread), clock: radioThread.clock)
        let states = ServiceStates()
        let gateway = Gateway(
            settings: settings, queue: queue, central: central, clock: clock, logger: logger,
            services: states)
        repairModes(logger)
        let control = ControlServer(gateway: gateway, place: place)
        var services = gateway.housekeeping(
            states: states, central: central, clock: clock, storeClock: storeClock,
            notifier: notifier)
        services.append(
            // Without a socket the gateway records all the same, and systemd must not end it for that.
            RetryingServer(
                server: control, states: states, logger: logger,
                onAttempted: { notifier.send("READY=1\nSTATUS=recording") }))
        if settings.pageListen != nil {
            services.append(
                RetryingServer(
                    server: PageServer(gateway: gateway), states: states, logger: logger))
        }
        // The last one is stopped first: the others may take all the time there is.
        services.append(
            gateway.radio(
                states: states, central: central, clock: clock, radioTasks: radioThread,
                storeTasks: queue.tasks))
        try await begin(gateway)
        let group = serviceGroup(services, logger: logger)
        logger.info("started", metadata: ["version": "\(GatewayVersion.text)"])
        do {
            try await group.run()
        } catch {
            logger.error("service failed: \(error)")
            try await leave(gateway, clock, notifier)
            throw SettingsFault(description: "run: \(error); see the log")
        }
        try await leave(gateway, clock, notifier)
    }

    private func centralSettings(_ tasks: TaskThread) -> CentralSettings {
        var central = CentralSettings(service: HeartRateService.service)
        central.tasks = tasks
        central.power = PowerPolicy(rawValue: settings.powerOn) ?? .always
        central.frameAgeMax = settings.frameAgeMax
        let owed = OwedAdapters(stateDirectory: settings.stateDirectory)
        central.adaptersOwed = owed.read()
        central.notesAdaptersOwed = { owed.write($0) }
        let helper = RadioResetClient(socketPath: settings.radioResetSocket)
        // On its own thread: the kernel may take long with a hung controller.
        central.resetsController = { address in
            await OwnThread.value("radio reset") { helper.reset(address) }
        }
        return central
    }

    private func makeLogger() -> Logger {
        LoggingSystem.bootstrap { label in
            var handler = PrintableLogHandler(StreamLogHandler.standardError(label: label))
            handler.logLevel = settings.logLevel
            return handler
        }
        return Logger(label: "edge-gateway")
    }

    private func openQueue(
        clock: SystemClock, _ thread: TaskThread, _ notifier: SystemdNotifier
    ) throws(SettingsFault) -> SampleQueue {
        do {
            try FileManager.default.createDirectory(
                atPath: settings.stateDirectory, withIntermediateDirectories: true,
                attributes: [.posixPermissions: 0o700])
        } catch {
            // A disk that takes nothing now may do so later; samples wait in memory.
            let room = DiskRoom(at: settings.stateDirectory)
            guard let room, room.isFull || room.isReadOnly else {
                throw SettingsFault(
                    description:
                        "open store: the directory \(settings.stateDirectory) cannot be created; "
                        + "set `state` or EDGE_GATEWAY_STATE to one that this user may write")
            }
        }
        guard let bootID = BootID.current() else {
            throw SettingsFault(description: "open store: /proc is not mounted; mount it")
        }
        do {
            return try SampleQueue(
                path: settings.storePath,
                settings: settings.store(ProcessInfo.processInfo.environment), clock: clock,
                bootID: bootID, executor: thread,
                whileCopying: { notifier.feedWatchdog() })
        } catch {
            throw SettingsFault(description: "\(error)")
        }
    }

    private func repairModes(_ logger: Logger) {
        let (open, left) = StateModes(directory: settings.stateDirectory).repair()
        if !open.isEmpty {
            logger.notice(
                "other users had rights to the state directory or to files in it, and have them no longer",
                metadata: ["count": "\(open.count)"])
        }
        if open.contains(where: { $0.contains("/tokens-") }) {
            logger.warning(
                "other users may have read tokens; if you do not trust them, enroll again")
        }
        for path in left {
            logger.error(
                "\(path): other users have rights to it; chown it to this user, and chmod go= it")
        }
    }

    /// - Throws: ``SettingsFault`` while another daemon has the control socket.
    private func claim(_ place: ControlSocketPlace) throws(SettingsFault) {
        do {
            try place.claim()
        } catch {
            guard case .taken(let reason) = error else { return }
            throw SettingsFault(description: reason, setting: "socket")
        }
    }

    private func begin(_ gateway: Gateway) async throws(SettingsFault) {
        do {
            try await gateway.startup.begin()
        } catch {
            throw SettingsFault(description: "read store: \(error)")
        }
        await gateway.metrics.begin()
    }

    private func leave(
        _ gateway: Gateway, _ clock: any GatewayClock, _ notifier: SystemdNotifier
    ) async throws(SettingsFault) {
        notifier.send("STOPPING=1")
        try await gateway.leave(clock: clock)
    }

    private func serviceGroup(_ services: [any Service], logger: Logger) -> ServiceGroup {
        var quiet = logger
        quiet.logLevel = max(logger.logLevel, .warning)
        var configuration = ServiceGroupConfiguration(
            services: services, gracefulShutdownSignals: [.sigterm, .sigint], logger: quiet)
        configuration.maximumGracefulShutdownDuration = Self.shutdownMax
        return ServiceGroup(configuration: configuration)
    }
}

extension SystemClock {
    init(_ settings: Settings, uptime: UptimeClock = .system) {
        self.init(
            trust: settings.clockTrust, latestYear: settings.clockLatestYear, uptime: uptime)
    }
}

extension Settings {
    /// How the store is set up.
    func store(_ environment: [String: String]) -> QueueSettings {
        var store = QueueSettings()
        store.commitSamplesMax = commitSamples
        store.commitAgeMax = commitInterval
        store.framesUnderWayMax = CentralSettings.gatherPauseMax(frameAgeMax: frameAgeMax)
        store.keepDelivered = .seconds(Int64(keepDeliveredHours) * 3_600)
        store.maxBytes = storeBytesMax
        store.fullPolicy = fullPolicy
        if sampleAgeDaysMax > 0 { store.maxAge = Coverage.day * sampleAgeDaysMax }
        store.staysAvailable = true
        store.asideDirectories = asideDirectories(environment)
        store.isStoreExpected = hasTokenFiles
        return store
    }

    /// Where samples are set aside that the store does not take at the end: the runtime directory is
    /// memory, and lasts until the machine is switched off.
    func asideDirectories(_ environment: [String: String]) -> [String] {
        let runtime = environment["RUNTIME_DIRECTORY"]?.split(separator: ":").map(String.init)
        let socket = URL(filePath: socketPath).deletingLastPathComponent().path
        var directories: [String] = []
        for directory in (runtime ?? []) + [socket, stateDirectory]
        where !directory.isEmpty && !directories.contains(directory) {
            directories.append(directory)
        }
        return directories
    }

    /// Whether there are tokens of enrollments.
    var hasTokenFiles: Bool {
        let names = try? FileManager.default.contentsOfDirectory(atPath: stateDirectory)
        return names?.contains { $0.hasPrefix("tokens-") } ?? false
    }
}

extension Settings {
    /// How old frames may be before the store gets them. With small groups they do not gather: more could than a group
    /// has.
    var frameAgeMax: Duration {
        commitSamples < CentralSettings.gatheredFramesMax ? .zero : commitInterval
    }
}
