import Foundation
import Testbed

/// The real `edge-gateway`, in fast time, amid everything that can go wrong around it.
final class ChaosWorld: Sendable {
    static let patients = [40001, 40002]
    /// How long the host may pause, in its own seconds: two busy cores, a debug build.
    static let hostSeconds = 1.0
    /// How long a start is tried again: systemd does it for ever.
    private static let startTries = 400

    let clock: FastClock
    let bus: PrivateBus
    let bluez: SimulatedBlueZ
    let exchange: StandInExchange
    let proxy: FaultProxy
    let gateway: GatewayProcess
    let straps: ChaosStraps
    let disk: SmallDisk?
    let log: ChaosLog

    var storePath: String {
        (disk?.path ?? gateway.directory.path) + "/state/queue.sqlite"
    }

    private init(
        clock: FastClock, bus: PrivateBus, bluez: SimulatedBlueZ, exchange: StandInExchange,
        proxy: FaultProxy, gateway: GatewayProcess, straps: ChaosStraps, disk: SmallDisk?
    ) {
        self.clock = clock
        self.bus = bus
        self.bluez = bluez
        self.exchange = exchange
        self.proxy = proxy
        self.gateway = gateway
        self.straps = straps
        self.disk = disk
        log = ChaosLog(clock)
    }

    static func start(
        seed: UInt64, speed: Int64, connections: Int, settings: [String: String] = [:]
    ) async throws -> ChaosWorld {
        let directory = FileManager.default.temporaryDirectory
            .appending(path: "chaos-time-\(UInt32.random(in: 0 ... .max))").path
        let clock = try FastClock(speed: speed, path: directory)
        let bus = try await PrivateBus.start()
        let heart = try RecordedHeart.steady(milliseconds: 1000)
        let bluez = try await SimulatedBlueZ.start(
            on: bus,
            straps: ChaosStraps.addresses.enumerated().map {
                SimulatedStrap(address: $1, name: "Strap \($0 + 1)", heart: heart)
            }, pace: .realTime(speed: Double(speed)), sendsFrames: false, seed: seed)
        let exchange = try await StandInExchange.start(
            time: ExchangeTime(
                now: { Date(timeIntervalSince1970: Double(clock.now) / 1e6) },
                sleep: { try? await Task.sleep(for: $0 / Double(speed)) }))
        // libcurl's patience with a request, a minute of its own time.
        let proxy = try FaultProxy(
            serverPort: exchange.port,
            script: NetworkFaultScript(seed: seed, connections: connections, probability: 0.1),
            patience: .seconds(60) / Double(speed))
        clock.lead(port: exchange.port, to: Int(proxy.socketPath) ?? 0)
        let disk = try await SmallDisk.make()
        var all = settings
        all["EDGE_GATEWAY_CLOCK_TRUST"] = "kernel"
        if let disk { all["EDGE_GATEWAY_STATE"] = disk.path + "/state" }
        let gateway = try GatewayProcess(
            busAddress: bus.address, settings: all, daemonVariables: clock.variables)
        return ChaosWorld(
            clock: clock, bus: bus, bluez: bluez, exchange: exchange, proxy: proxy,
            gateway: gateway,
            straps: ChaosStraps(clock, wearers: [40001, 40002, 40001, 40001]), disk: disk)
    }

    func remove() async {
        straps.stop()
        await gateway.kill()
        await gateway.remove()
        proxy.stop()
        await exchange.stop()
        await bluez.stop()
        await bus.stop()
        await disk?.remove()
        try? FileManager.default.removeItem(atPath: clock.path)
    }

    // MARK: A person's hands

    /// Runs a command; nil when it failed, which chaos may be the reason for.
    func command(_ words: String..., input: String = "") async throws -> String? {
        let outcome = try await gateway.command(words, input: input)
        if outcome.status != 0 {
            log.note("\(words[0]): \(outcome.complaint.split(separator: "\n").first ?? "")")
        }
        return outcome.status == 0 ? outcome.output : nil
    }

    /// Enrolls both patients and pairs every strap, before anything goes wrong.
    func begin() async throws {
        clock.setSynchronised()
        try await gateway.start()
        for (index, patient) in Self.patients.enumerated() {
            try await mustSucceed("enroll e\(index)") {
                let link = await exchange.invite(patient: patient)
                return try await command("enroll", "-", "--name", "e\(index)", input: link)
            }
        }
        for (index, address) in ChaosStraps.addresses.enumerated() {
            let enrollment = index == 1 ? "e1" : "e0"
            try await mustSucceed("pair \(index)") {
                try await command("pair", address, "--enrollment", enrollment)
            }
        }
    }

    private func mustSucceed(_ what: String, _ body: () async throws -> String?) async throws {
        for _ in 0..<3 where try await body() != nil { return }
        throw GatewayProcess.Fault(description: "\(what) failed:\n\(gateway.logTail())")
    }

    /// Gives the shared strap to the other patient.
    func handOver(to index: Int) async throws {
        straps.setWearer(of: ChaosStraps.shared, nil)
        let address = ChaosStraps.addresses[ChaosStraps.shared]
        guard try await command("pair", address, "--enrollment", "e\(index)") != nil else { return }
        // What is under way belongs to whoever the gateway says.
        await clock.sleep(until: clock.seconds + Self.hostSeconds * Double(clock.speed))
        straps.setWearer(of: ChaosStraps.shared, Self.patients[index])
    }

    /// A technician comes by: enrolls again whoever the exchange has locked out.
    func enrollAgain() async throws {
        for (index, patient) in Self.patients.enumerated() {
            guard let list = try await command("enrollments", "--json"),
                let all = try JSONSerialization.jsonObject(with: Data(list.utf8))
                    as? [[String: Any]],
                all.contains(where: {
                    $0["name"] as? String == "e\(index)"
                        && ($0["state"] as? String == "enroll-again"
                            || $0["held"] as? String == "enroll-again")
                })
            else { continue }
            log.note("enroll e\(index) again")
            let link = await exchange.invite(patient: patient)
            _ = try await command("enroll", "-", input: link)
        }
    }

    // MARK: Deaths

    /// Writes down when the daemon dies, until the straps stop.
    func watchDeaths() async {
        var last: pid_t?
        while straps.isSending {
            let now = await gateway.processID
            if last != nil, now != last { log.killed() }
            last = now
            try? await Task.sleep(for: .milliseconds(5))
        }
    }

    /// Kills the daemon, and starts it again as systemd does.
    func killAndStart(reboots: Bool = false) async throws {
        await gateway.kill()
        if reboots { clock.reboot() }
        try await restart()
    }

    /// Starts the daemon, until it stays.
    func restart(with variables: [String: String] = [:]) async throws {
        for _ in 0..<Self.startTries {
            do {
                try await gateway.start(with: variables)
                return
            } catch {
                if !variables.isEmpty { return }
                log.note("does not start: \(gateway.logTail(lines: 1))")
                // It may be there and not answer.
                await gateway.kill()
                await clock.sleep(until: clock.seconds + 10)
            }
        }
        throw GatewayProcess.Fault(description: "it never starts:\n\(gateway.logTail())")
    }
}
