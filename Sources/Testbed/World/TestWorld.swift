import Foundation

/// The real `edge-gateway` in a world of its own: a dbus-daemon, a simulated bluetoothd with straps, and
/// a stand-in exchange; in the host's time or, with the preloaded FastTime, in one that runs fast.
package struct TestWorld: Sendable {
    /// The parts of a world. Each part has a default that a test need not think of.
    package struct Setup: Sendable {
        /// How many of ``TestWorld/addresses`` are straps.
        package var straps = 1
        /// The heart in them; nil for an hour that was recorded.
        package var heart: RecordedHeart?
        /// Whether straps send of their own accord.
        package var sendsFrames = true
        /// Links that the adapter carries.
        package var linksMax = 16
        /// Seed of what the radio leaves to chance.
        package var radioSeed: UInt64 = 1
        /// The exchange's version and what it knows.
        package var version: ExchangeVersion = .head
        package var seed: ExchangeSeed = .standard
        /// The faults between gateway and exchange, once the proxy is not calm; nil for no proxy.
        package var network: NetworkFaultScript?
        /// Seconds of the world for one of an idle host; nil for the host's own time.
        package var speed: Int64?
        /// Whether the store is on a file system of its own, which can be filled. It takes root.
        package var hasSmallDisk = false
        /// `EDGE_GATEWAY_…` variables.
        package var settings: [String: String] = [:]

        package init() {}
    }

    package static let patients = [40001, 40002]
    package static let addresses = (1...4).map { "C0:00:00:00:00:0\($0)" }
    /// The adapter.
    package static let adapter = SimulatedAdapter().address
    /// How long libcurl waits for an answer.
    private static let requestPatience = Duration.seconds(60)
    /// How often the daemon is asked for its status by who waits for something: each time after an eighth of what was
    /// waited, because an answer costs a debug build more than the straps do meanwhile.
    private static let pollPause = Duration.milliseconds(50)...Duration.milliseconds(400)

    /// The world's time; nil when it is the host's.
    package let clock: FastClock?
    package let bus: PrivateBus
    package let bluez: SimulatedBlueZ
    package let exchange: StandInExchange
    package let proxy: FaultProxy?
    package let gateway: GatewayProcess
    package let disk: SmallDisk?

    /// The gateway's store.
    package var storePath: String {
        (disk?.path ?? gateway.directory.path) + "/state/queue.sqlite"
    }

    // MARK: Begin and end

    /// Makes a world around a gateway that has not been started.
    ///
    /// - Throws: when a part cannot be had; those before it are ended.
    package static func make(_ setup: Setup) async throws -> TestWorld {
        var cleanUp: [@Sendable () async -> Void] = []
        do {
            return try await make(setup, &cleanUp)
        } catch {
            for step in cleanUp.reversed() { await step() }
            throw error
        }
    }

    private static func make(
        _ setup: Setup, _ cleanUp: inout [@Sendable () async -> Void]
    ) async throws -> TestWorld {
        let bus = try await PrivateBus.start()
        cleanUp.append { await bus.stop() }
        let clock = try setup.speed.map {
            try FastClock(
                speed: $0,
                path: FileManager.default.temporaryDirectory
                    .appending(path: "world-time-\(UInt32.random(in: 0 ... .max))").path,
                helpers: bus.processes)
        }
        cleanUp.append { Self.end(clock) }
        let heart = try setup.heart ?? RecordedHeart.oneHour()
        let bluez = try await SimulatedBlueZ.start(
            on: bus, adapters: [SimulatedAdapter(linksMax: setup.linksMax)],
            straps: addresses.prefix(setup.straps).enumerated().map { index, address in
                SimulatedStrap(
                    address: address, name: "Strap \(index + 1)", heart: heart,
                    firstBeat: setup.heart == nil ? index * 700 : 0)
            }, pace: clock.map { .following($0) } ?? .realTime(speed: 1),
            sendsFrames: setup.sendsFrames, seed: setup.radioSeed)
        cleanUp.append { await bluez.stop() }
        let exchange = try await StandInExchange.start(
            version: setup.version, seed: setup.seed, time: clock?.exchangeTime ?? .real)
        cleanUp.append { await exchange.stop() }
        let proxy = try setup.network.map {
            try FaultProxy(
                serverPort: exchange.port, script: $0, patience: requestPatience, clock: clock)
        }
        cleanUp.append { proxy?.stop() }
        if let proxy { clock?.lead(port: exchange.port, to: Int(proxy.socketPath) ?? 0) }
        let disk = setup.hasSmallDisk ? try await SmallDisk.make() : nil
        cleanUp.append { await disk?.remove() }
        var settings = setup.settings
        if let disk { settings["EDGE_GATEWAY_STATE"] = disk.path + "/state" }
        return TestWorld(
            clock: clock, bus: bus, bluez: bluez, exchange: exchange, proxy: proxy,
            gateway: try GatewayProcess(
                busAddress: bus.address, settings: settings,
                daemonVariables: clock?.variables ?? [:]), disk: disk)
    }

    /// Ends everything, the gateway first.
    ///
    /// - Returns: what did not end as it should, in a line; nil when all is well.
    @discardableResult
    package func end() async -> String? {
        // A task that was cancelled cannot wait any more, and this has to be waited for.
        await Task.detached {
            let isGone = await gateway.remove()
            proxy?.stop()
            await exchange.stop()
            await bluez.stop()
            await bus.stop()
            await disk?.remove()
            Self.end(clock)
            return isGone ? nil : "the gateway did not end after SIGTERM, and was killed"
        }.value
    }

    private static func end(_ clock: FastClock?) {
        guard let clock else { return }
        clock.stop()
        try? FileManager.default.removeItem(atPath: clock.path)
    }

    /// Runs `body` in a fresh world and clears it away, whatever happens.
    ///
    /// - Parameter starts: whether the gateway is running when `body` begins.
    /// - Throws: what `body` throws, with the gateway's last health and the end of its log.
    package static func run(
        _ setup: Setup, starts: Bool = true, _ body: (TestWorld) async throws -> Void
    ) async throws {
        let world = try await make(setup)
        var fault: GatewayProcess.Fault?
        do {
            if starts { try await world.gateway.start() }
            try await body(world)
        } catch {
            fault = await world.explained(error)
        }
        let complaint = await world.end()
        if let fault { throw fault }
        if let complaint { throw GatewayProcess.Fault(description: complaint) }
    }

    /// An error with the state of the world in which it came up.
    private func explained(_ error: any Error) async -> GatewayProcess.Fault {
        var text = "\(error)"
        if let status = try? await gateway.status() {
            text += "\nthe gateway's last word: \(status.summary)"
        }
        return GatewayProcess.Fault(
            description: "\(text)\nthe gateway's log ends:\n\(gateway.logTail())")
    }

    // MARK: What people do

    /// Runs a command that must succeed and returns what it printed.
    @discardableResult
    package func command(_ words: String..., input: String = "") async throws -> String {
        try await gateway.succeed(words, input: input)
    }

    /// Enrolls and pairs strap `index` for its own patient.
    package func put(on index: Int) async throws {
        let link = await exchange.invite(patient: Self.patients[index])
        try await command("enroll", "-", "--name", "e\(index)", input: link)
        try await command("pair", Self.addresses[index], "--enrollment", "e\(index)")
    }

    // MARK: Waiting

    /// Waits for the daemon to be in a state; there is no event to wait for from outside.
    ///
    /// - Parameters:
    ///   - what: for the failure.
    ///   - seconds: of the world, at most, where the product promises them; without it two minutes of the host, as a
    ///     last resort.
    @discardableResult
    package func eventually(
        _ what: String, withinSeconds seconds: Int? = nil,
        _ holds: (GatewayStatus) async throws -> Bool
    ) async throws -> GatewayStatus {
        let seconds = seconds ?? Int(120 * (clock?.speed ?? 1))
        let (began, end) = (ContinuousClock.now, now + Double(seconds))
        while true {
            let isLast = now >= end
            let status = try await gateway.polledStatus()
            if try await holds(status) { return status }
            guard !isLast else {
                throw GatewayProcess.Fault(
                    description: "\(what): not within \(seconds) s; \(status.summary)")
            }
            let (least, most) = (Self.pollPause.lowerBound, Self.pollPause.upperBound)
            let pause = min(max((ContinuousClock.now - began) / 8, least), most)
            let left = Duration.seconds(max(end - now, 0) / Double(clock?.speed ?? 1))
            try await Task.sleep(for: min(pause, max(left, least)))
        }
    }

    /// Waits for so many seconds of the world.
    package func pass(seconds: Double) async throws {
        if let clock {
            await clock.sleep(until: clock.seconds + seconds)
            try Task.checkCancellation()
        } else {
            try await Task.sleep(for: .seconds(seconds))
        }
    }

    /// Seconds, of the world.
    private var now: Double { clock?.seconds ?? Double(DispatchTime.now().uptimeNanoseconds) / 1e9 }

    /// Stops the straps and waits until what they sent has come through the bus.
    package func hush(withinSeconds seconds: Int? = nil) async throws {
        await bluez.setSendsFrames(false)
        // The last frames are still on the bus: until two looks, a hand-over and more apart, agree.
        var received = -1
        try await eventually("no more frames", withinSeconds: seconds) { status in
            if status.balance.received == received { return true }
            received = status.balance.received
            try await pass(seconds: 1)
            return false
        }
    }

    /// Stops the straps and waits until everything they sent has been delivered.
    package func settle(withinSeconds seconds: Int? = nil) async throws -> GatewayStatus {
        try await hush(withinSeconds: seconds)
        return try await eventually("everything delivered", withinSeconds: seconds) {
            $0.balance.unsent == 0 && $0.balance.buffered == 0 && $0.balance.delivered > 0
        }
    }

    /// The evidence against the exchange having each delivered sample once, and against no request of ours
    /// having raced another; empty when nothing does.
    package func deliveryFaults(_ balance: GatewayStatus.Balance) async -> [String] {
        var faults: [String] = []
        if !balance.addsUp || !balance.balanced { faults.append("books: \(balance)") }
        let stored = await exchange.storedCount()
        if stored != balance.delivered {
            faults.append("the exchange has \(stored) of \(balance.delivered) delivered")
        }
        let duplicates = await exchange.duplicates
        if !duplicates.isEmpty { faults.append("twice: \(duplicates)") }
        let orphans = await exchange.orphans
        if orphans != 0 { faults.append("\(orphans) orphans") }
        let overlaps = await exchange.overlappingRequests
        if overlaps != 0 { faults.append("\(overlaps) requests at once with the same samples") }
        return faults
    }
}

extension GatewayStatus {
    /// Its health, sensors and books in a few lines, for who reads a failure.
    package var summary: String {
        let lines =
            health.map { "\($0.name): \($0.message)" }
            + sensors.map { "\($0.name) \($0.link), \($0.stored) stored, \($0.pending) pending" }
            + ["\(balance)"]
        return lines.joined(separator: "\n")
    }
}
