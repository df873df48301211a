import Foundation
import Testbed
import Testing

/// The real binary on a real dbus-daemon with a simulated bluetoothd and a stand-in exchange.
struct Bench {
    static let patients = [40001, 40002]
    static let addresses = ["C0:00:00:00:00:01", "C0:00:00:00:00:02"]

    let bus: PrivateBus
    let bluez: SimulatedBlueZ
    let exchange: StandInExchange
    let gateway: GatewayProcess

    /// Runs `body` in a fresh bench and clears it away; the gateway's log shows when it throws.
    static func run(
        straps: Int = 1, settings: [String: String] = [:], starts: Bool = true,
        version: ExchangeVersion = .head, seed: ExchangeSeed = .standard,
        _ body: (Bench) async throws -> Void
    ) async throws {
        let bus = try await PrivateBus.start()
        let heart = try RecordedHeart.oneHour()
        let bluez = try await SimulatedBlueZ.start(
            on: bus,
            straps: addresses.prefix(straps).enumerated().map { index, address in
                SimulatedStrap(
                    address: address, name: "Strap \(index + 1)", heart: heart,
                    firstBeat: index * 700)
            })
        let exchange = try await StandInExchange.start(version: version, seed: seed)
        let quick = [
            "EDGE_GATEWAY_UPLINK_INTERVAL_SECONDS": "1", "EDGE_GATEWAY_STORAGE_COMMIT_SECONDS": "1",
        ]
        let bench = Bench(
            bus: bus, bluez: bluez, exchange: exchange,
            gateway: try GatewayProcess(
                busAddress: bus.address, settings: quick.merging(settings) { $1 }))
        do {
            if starts { try await bench.gateway.start() }
            try await body(bench)
        } catch {
            Issue.record("\(error); the gateway's log ends:\n\(bench.gateway.logTail())")
        }
        await bench.gateway.remove()
        await exchange.stop()
        await bluez.stop()
        await bus.stop()
    }

    /// Runs a command that must succeed and returns what it printed.
    @discardableResult
    func command(_ words: String..., input: String = "") async throws -> String {
        let outcome = try await gateway.command(words, input: input)
        guard outcome.status == 0 else {
            throw GatewayProcess.Fault(
                description: "\(words[0]) left with \(outcome.status): \(outcome.complaint)")
        }
        return outcome.output
    }

    /// Enrolls and pairs strap `index` for its own patient.
    func put(on index: Int) async throws {
        let link = await exchange.invite(patient: Self.patients[index])
        try await command("enroll", "-", "--name", "e\(index)", input: link)
        try await command("pair", Self.addresses[index], "--enrollment", "e\(index)")
    }

    /// Waits for the daemon to be in a state; there is no event to wait for from outside.
    @discardableResult
    func eventually(
        _ what: String, withinSeconds seconds: Int = 30,
        _ holds: (GatewayStatus) async throws -> Bool
    ) async throws -> GatewayStatus {
        let clock = ContinuousClock()
        let deadline = clock.now + .seconds(seconds)
        while clock.now < deadline {
            let status = try await gateway.status()
            if try await holds(status) { return status }
            try await Task.sleep(for: .milliseconds(100))
        }
        throw GatewayProcess.Fault(description: "\(what): not within \(seconds) s")
    }

    /// Stops the straps and waits until everything they sent has been delivered.
    func settle(withinSeconds seconds: Int = 60) async throws -> GatewayStatus {
        await bluez.setSendsFrames(false)
        // The last frames are still on the bus: until two looks, a hand-over and more apart, agree.
        var received = -1
        try await eventually("no more frames", withinSeconds: seconds) { status in
            if status.balance.received == received { return true }
            received = status.balance.received
            try await Task.sleep(for: .seconds(1))
            return false
        }
        return try await eventually("everything delivered", withinSeconds: seconds) {
            $0.balance.unsent == 0 && $0.balance.buffered == 0 && $0.balance.delivered > 0
        }
    }

    /// The exchange has each delivered sample once, and no request of ours raced another.
    func expectExactlyOnce(_ balance: GatewayStatus.Balance) async {
        #expect(balance.addsUp && balance.balanced)
        #expect(await exchange.storedCount() == balance.delivered)
        #expect(await exchange.duplicates.isEmpty)
        #expect(await exchange.orphans == 0)
        #expect(await exchange.overlappingRequests == 0)
    }
}
