import Figures
import Foundation
import Testbed

/// What draining a backlog took.
struct DrainCost: Codable {
    /// User and system, all threads; what the process takes anyway while it waits is not counted.
    var cpuSeconds: Double
    /// Resident memory at its highest, above what it was before.
    var peakKiB: Int
    /// From the first request to the last observation stored.
    var wallSeconds: Double
    /// Bundles the exchange read; more than there are hundreds of samples if some were sent again.
    var bundles: Int
    /// Observations the exchange lacks or has too many, stored twice, or raced for.
    var faults: Int
}

/// The release `edge-gateway run` with its default settings, enrolled through its own commands.
struct GatewayDrain {
    let binary: URL

    /// After a start: allocations, the first look at everything.
    private static let settlePause = Duration.seconds(5)
    /// Until its first request: without a network it rests for a minute at most.
    private static let requestPatience = Duration.seconds(90)
    /// What the last answer costs the gateway is done by then.
    private static let endPause = Duration.seconds(1)
    /// That it was delivered is written with a commit that follows within 5 s.
    private static let settlePatience = Duration.seconds(30)

    func cost(of backlog: Backlog) async throws -> DrainCost {
        try await DrainWorld.with(binary, deliveries: 1) { gateway, exchange in
            try await fill(gateway, exchange, backlog)
            return try await drain(gateway, exchange, backlog)
        }
    }

    private func fill(
        _ gateway: GatewayProcess, _ exchange: StandInExchange, _ backlog: Backlog
    ) async throws {
        try await gateway.start(with: ["EDGE_GATEWAY_UPLINK_INTERVAL_SECONDS": "1"])
        try await DrainWorld.fill(gateway, exchange, [backlog])
        // After a request that was sent and not answered, the next start waits for 30 s before it sends the same
        // samples: time to look at it while it waits.
        await exchange.inject(.hangUp, on: [.bundle], for: .untilCleared)
        try await exchange.restoreNetwork()
        try await waitForRequest(at: exchange)
        // What importing took is not to be seen in the memory of the one that delivers.
        await gateway.stop()
        await exchange.clearFaults()
        try await gateway.start()
    }

    private func waitForRequest(at exchange: StandInExchange) async throws {
        let deadline = ContinuousClock.now + Self.requestPatience
        while ContinuousClock.now < deadline {
            if await exchange.requests.contains(where: { $0.route == .bundle }) { return }
            try await Task.sleep(for: .milliseconds(20))
        }
        throw FixtureFault(description: "it tries nothing")
    }

    private func drain(
        _ gateway: GatewayProcess, _ exchange: StandInExchange, _ backlog: Backlog
    ) async throws -> DrainCost {
        guard let pid = await gateway.processID else {
            throw FixtureFault(description: "the gateway does not run")
        }
        try await Task.sleep(for: Self.settlePause)
        guard await exchange.storedCount() == 0 else {
            throw FixtureFault(description: "it delivers already")
        }
        let idleKiB = try ProcessFigures.memory(of: pid).residentKiB
        try ProcessFigures.resetPeak(of: pid)
        await exchange.forgetRequests()
        let before = try Reading(pid)
        let wall = try await DrainWorld.secondsToStore(backlog.samples, at: exchange)
        try await Task.sleep(for: Self.endPause)
        let after = try Reading(pid)
        let peakKiB = try ProcessFigures.peakResidentKiB(of: pid) - idleKiB
        // As long again with nothing to do.
        try await Task.sleep(for: .seconds(wall))
        let idle = try Reading(pid)
        let isSettled = try await isSettled(gateway, backlog)
        return DrainCost(
            cpuSeconds: (after - before) - (idle - after) / (idle.at - after.at).inSeconds
                * (after.at - before.at).inSeconds,
            peakKiB: peakKiB, wallSeconds: wall, bundles: await DrainWorld.bundles(at: exchange),
            faults: await DrainWorld.faults(backlog.samples, at: exchange) + (isSettled ? 0 : 1))
    }
}

extension GatewayDrain {
    private func isSettled(_ gateway: GatewayProcess, _ backlog: Backlog) async throws -> Bool {
        let deadline = ContinuousClock.now + Self.settlePatience
        while ContinuousClock.now < deadline {
            let balance = try await gateway.status().balance
            if balance.delivered == backlog.samples, balance.unsent == 0 { return true }
            try await Task.sleep(for: .milliseconds(200))
        }
        return false
    }
}

/// `peer.py`: requests and sqlite3.
struct PeerDrain {
    let python: String
    let script: String

    /// To read the backlog and enroll, or to end.
    private static let patience = Duration.seconds(120)

    func cost(of backlog: Backlog) async throws -> DrainCost {
        try await with(backlog) { try await drain($0, $1, backlog) }
    }

