import Foundation
import Testbed

/// A world in fast time amid everything that can go wrong around the gateway, with an account of what was
/// sent and what happened.
final class ChaosRun: Sendable {
    static let patients = TestWorld.patients
    static let straps = TestWorld.addresses.count
    /// How long a frame may be on its way from strap to gateway, in seconds of the world: it stands still
    /// while the machine is busy, but for a step now and then.
    static let waySecondsMax = 5.0
    /// How long a start is tried again: systemd does it for ever.
    private static let startTries = 400

    let world: TestWorld
    let clock: FastClock
    let proxy: FaultProxy
    let straps: ChaosStraps
    let log: ChaosLog

    var bus: PrivateBus { world.bus }
    var bluez: SimulatedBlueZ { world.bluez }
    var exchange: StandInExchange { world.exchange }
    var gateway: GatewayProcess { world.gateway }
    var disk: SmallDisk? { world.disk }
    var storePath: String { world.storePath }

    private init(_ world: TestWorld, _ clock: FastClock, _ proxy: FaultProxy) {
        self.world = world
        self.clock = clock
        self.proxy = proxy
        straps = ChaosStraps(clock, patients: [40001, 40002, 40001, 40001])
        log = ChaosLog(clock)
    }

    /// Runs `body` in a fresh world whose straps send a frame every `frameSeconds`, and clears it away.
    static func run(
        seed: UInt64, speed: Int64, connections: Int, frameSeconds: Double,
        settings: [String: String] = [:], _ body: (ChaosRun) async throws -> Void
    ) async throws {
        var setup = TestWorld.Setup()
        setup.straps = straps
        setup.heart = try RecordedHeart.steady(milliseconds: 1000)
        setup.sendsFrames = false
        setup.radioSeed = seed
        setup.network = NetworkFaultScript(
            seed: seed, connections: connections, probability: 0.1)
        setup.speed = speed
        setup.hasSmallDisk = true
        setup.settings = settings
        setup.settings["EDGE_GATEWAY_CLOCK_TRUST"] = "kernel"
        print("chaos: seed \(seed)")
        try await TestWorld.run(setup, starts: false) { world in
            guard let clock = world.clock, let proxy = world.proxy else { return }
            let run = ChaosRun(world, clock, proxy)
            async let sending: Void = run.straps.run(run.bluez, every: frameSeconds)
            async let asking: Void = run.watchHealth()
            do {
                try await body(run)
            } catch {
                run.straps.stop()
                _ = await (sending, asking)
                let notes = run.log.notes.suffix(20).joined(separator: "\n")
                throw GatewayProcess.Fault(description: "seed \(seed): \(error)\n\(notes)")
            }
            run.straps.stop()
            _ = await (sending, asking)
        }
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
        for (index, address) in TestWorld.addresses.enumerated() {
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
        straps.setPatient(of: ChaosStraps.shared, nil)
        let address = TestWorld.addresses[ChaosStraps.shared]
        guard try await command("pair", address, "--enrollment", "e\(index)") != nil else { return }
        // What is under way belongs to the patient that the gateway names.
        await clock.sleep(for: .seconds(Self.waySecondsMax))
        straps.setPatient(of: ChaosStraps.shared, Self.patients[index])
    }

    /// A technician comes by: enrolls again where the exchange has revoked access.
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

    // MARK: Health

    /// Minutes for which nothing of a patient may reach the exchange while the gateway says that it is
    /// well: a cause shows after two at the latest, and then comes the way of what was under way.
    private static let unnoticedMinutesMax = 5
    /// Looks in a row at which it must say so: when one trouble follows another, the second has its two
    /// minutes as well.
    private static let wellsMin = 3
    /// A gateway that has just started has nothing to say yet, in seconds.
    private static let startSeconds = 240.0

    /// Asks once a minute of the world whether the gateway is well, and compares it with what the exchange
    /// gets: if heartbeats do not flow, it must not be well. Until the straps stop.
    func watchHealth() async {
        var arrived: [Int: [Int]] = [:]
        var wells = 0
        while straps.isSending {
            await clock.sleep(until: clock.seconds + 60)
            let status = try? await gateway.polledStatus()
            for item in status?.health ?? [] { log.said(item.name) }
            let isWell = status?.well ?? false
            wells = isWell ? wells + 1 : 0
            let rows = await exchange.stored
            for patient in Self.patients {
                let count = rows.count { $0.patient == patient }
                let before = arrived[patient, default: []].suffix(Self.unnoticedMinutesMax)
                arrived[patient] = before + [count]
                guard before.count == Self.unnoticedMinutesMax, before.first == count,
                    straps.isSending, !log.hasDied(withinSeconds: Self.startSeconds),
                    wells >= Self.wellsMin,
                    await exchange.stored.count(where: { $0.patient == patient }) == count
                else { continue }
                log.wellThough(
                    "nothing of patient \(patient) arrived for \(Self.unnoticedMinutesMax) min")
            }
        }
    }

    // MARK: Deaths

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
