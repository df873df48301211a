import Foundation
import Testbed
import Testing

/// The real binary in a time that runs fast, on a bus with a simulated bluetoothd and a stand-in
/// exchange: conditions that take minutes to show take seconds.
struct HealthBench {
    static let addresses = ["C0:00:00:00:00:01", "C0:00:00:00:00:02"]
    static let adapter = "00:1A:7D:DA:71:01"
    static let device = 70007
    /// Seconds of the gateway for one of the host.
    private static let speed: Int64 = 10
    /// Host's seconds; a loaded machine needs many.
    private static let patience = 90.0

    let clock: FastClock
    let bus: PrivateBus
    let bluez: SimulatedBlueZ
    let exchange: StandInExchange
    let gateway: GatewayProcess
    let disk: SmallDisk?

    var store: URL {
        disk.map { URL(filePath: $0.path + "/state/queue.sqlite") }
            ?? gateway.directory.appending(path: "state/queue.sqlite")
    }

    static func run(
        linksMax: Int = 16, onSmallDisk: Bool = false, settings: [String: String] = [:],
        _ body: (HealthBench) async throws -> Void
    ) async throws {
        let path = FileManager.default.temporaryDirectory
            .appending(path: "health-time-\(UInt32.random(in: 0 ... .max))").path
        let clock = try FastClock(speed: speed, path: path)
        clock.setSynchronised()
        let bus = try await PrivateBus.start()
        let heart = try RecordedHeart.steady(milliseconds: 1000)
        let bluez = try await SimulatedBlueZ.start(
            on: bus, adapters: [SimulatedAdapter(address: adapter, linksMax: linksMax)],
            straps: addresses.enumerated().map {
                SimulatedStrap(address: $1, name: "Strap \($0 + 1)", heart: heart)
            }, pace: .realTime(speed: Double(speed)))
        let exchange = try await StandInExchange.start(
            time: ExchangeTime(
                now: { Date(timeIntervalSince1970: Double(clock.now) / 1e6) },
                sleep: { try? await Task.sleep(for: $0 / Double(speed)) }))
        let disk = onSmallDisk ? try await SmallDisk.make() : nil
        var all = settings
        all["EDGE_GATEWAY_CLOCK_TRUST"] = "kernel"
        all["EDGE_GATEWAY_UPLINK_INTERVAL_SECONDS"] = "5"
        if let disk { all["EDGE_GATEWAY_STATE"] = disk.path + "/state" }
        let bench = HealthBench(
            clock: clock, bus: bus, bluez: bluez, exchange: exchange,
            gateway: try GatewayProcess(
                busAddress: bus.address, settings: all, daemonVariables: clock.variables),
            disk: disk)
        do {
            try await body(bench)
        } catch {
            Issue.record("\(error); the gateway's log ends:\n\(bench.gateway.logTail())")
        }
        await bench.gateway.kill()
        await bench.gateway.remove()
        await exchange.stop()
        await bluez.stop()
        await bus.stop()
        await disk?.remove()
        try? FileManager.default.removeItem(atPath: path)
    }

    @discardableResult
    func command(_ words: String..., input: String = "") async throws -> String {
        let outcome = try await gateway.command(words, input: input)
        guard outcome.status == 0 else {
            throw GatewayProcess.Fault(
                description: "\(words[0]) left with \(outcome.status): \(outcome.complaint)")
        }
        return outcome.output
    }

    /// Starts, enrolls a patient and pairs a strap.
    func record(_ index: Int = 0) async throws {
        if await !gateway.isRunning { try await gateway.start() }
        let link = await exchange.invite(patient: 40001 + index)
        try await command("enroll", "-", "--name", "e\(index)", input: link)
        try await command("pair", Self.addresses[index], "--enrollment", "e\(index)")
    }

    /// Enrolls by a practitioner's key and pairs a strap for a patient.
    func recordByKey(patient: Int) async throws {
        try await gateway.start()
        let key = ExchangeSeed.standard.practitionerKeys[0]
        let secret = Data("\(key.clientID):\(key.secret)".utf8).base64EncodedString()
        let file = gateway.directory.appending(path: "key.json").path
        try #"{"id":7,"label":"g","created":"2026-11-20T10:00:00Z","name":"g","key":"\#(secret)"}"#
            .write(toFile: file, atomically: true, encoding: .utf8)
        chmod(file, 0o600)
        try await command(
            "enroll", "--practitioner-key-file", file, "--name", "ward", "--exchange",
            "http://127.0.0.1:\(exchange.port)", "--device", "\(Self.device)")
        try await command("pair", Self.addresses[0], "--patient", "\(patient)")
    }

    /// Waits for the daemon to be in a state; there is no event to wait for from outside.
    @discardableResult
    func eventually(
        _ what: String, _ holds: (GatewayStatus) async throws -> Bool
    ) async throws -> GatewayStatus {
        let deadline = ContinuousClock.now + .seconds(Self.patience)
        var last: GatewayStatus?
        while ContinuousClock.now < deadline {
            let status = try await gateway.status()
            if try await holds(status) { return status }
            last = status
            try await Task.sleep(for: .milliseconds(100))
        }
        let health = last?.health.map { "\($0.name): \($0.message)" } ?? []
        throw GatewayProcess.Fault(
            description: "\(what): not within \(Self.patience) s; \(health)")
    }

    func delivered() async throws {
        try await eventually("a delivery") { $0.balance.delivered > 0 }
    }

    /// Waits for so many of the gateway's seconds.
    func pass(seconds: Double) async { await clock.sleep(until: clock.seconds + seconds) }
}