    /// Starts it beside an exchange with `backlog` in its store, which it sends when it is let go on.
    func with<Value: Sendable>(
        _ backlog: Backlog, _ body: (ChildProcess, StandInExchange) async throws -> Value
    ) async throws -> Value {
        let exchange = try await StandInExchange.start(seed: .withPatients(1))
        let directory = FileManager.default.temporaryDirectory
            .appending(path: "peer-\(UInt32.random(in: 0 ... .max))")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: directory) }
        let file = directory.appending(path: "backlog.ndjson").path
        try backlog.write(to: file, patient: DrainWorld.patient)
        let token = String(await exchange.invite(patient: DrainWorld.patient).suffix(32))
        let log = directory.appending(path: "log").path
        let process = try await ChildProcess.launch(
            python,
            [
                script, directory.appending(path: "peer.sqlite").path, file, exchange.baseURL,
                token, "\(DrainWorld.device)", "\(DrainWorld.patient)",
            ], environment: ProcessInfo.processInfo.environment, log: log)
        do {
            try await waitUntilStopped(process)
            let value = try await body(process, exchange)
            await process.stop()
            await exchange.stop()
            return value
        } catch {
            await process.stop()
            await exchange.stop()
            let text = (try? String(contentsOfFile: log, encoding: .utf8)) ?? ""
            throw FixtureFault(description: "peer: \(error)\n\(text.suffix(1000))")
        }
    }

    private func drain(
        _ process: ChildProcess, _ exchange: StandInExchange, _ backlog: Backlog
    ) async throws -> DrainCost {
        let idleKiB = try ProcessFigures.memory(of: process.pid).residentKiB
        try ProcessFigures.resetPeak(of: process.pid)
        let before = try Reading(process.pid)
        process.signal(SIGCONT)
        let wall = try await DrainWorld.secondsToStore(backlog.samples, at: exchange)
        try await waitUntilStopped(process)
        let after = try Reading(process.pid)
        return DrainCost(
            cpuSeconds: after - before,
            peakKiB: try ProcessFigures.peakResidentKiB(of: process.pid) - idleKiB,
            wallSeconds: wall, bundles: await DrainWorld.bundles(at: exchange),
            faults: await DrainWorld.faults(backlog.samples, at: exchange))
    }

    private func waitUntilStopped(_ process: ChildProcess) async throws {
        let deadline = ContinuousClock.now + Self.patience
        while ContinuousClock.now < deadline, process.isRunning {
            if try ProcessFigures.state(of: process.pid) == "T" { return }
            try await Task.sleep(for: .milliseconds(20))
        }
        throw FixtureFault(description: "it does not come to where it stops itself")
    }
}

/// What both have in common.
enum DrainWorld {
    /// The peer's patient, and the device for the invitation.
    static let patient = ExchangeSeed.patient(0)
    static let device = 70007
    /// Between two looks at the exchange: what the time is measured to.
    private static let lookPause = Duration.milliseconds(5)
    /// A client that brings nothing for so long does not come.
    private static let silence = Duration.seconds(90)

    /// Runs `body` with a gateway that has not been started, and an exchange with so many patients.
    static func with<Value: Sendable>(
        _ binary: URL, deliveries: Int,
        _ body: (GatewayProcess, StandInExchange) async throws -> Value
    ) async throws -> Value {
        let bus = try await PrivateBus.start()
        let exchange = try await StandInExchange.start(seed: .withPatients(deliveries))
        let gateway = try GatewayProcess(binary: binary, busAddress: bus.address)
        return try await gateway.removed {
            try await body(gateway, exchange)
        } then: {
            await exchange.stop()
            await bus.stop()
        }
    }

    /// Enrolls a patient for each backlog and imports it, without a network in the end.
    static func fill(
        _ gateway: GatewayProcess, _ exchange: StandInExchange, _ backlogs: [Backlog]
    ) async throws {
        for number in backlogs.indices {
            let link = await exchange.invite(patient: ExchangeSeed.patient(number))
            try await gateway.succeed(["enroll", "-", "--name", "e\(number)"], input: link)
        }
        await exchange.cutNetwork()
        for (number, backlog) in backlogs.enumerated() {
            let file = gateway.directory.appending(path: "backlog.ndjson").path
            try backlog.write(to: file, patient: ExchangeSeed.patient(number))
            try await gateway.succeed(["queue", "import", file, "--enrollment", "e\(number)"])
        }
    }

    /// Waits until the exchange has so many observations; how long after the first bundle that was.
    static func secondsToStore(_ count: Int, at exchange: StandInExchange) async throws -> Double {
        var first: ContinuousClock.Instant?
        var stored = 0
        var moved = ContinuousClock.now
        while true {
            let now = ContinuousClock.now
            let present = await exchange.storedCount()
            if present != stored { (stored, moved) = (present, now) }
            if first == nil, await exchange.requests.contains(where: { $0.entries != nil }) {
                first = now
            }
            if stored >= count, let first { return (now - first).inSeconds }
            guard now - moved < silence else {
                throw FixtureFault(description: "\(stored) of \(count) came")
            }
            try await Task.sleep(for: lookPause)
        }
    }

    static func bundles(at exchange: StandInExchange) async -> Int {
        await exchange.requests.count { $0.entries != nil }
    }

    static func faults(_ count: Int, at exchange: StandInExchange) async -> Int {
        abs(await exchange.storedCount() - count) + (await exchange.duplicates.count)
            + (await exchange.orphans) + (await exchange.overlappingRequests)
    }
}

/// CPU time and when it was read.
private struct Reading {
    var at: ContinuousClock.Instant
    var cpuMicroseconds: Int

    init(_ pid: pid_t) throws {
        at = .now
        cpuMicroseconds = try ProcessFigures.cpuMicroseconds(of: pid)
    }

    /// Seconds of CPU time between two.
    static func - (later: Reading, earlier: Reading) -> Double {
        Double(later.cpuMicroseconds - earlier.cpuMicroseconds) / 1_000_000
    }
}

extension Duration {
    fileprivate var inSeconds: Double { self / .seconds(1) }
}
